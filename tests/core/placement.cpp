// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/placement.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <set>

namespace rankmesh::tests {
namespace {

std::vector<int> row_by_row(const Mesh& mesh) {
    auto ranks = std::vector<int>(static_cast<std::size_t>(mesh.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

/// Holds that a placement answers as its mesh.
void expect_as_mesh(const Placement& placement) {
    const auto& mesh = placement.mesh();
    EXPECT_TRUE(std::ranges::equal(placement.ranks(), mesh.ranks()));
    EXPECT_EQ(placement.extent(), mesh.extent());
    for (const auto rank : mesh.ranks()) {
        const auto coordinate = mesh.coord(rank);
        EXPECT_EQ(placement.coord(rank), coordinate);
        EXPECT_EQ(placement.rank(coordinate), rank);
        auto indices = std::vector<int>(static_cast<std::size_t>(mesh.axis_count()));
        placement.indices(rank, indices);
        EXPECT_EQ(placement.rank_at(indices), rank);
        for (int a = 0; a < mesh.axis_count(); ++a) {
            const auto axis = AxisId{a};
            EXPECT_EQ(indices[static_cast<std::size_t>(a)], mesh.index(rank, axis));
            EXPECT_EQ(placement.index(rank, axis), mesh.index(rank, axis));
            EXPECT_EQ(placement.group(rank, axis).list(), placement.of(mesh.group(rank, axis)).list());
            EXPECT_TRUE(std::ranges::equal(placement.group(rank, axis), mesh.group(rank, axis)));
            for (auto by : {-1, 0, 1, 2})
                for (auto edge : {Edge::open, Edge::wrap})
                    EXPECT_EQ(placement.neighbor(rank, axis, by, edge), mesh.neighbor(rank, axis, by, edge));
        }
    }
    for (int rank = -1; rank < mesh.extent() + 2; ++rank)
        EXPECT_EQ(placement.contains(rank), mesh.contains(rank));
}

TEST(Placement, AnswersAsItsMeshWhereTheTableIsRowByRow) {
    for (auto text : {"dp=1", "dp=6", "pp=2 dp=3 tp=2", "a=1 b=4 c=1"}) {
        const auto mesh = Mesh::parse(text);
        expect_as_mesh(Placement(mesh, row_by_row(mesh)));
    }
}

TEST(Placement, WithoutATableAnswersAsItsMesh) {
    for (auto text : {"dp=1", "pp=2 dp=3 tp=2", "dp=2:4 tp=4:1 @64", "tp=(2,2):(1,4) dp=2:2", "a=3:5 @7"}) {
        const auto mesh = Mesh::parse(text);
        expect_as_mesh(mesh);
        EXPECT_EQ(to_string(Placement(mesh)), to_string(mesh));
        EXPECT_TRUE(Placement(mesh) == Placement(Mesh::parse(text)));
    }
    const auto mesh = Mesh::parse("a=2 b=2");
    EXPECT_FALSE(Placement(mesh) == Placement(mesh, row_by_row(mesh)));
}

RC_GTEST_PROP(Placement, PutsEveryRankWhereTheTableSays, ()) {
    const auto mesh = Mesh{{"a", *rc::gen::inRange(1, 5)}, {"b", *rc::gen::inRange(1, 5)}};
    const auto ranks =
        *rc::gen::unique<std::vector<int>>(static_cast<std::size_t>(mesh.size()), rc::gen::inRange(0, 1000));
    const auto placement = Placement(mesh, ranks);
    RC_ASSERT(placement.size() == mesh.size());
    RC_ASSERT(std::ranges::equal(placement.ranks(), ranks));
    for (int position = 0; position < mesh.size(); ++position) {
        const auto rank = ranks[static_cast<std::size_t>(position)];
        RC_ASSERT(placement.contains(rank));
        RC_ASSERT(placement.position(rank) == position);
        RC_ASSERT(placement.coord(rank) == mesh.coord(position));
        RC_ASSERT(placement.rank(placement.coord(rank)) == rank);
        const auto row = placement.group(rank, "b");
        for (int i = 0; i < row.size(); ++i) {
            const auto at = placement.coord(row[i]);
            RC_ASSERT(at["a"] == placement.index(rank, "a"));
            RC_ASSERT(at["b"] == i);
        }
        const auto next = placement.neighbor(rank, "b", 1);
        RC_ASSERT(next.has_value() == (placement.index(rank, "b") + 1 < mesh.size("b")));
        if (next) RC_ASSERT(placement.coord(*next)["b"] == placement.coord(rank)["b"] + 1);
    }
    const auto known = std::set<int>(ranks.begin(), ranks.end());
    for (int rank = -1; rank < 1001; ++rank) RC_ASSERT(placement.contains(rank) == known.contains(rank));
    RC_ASSERT(Placement::parse(to_string(placement)) == placement);
}

TEST(Placement, ShortestIsTheMeshWhereStridesGiveTheRanks) {
    const auto shortened = [](const char* text) { return to_string(shortest(Placement::parse(text))); };
    for (auto text : {"dp=1", "pp=2 dp=3 tp=2", "dp=2:4 tp=4:1 @64", "tp=(2,2):(1,4) dp=2:2", "a=3:5 b=1 @7",
                      "tp=(3,2):(7,1) dp=(2,2):(100,3)"}) {
        const auto mesh = Mesh::parse(text);
        auto axes = std::vector<Axis>{};
        for (int a = 0; a < mesh.axis_count(); ++a)
            axes.push_back({mesh.name(AxisId{a}), mesh.size(AxisId{a})});
        EXPECT_EQ(to_string(shortest(
                      Placement(Mesh(axes), std::vector<int>(mesh.ranks().begin(), mesh.ranks().end())))),
                  to_string(mesh));
        EXPECT_EQ(to_string(shortest(mesh)), to_string(mesh));
    }
    for (auto text : {"a=2 b=2 @[3,1,2,0]", "a=4 @[0,1,2,4]", "a=2 b=2 @[0,1,2,4]", "a=3 b=2 @[0,1,3,4,5,6]",
                      "a=2 b=2 @[0,1000000000,2000000000,2147483647]", "a=2 @[1,0]", "a=4 @[0,7,19,27]",
                      "a=2 b=4 @[0,2,5,8,100,102,105,108]"})
        EXPECT_EQ(shortened(text), text);
}

RC_GTEST_PROP(Placement, ShortestHasTheSameRanks, ()) {
    const auto mesh = Mesh{{"a", *rc::gen::inRange(1, 4)}, {"b", *rc::gen::inRange(1, 4)}};
    const auto ranks =
        *rc::gen::unique<std::vector<int>>(static_cast<std::size_t>(mesh.size()), rc::gen::inRange(0, 12));
    const auto same = shortest(Placement(mesh, ranks));
    RC_ASSERT(std::ranges::equal(same.ranks(), ranks));
}

TEST(Placement, IsEqualWhereMeshAndTableAre) {
    const auto mesh = Mesh{{"a", 2}, {"b", 2}};
    EXPECT_EQ(Placement(mesh, {3, 1, 2, 0}), Placement::parse("a=2 b=2 @[3, 1, 2, 0]"));
    EXPECT_FALSE(Placement(mesh, {3, 1, 2, 0}) == Placement(mesh, {3, 1, 0, 2}));
    EXPECT_FALSE(Placement(mesh, {3, 1, 2, 0}) == Placement(Mesh{{"a", 4}}, {3, 1, 2, 0}));
}

}  // namespace
}  // namespace rankmesh::tests
