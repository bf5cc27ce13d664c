// SPDX-License-Identifier: Apache-2.0
// A mesh answers C as it answers C++, over many meshes and all their ranks.
#include <rankmesh/rankmesh.h>

#include <gtest/gtest.h>

#include "core/laws.hpp"

namespace rankmesh::tests {
namespace {

/// What a call writes into the last place; the test fails where it returns an error.
template <class T, class Function, class... Arguments>
T answer(Function function, Arguments... arguments) {
    auto out = T{};
    EXPECT_EQ(function(arguments..., &out), RANKMESH_OK) << rankmesh_error_text();
    return out;
}

/// The same of a function that writes a list or a text: how long it is, and then the whole.
template <class T, class Function, class... Arguments>
std::vector<T> list(Function function, Arguments... arguments) {
    auto needed = std::size_t{};
    EXPECT_EQ(function(arguments..., static_cast<T*>(nullptr), 0, &needed), RANKMESH_OK)
        << rankmesh_error_text();
    auto out = std::vector<T>(needed + 1, T{77});  // one more, which stays as it is
    EXPECT_EQ(function(arguments..., out.data(), needed, nullptr), RANKMESH_OK) << rankmesh_error_text();
    EXPECT_EQ(out.back(), T{77});
    out.pop_back();
    return out;
}
template <class Function, class... Arguments>
std::string text(Function function, Arguments... arguments) {
    const auto bytes = list<char>(function, arguments...);
    EXPECT_EQ(bytes.back(), '\0');
    return bytes.data();
}

std::vector<int> listed(const Group& group) { return {group.begin(), group.end()}; }

void compare_groups(const rankmesh_mesh* c, const Mesh& mesh, AxisSet axes, const char* names) {
    const auto partition = mesh.partition(axes);
    EXPECT_EQ(answer<int>(rankmesh_mesh_partition_size, c, names), partition.size());
    EXPECT_EQ(answer<int>(rankmesh_mesh_group_size, c, names), partition.group_size());
    auto all = std::vector<int>(partition.rank_count());
    partition.copy_to(all);
    EXPECT_EQ(list<int>(rankmesh_mesh_partition, c, names), all);
    for (int g = 0; g < partition.size(); ++g)
        EXPECT_EQ(answer<int>(rankmesh_mesh_partition_first, c, names, g), partition[g].front());
    for (auto rank : mesh.ranks()) {
        const auto group = mesh.group(rank, axes);
        EXPECT_EQ(list<int>(rankmesh_mesh_group, c, rank, names), listed(group));
        for (int i = 0; i < group.size(); i += 3)
            EXPECT_EQ(answer<int>(rankmesh_mesh_group_member, c, rank, names, i), group[i]);
        for (int other = mesh.offset() - 1; other <= mesh.extent(); other += 3)
            EXPECT_EQ(answer<int>(rankmesh_mesh_group_rank, c, rank, names, other),
                      group.group_rank(other).value_or(RANKMESH_NO_RANK));
    }
}

void compare(const Mesh& mesh) {
    SCOPED_TRACE(to_string(mesh));
    auto* c = answer<rankmesh_mesh*>(rankmesh_mesh_parse, to_string(mesh).c_str(), 0);
    EXPECT_EQ(text(rankmesh_mesh_text, c), to_string(mesh));
    EXPECT_EQ(answer<int>(rankmesh_mesh_size, c), mesh.size());
    EXPECT_EQ(answer<int>(rankmesh_mesh_offset, c), mesh.offset());
    EXPECT_EQ(answer<int>(rankmesh_mesh_extent, c), mesh.extent());
    ASSERT_EQ(answer<std::size_t>(rankmesh_mesh_axis_count, c), static_cast<std::size_t>(mesh.axis_count()));
    for (int rank = mesh.offset() - 1; rank <= mesh.extent(); ++rank)
        EXPECT_EQ(answer<int>(rankmesh_mesh_contains, c, rank), mesh.contains(rank) ? 1 : 0);
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto name = std::string(mesh.name(AxisId{a}));
        const auto number = static_cast<std::size_t>(a);
        EXPECT_EQ(text(rankmesh_mesh_axis_name, c, number), name);
        EXPECT_EQ(answer<std::size_t>(rankmesh_mesh_axis_number, c, name.c_str()), number);
        EXPECT_EQ(answer<int>(rankmesh_mesh_axis_size, c, name.c_str()), mesh.size(name));
        for (auto rank : mesh.ranks()) {
            EXPECT_EQ(answer<int>(rankmesh_mesh_index, c, rank, name.c_str()), mesh.index(rank, name));
            for (auto by : {-2, 0, 1})
                for (auto edge : {Edge::open, Edge::wrap})
                    EXPECT_EQ(answer<int>(rankmesh_mesh_neighbor, c, rank, name.c_str(), by,
                                          static_cast<rankmesh_edge>(edge)),
                              mesh.neighbor(rank, name, by, edge).value_or(RANKMESH_NO_RANK));
        }
    }
    for (auto rank : mesh.ranks()) {
        auto indices = std::vector<int>(static_cast<std::size_t>(mesh.axis_count()));
        mesh.indices(rank, indices);
        EXPECT_EQ(list<int>(rankmesh_mesh_coord, c, rank), indices);
        EXPECT_EQ(answer<int>(rankmesh_mesh_rank, c, static_cast<const int*>(indices.data()), indices.size()),
                  rank);
    }
    for (auto axes : sets_of_axes(mesh)) {
        auto names = std::string{};
        for (int a = mesh.axis_count() - 1; a >= 0; --a)  // innermost first: a set has no order
            if (axes.contains({a})) names += (names.empty() ? "" : ",") + std::string(mesh.name(AxisId{a}));
        compare_groups(c, mesh, axes, names.c_str());
    }
    rankmesh_mesh_free(c);
}

TEST(MeshInC, AnswersAsInCpp) {
    for (const auto* given :
         {"dp=1", "dp=7", "pp=1 dp=1 tp=1", "pp=4 dp=2 tp=8", "pp=3 cp=5 dp=4", "pp=2:32 dp=4:8 @64",
          "tp=8:1 pp=4:8", "a=3:7 b=3:2 c=2:23", "a=(2,2):(8,1) b=2:2", "a=2 b=3 c=2 d=2 e=3"})
        compare(Mesh::parse(given));
}

TEST(MeshInC, TakesTheRestOfAWorld) {
    for (int world : {2, 6, 64}) {
        auto* c = answer<rankmesh_mesh*>(rankmesh_mesh_parse, "dp=* tp=2", world);
        EXPECT_EQ(text(rankmesh_mesh_text, c), to_string(Mesh::parse("dp=* tp=2", world)));
        rankmesh_mesh_free(c);
    }
}

TEST(MeshInC, AnswersInClosedFormForTheLargestWorlds) {
    auto* c = answer<rankmesh_mesh*>(rankmesh_mesh_parse, "dp=1048576 tp=1024", 0);
    EXPECT_EQ(answer<int>(rankmesh_mesh_group_member, c, 5, "dp,tp", (1 << 30) - 1), (1 << 30) - 1);
    EXPECT_EQ(answer<int>(rankmesh_mesh_group_rank, c, 5, "dp", 5 + (1024 << 19)), 1 << 19);
    EXPECT_EQ(answer<int>(rankmesh_mesh_partition_first, c, "tp", 1 << 19), 1024 << 19);
    auto needed = std::size_t{};
    EXPECT_EQ(rankmesh_mesh_group(c, 5, "dp,tp", nullptr, 0, &needed), RANKMESH_OK);
    EXPECT_EQ(needed, std::size_t{1} << 30);
    rankmesh_mesh_free(c);
}

}  // namespace
}  // namespace rankmesh::tests
