// SPDX-License-Identifier: Apache-2.0
// Queries of a mesh allocate nothing: every operator new of this program counts.
#include <gtest/gtest.h>

#include <rankmesh/core/mesh.hpp>

#include "support/allocations.hpp"

namespace rankmesh::tests {
namespace {

/// Everything that can be asked or made of a mesh, on names and on positions; returns what must not be
/// optimised away.
int ask_everything(std::string_view text, std::span<int> room) {
    const auto mesh = Mesh::parse(text);
    const auto last = mesh.axis_count() - 1;
    const auto axis = AxisId{last};
    const auto name = mesh.name(axis);
    auto indices = std::array<int, max_axes>{};
    const auto places = std::span<int>(indices).first(static_cast<std::size_t>(mesh.axis_count()));
    auto sum = 0;
    for (auto rank : mesh.ranks()) {
        const auto coord = mesh.coord(rank);
        mesh.indices(rank, places);
        sum += mesh.rank(coord) + mesh.rank_at(places) + coord[name] + mesh.index(rank, name);
        sum += mesh.contains(rank + 1) ? 1 : 0;
        sum += mesh.neighbor(rank, axis, 1).value_or(0) + *mesh.neighbor(rank, name, -1, Edge::wrap);
        const auto group = mesh.group(rank, mesh.name({0}), name);
        const auto view = mesh.group_view(rank, mesh.name({0}), name);
        sum += view.back() + view.size() + *view.group_rank(rank) + (view.contains(rank + 1) ? 1 : 0);
        sum += group.back() + group.pick({0, -1}).size() + *group.group_rank(rank) + group.step().value_or(0);
    }
    for (const auto& group : mesh.partition(name)) sum += group.size();
    for (const auto& group : mesh.partition_in_order(axis)) sum += group.front();
    mesh.partition(AxisId{0}).copy_to(room.first(static_cast<std::size_t>(mesh.size())));
    const auto moved = mesh.permuted({mesh.name({1}), mesh.name({0})}).shifted(3);
    sum += moved.slice({{moved.name({0}), 0}}).extent() + moved.flatten({"a", "b"}, "m").size();
    sum += moved.split("a", {{"x", rest}, {"y", 1}}).size() + (moved == mesh ? 1 : 0);
    return sum;
}

TEST(Allocation, IsNeverNeededByAQuery) {
    auto room = std::vector<int>(4096);
    for (auto text : {"a=2 b=3", "a=1 b=7", "a=8:1 b=40:8", "a=(2,2):(8,1) b=4:2", "a=3:7 b=3:2 @9"}) {
        const auto before = support::allocations();
        EXPECT_NE(ask_everything(text, room), 0);
        EXPECT_EQ(support::allocations(), before) << text;
    }
    const auto before = support::allocations();
    auto some = std::vector<int>(3);
    EXPECT_EQ(support::allocations(), before + 1) << "the counter counts";
}

}  // namespace
}  // namespace rankmesh::tests
