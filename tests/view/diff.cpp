// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/diff.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "cases.hpp"

namespace rankmesh::view {
namespace {

using Group = std::vector<int>;

Placement placement_of(const std::string& text) {
    if (text.find("@[") != std::string::npos) return Placement::parse(text);
    return Mesh::parse(text);
}

/// Sides whose ranks, axes, sizes, orders and clusters differ in all ways.
std::vector<Side> sides() {
    auto all = std::vector<Side>{};
    for (const auto* text :
         {"a=1", "pp=2 dp=2 tp=2", "pp=2 tp=2 dp=2", "dp=2 pp=2 tp=2", "pp=2 dp=2 cp=1 tp=2",
          "pp=2:1 dp=2:2 tp=2:4", "pp=4 tp=2", "dp=4 tp=2", "tp=8", "dp=2 tp=2 @4", "pp=2 dp=3 tp=2",
          "pp=2 dp=2 tp=2 @[0,1,2,3,4,5,7,6]", "pp=2 dp=2 tp=2 @[4,5,6,7,0,1,2,3]", "dp=2 tp=2 @[3,9,1,0]",
          "tp=(2,2):(1,4) dp=2:2"})
        for (const auto* on : {"", "node:4 gpu:4", "rack:2 node:3 gpu:2"}) {
            all.push_back({placement_of(text), std::nullopt});
            if (*on != '\0') all.back().cluster = Cluster::parse(on);
        }
    return all;
}

const Mesh& mesh_of(const Side& side) { return side.placement.mesh(); }
std::string text_of(const Side& side) {
    return to_string(side.placement) + (side.cluster ? " on " + to_string(*side.cluster) : "");
}

/// By rank, its index on each axis that is not 0.
std::map<int, std::map<std::string, int>> coordinates(const Side& side) {
    auto all = std::map<int, std::map<std::string, int>>{};
    for (int rank = 0; rank < 100; ++rank)
        if (side.placement.contains(rank)) {
            all[rank] = {};
            const auto coordinate = side.placement.coord(rank);
            for (int i = 0; i < coordinate.size(); ++i)
                if (coordinate[AxisId{i}] != 0)
                    all[rank][std::string(coordinate.name(i))] = coordinate[AxisId{i}];
        }
    return all;
}

/// The groups along an axis, found by comparing coordinates.
std::set<Group> groups(const Side& side, const std::string& axis) {
    auto by_others = std::map<std::map<std::string, int>, std::map<int, int>>{};
    for (auto [rank, coordinate] : coordinates(side)) {
        const auto index = coordinate[axis];
        coordinate.erase(axis);
        by_others[coordinate][index] = rank;
    }
    auto all = std::set<Group>{};
    for (const auto& [others, ranks] : by_others) {
        auto group = Group{};
        for (const auto& [index, rank] : ranks) group.push_back(rank);
        all.insert(group);
    }
    return all;
}

Group sorted(Group group) {
    std::ranges::sort(group);
    return group;
}

int units_of(const Group& group, const Cluster& cluster, const std::string& level) {
    auto units = std::set<int>{};
    for (auto rank : group) units.insert(cluster.unit(rank, cluster.level(level)));
    return static_cast<int>(units.size());
}

/// The same, with the numbers of both sides exchanged.
Both exchanged(Both both) { return {both.b, both.a}; }

TEST(Diff, FindsNothingBetweenASideAndItself) {
    for (const auto& side : sides()) {
        const auto found = diff(side, side, 10);
        EXPECT_TRUE(found.is_none()) << text_of(side);
        EXPECT_TRUE(found.first.empty());
        EXPECT_EQ(found.common, mesh_of(side).size());
        for (const auto& axis : found.axes) {
            EXPECT_EQ(axis.groups, (Both{axis.same, axis.same})) << text_of(side);
            EXPECT_TRUE(axis.changed.empty());
        }
    }
}

TEST(Diff, CountsWhatComparingEveryRankAndEveryGroupCounts) {
    for (const auto& a : sides())
        for (const auto& b : sides()) {
            const auto found = diff(a, b, 1000);
            const auto which = text_of(a) + " and " + text_of(b);
            const auto in_a = coordinates(a);
            const auto in_b = coordinates(b);
            const auto levels = a.cluster && b.cluster ? (to_string(*a.cluster) == to_string(*b.cluster) &&
                                                                  a.cluster->level_count() == 3
                                                              ? std::vector<std::string>{"rack", "node"}
                                                              : std::vector<std::string>{"node"})
                                                       : std::vector<std::string>{};
            auto moved = 0;
            auto differing = std::set<int>{};
            auto moved_by_level = std::map<std::string, int>{};
            for (int rank = 0; rank < 100; ++rank) {
                if (!in_a.contains(rank) && !in_b.contains(rank)) continue;
                if (!in_a.contains(rank) || !in_b.contains(rank)) {
                    differing.insert(rank);
                    continue;
                }
                if (in_a.at(rank) != in_b.at(rank)) {
                    ++moved;
                    differing.insert(rank);
                }
                for (const auto& level : levels)
                    if (a.cluster->unit(rank, a.cluster->level(level)) !=
                        b.cluster->unit(rank, b.cluster->level(level))) {
                        ++moved_by_level[level];
                        differing.insert(rank);
                    }
            }
            EXPECT_EQ(found.ranks, (Both{static_cast<int>(in_a.size()), static_cast<int>(in_b.size())}))
                << which;
            EXPECT_EQ(found.moved, moved) << which;
            EXPECT_EQ(found.first, Group(differing.begin(), differing.end())) << which;
            EXPECT_EQ(found.differing, static_cast<int>(differing.size())) << which;
            EXPECT_EQ(found.is_none(), differing.empty()) << which;
            ASSERT_EQ(found.levels.size(), levels.size()) << which;
            for (std::size_t i = 0; i < levels.size(); ++i) {
                EXPECT_EQ(found.levels[i].level, levels[i]) << which;
                EXPECT_EQ(found.levels[i].moved, moved_by_level[levels[i]]) << which;
            }

            for (const auto& axis : found.axes) {
                const auto of_a = groups(a, axis.axis);
                const auto of_b = groups(b, axis.axis);
                auto sets = std::set<Group>{};
                for (const auto& group : of_b) sets.insert(sorted(group));
                auto same = 0;
                auto reordered = 0;
                auto changed = std::set<int>{};
                for (const auto& group : of_a) {
                    same += of_b.contains(group) ? 1 : 0;
                    reordered += !of_b.contains(group) && sets.contains(sorted(group)) ? 1 : 0;
                    if (!of_b.contains(group)) changed.insert(group.front());
                }
                EXPECT_EQ(axis.groups, (Both{static_cast<int>(of_a.size()), static_cast<int>(of_b.size())}))
                    << which << ' ' << axis.axis;
                EXPECT_EQ(axis.same, same) << which << ' ' << axis.axis;
                EXPECT_EQ(axis.reordered, reordered) << which << ' ' << axis.axis;
                EXPECT_EQ(std::set<int>(axis.changed.begin(), axis.changed.end()), changed)
                    << which << ' ' << axis.axis;
                ASSERT_EQ(axis.inside.size(), levels.size());
                for (std::size_t i = 0; i < levels.size(); ++i) {
                    auto inside = Both{};
                    for (const auto& group : of_a)
                        inside.a += units_of(group, *a.cluster, levels[i]) == 1 ? 1 : 0;
                    for (const auto& group : of_b)
                        inside.b += units_of(group, *b.cluster, levels[i]) == 1 ? 1 : 0;
                    EXPECT_EQ(axis.inside[i], inside) << which << ' ' << axis.axis << ' ' << levels[i];
                }
            }
        }
}

TEST(Diff, IsMirroredWhenTheSidesAreExchanged) {
    for (const auto& a : sides())
        for (const auto& b : sides()) {
            const auto found = diff(a, b, 5);
            const auto mirrored = diff(b, a, 5);
            const auto which = text_of(a) + " and " + text_of(b);
            EXPECT_EQ(found.ranks, exchanged(mirrored.ranks)) << which;
            EXPECT_EQ(found.moved, mirrored.moved) << which;
            EXPECT_EQ(found.first, mirrored.first) << which;
            EXPECT_EQ(found.levels, mirrored.levels) << which;
            ASSERT_EQ(found.axes.size(), mirrored.axes.size()) << which;
            for (const auto& axis : found.axes) {
                const auto other = std::ranges::find(mirrored.axes, axis.axis, &AxisDifference::axis);
                ASSERT_NE(other, mirrored.axes.end()) << which << ' ' << axis.axis;
                EXPECT_EQ(axis.size, exchanged(other->size)) << which;
                EXPECT_EQ(axis.groups, exchanged(other->groups)) << which;
                EXPECT_EQ(axis.same, other->same) << which;
                EXPECT_EQ(axis.reordered, other->reordered) << which;
                for (std::size_t i = 0; i < axis.inside.size(); ++i)
                    EXPECT_EQ(axis.inside[i], exchanged(other->inside[i])) << which;
            }
        }
}

TEST(Diff, ListsTheFirstOfThoseThatItWouldListAll) {
    for (const auto& a : sides())
        for (const auto& b : sides()) {
            auto all = diff(a, b, 1000);
            const auto few = diff(a, b, 2);
            all.first.resize(std::min<std::size_t>(all.first.size(), 2));
            for (auto& axis : all.axes) axis.changed.resize(std::min<std::size_t>(axis.changed.size(), 2));
            EXPECT_EQ(few, all) << text_of(a) << " and " << text_of(b);
        }
}

TEST(Diff, CountsAMillionRanks) {
    const auto a = Side{Mesh::parse("pp=16 dp=8192 tp=8"), Cluster::parse("node:131072 gpu:8")};
    const auto b = Side{Mesh::parse("pp=16 tp=8 dp=8192"), Cluster::parse("node:131072 gpu:8")};
    const auto found = diff(a, b, 3);
    EXPECT_EQ(found.common, 1 << 20);
    EXPECT_EQ(found.first, (Group{1, 2, 3}));
    EXPECT_EQ(found.axes[2].inside.front(), (Both{131072, 0}));
    EXPECT_EQ(found.axes[2].changed, (Group{0, 8, 16}));
}

TEST(Diff, RefusesAMeshThatDoesNotFit) {
    const auto small = Side{Mesh::parse("dp=4"), Cluster::parse("gpu:4")};
    const auto large = Side{Mesh::parse("dp=8"), Cluster::parse("gpu:4")};
    EXPECT_THROW(diff(small, large, 1), UsageError);
    EXPECT_THROW(diff(large, small, 1), UsageError);
    EXPECT_THROW(draw(small, large, Limits{}), UsageError);
}

TEST(Diff, DrawsBothSidesWithTheRanksMarkedThatDiffer) {
    for (const auto& a : sides())
        for (const auto& b : sides()) {
            const auto differing = diff(a, b, 1000).first;
            const auto [left, right] = draw(a, b, Limits{});
            for (const auto* scene : {&left, &right}) {
                EXPECT_FALSE(scene->mark.empty());
                for (const auto& row : scene->rows)
                    for (const auto& cell : row.cells) {
                        if (cell.rank < 0) continue;
                        EXPECT_EQ(cell.marked, std::ranges::binary_search(differing, cell.rank))
                            << text_of(a) << " and " << text_of(b) << " rank " << cell.rank;
                    }
            }
        }
}

TEST(Diff, DrawsEqualCoordinatesAtEqualPlacesWhereBothHaveTheSameAxes) {
    const auto a = Side{Mesh::parse("pp=2 dp=4 tp=8")};
    const auto b = Side{Mesh::parse("tp=8 dp=4 pp=2")};
    const auto [left, right] = draw(a, b, Limits{});
    ASSERT_EQ(left.rows.size(), right.rows.size());
    for (std::size_t r = 0; r < left.rows.size(); ++r)
        for (std::size_t c = 0; c < left.columns.size(); ++c) {
            const auto coordinate = a.placement.coord(left.rows[r].cells[c].rank);
            EXPECT_EQ(right.rows[r].cells[c].rank, b.placement.rank(coordinate));
        }
    EXPECT_EQ(right.mesh, "tp=8 dp=4 pp=2");
}

}  // namespace
}  // namespace rankmesh::view
