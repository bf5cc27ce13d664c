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

TEST(Placement, AnswersAsItsMeshWhereTheTableIsRowByRow) {
    for (auto text : {"dp=1", "dp=6", "pp=2 dp=3 tp=2", "a=1 b=4 c=1"}) {
        const auto mesh = Mesh::parse(text);
        const auto placement = Placement(mesh, row_by_row(mesh));
        for (int rank = 0; rank < mesh.size(); ++rank) {
            EXPECT_EQ(placement.coord(rank), mesh.coord(rank));
            for (int a = 0; a < mesh.axis_count(); ++a) {
                const auto axis = AxisId{a};
                EXPECT_EQ(placement.index(rank, axis), mesh.index(rank, axis));
                EXPECT_TRUE(std::ranges::equal(placement.group(rank, axis), mesh.group(rank, axis)));
                for (auto by : {-1, 0, 1, 2}) {
                    EXPECT_EQ(placement.neighbor(rank, axis, by), mesh.neighbor(rank, axis, by));
                    EXPECT_EQ(placement.neighbor(rank, axis, by, Edge::wrap),
                              mesh.neighbor(rank, axis, by, Edge::wrap));
                }
            }
        }
    }
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
        for (std::size_t i = 0; i < row.size(); ++i) {
            const auto at = placement.coord(row[i]);
            RC_ASSERT(at["a"] == placement.index(rank, "a"));
            RC_ASSERT(at["b"] == static_cast<int>(i));
        }
        const auto next = placement.neighbor(rank, "b", 1);
        RC_ASSERT(next.has_value() == (placement.index(rank, "b") + 1 < mesh.size("b")));
        if (next) RC_ASSERT(placement.coord(*next)["b"] == placement.coord(rank)["b"] + 1);
    }
    const auto known = std::set<int>(ranks.begin(), ranks.end());
    for (int rank = -1; rank < 1001; ++rank) RC_ASSERT(placement.contains(rank) == known.contains(rank));
    RC_ASSERT(Placement::parse(to_string(placement)) == placement);
}

TEST(Placement, IsEqualWhereMeshAndTableAre) {
    const auto mesh = Mesh{{"a", 2}, {"b", 2}};
    EXPECT_EQ(Placement(mesh, {3, 1, 2, 0}), Placement::parse("a=2 b=2 @[3, 1, 2, 0]"));
    EXPECT_FALSE(Placement(mesh, {3, 1, 2, 0}) == Placement(mesh, {3, 1, 0, 2}));
    EXPECT_FALSE(Placement(mesh, {3, 1, 2, 0}) == Placement(Mesh{{"a", 4}}, {3, 1, 2, 0}));
}

}  // namespace
}  // namespace rankmesh::tests
