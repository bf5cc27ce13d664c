// SPDX-License-Identifier: Apache-2.0
// What errors and reports call the ranks of a group.
#include "engine/channel.hpp"

#include <gtest/gtest.h>

#include <numeric>

using namespace rankmesh;
using detail::Label;

namespace {

Label label(const Mesh& mesh, AxisSet axes, std::shared_ptr<const std::vector<int>> placed = nullptr) {
    const auto first = mesh.offset();
    return {.mesh = to_string(mesh),
            .name = "",
            .axes = "some",
            .member = to_string(mesh.coord(first)),
            .ranks = {mesh.group(first, axes), placed},
            .placed = placed};
}

std::vector<int> from_to(int from, int to) {
    auto ranks = std::vector<int>(static_cast<std::size_t>(to - from + 1));
    std::iota(ranks.begin(), ranks.end(), from);
    return ranks;
}

}  // namespace

TEST(Label, RanksAreNamedWithTheirCoordinates) {
    const auto mesh = Mesh{{"dp", 3}, {"tp", 2}};
    const auto some = label(mesh, mesh.axes("dp", "tp"));
    EXPECT_EQ(some.named({3, 5}), "ranks 3 [dp=1 tp=1], 5 [dp=2 tp=1]");
    EXPECT_EQ(some.named({}), "ranks {}");
    EXPECT_EQ(some.named({7}), "rank 7") << "which is outside the mesh";
}

TEST(Label, ARankStandsWhereTheMeshHasItWithStridesAndOffset) {
    const auto mesh = Mesh::parse("dp=2:1 tp=2:2 @4");
    EXPECT_EQ(label(mesh, mesh.axes("dp", "tp")).named({5, 6}), "ranks 5 [dp=1 tp=0], 6 [dp=0 tp=1]");
}

TEST(Label, ARankStandsWhereItWasPlaced) {
    const auto mesh = Mesh{{"dp", 2}, {"tp", 2}};
    const auto placed = std::make_shared<const std::vector<int>>(std::vector{3, 1, 2, 0});
    EXPECT_EQ(label(mesh, mesh.axes("dp"), placed).named({0, 1}), "ranks 0 [dp=1 tp=1], 1 [dp=0 tp=1]");
    EXPECT_EQ(label(mesh, mesh.axes("dp"), placed).named({9}), "rank 9");
}

TEST(Label, OfManyRanksTheFirstAreNamed) {
    const auto mesh = Mesh{{"dp", 64}};
    EXPECT_EQ(
        label(mesh, mesh.axes("dp")).named(from_to(8, 27)),
        "ranks {8..27}: 8 [dp=8], 9 [dp=9], 10 [dp=10], 11 [dp=11], 12 [dp=12], 13 [dp=13], 14 [dp=14], 15 "
        "[dp=15] and 12 more");
}

TEST(Label, WhereNobodyElseHasComeTheGroupSaysIt) {
    const auto mesh = Mesh{{"dp", 64}};
    EXPECT_EQ(label(mesh, mesh.axes("dp")).named(from_to(1, 63)), "ranks {1..63}");
    const auto small = Mesh{{"dp", 3}};
    EXPECT_EQ(label(small, small.axes("dp")).named({1, 2}), "ranks 1 [dp=1], 2 [dp=2]");
}

TEST(Label, WhereThereIsNoMeshRanksAreNumbers) { EXPECT_EQ(Label{}.named({1, 2, 3}), "ranks {1..3}"); }

TEST(Label, AGroupThatHasLostARankSaysSo) {
    const auto mesh = Mesh{{"dp", 3}, {"tp", 2}};
    const auto some = label(mesh, mesh.axes("dp"));
    EXPECT_EQ(
        some.unusable({4}),
        "'some' of mesh dp=3 tp=2, group {0, 2, 4}, has lost rank 4 [dp=2 tp=0] and cannot be used any more");
    EXPECT_EQ(some.unusable({}), "'some' of mesh dp=3 tp=2, group {0, 2, 4}, cannot be used any more");
}
