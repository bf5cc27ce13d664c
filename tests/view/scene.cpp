// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/scene.hpp>

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "cases.hpp"

namespace rankmesh::view {
namespace {

const auto all_limits = {Limits{}, Limits{.columns = 1, .rows = 1, .tall_rows = 1, .folded_rows = 1},
                         Limits{.columns = 5}, Limits{.columns = 40, .rows = 100},
                         Limits{.columns = 3, .rows = 7, .tall_rows = 3, .folded_rows = 5}};

std::vector<Fold> folds_of(const Scene& scene) {
    auto folds = scene.folded_columns;
    folds.insert(folds.end(), scene.folded_after.begin(), scene.folded_after.end());
    for (const auto& row : scene.rows)
        folds.insert(folds.end(), row.folded_before.begin(), row.folded_before.end());
    return folds;
}

/// The position that a row and a column say, on every axis.
std::vector<int> group_rank_of(const Scene& scene, const Row& row, const Column& column) {
    auto position = std::vector<int>(scene.axes.size());
    for (std::size_t i = 0; i < row.indices.size(); ++i)
        position[static_cast<std::size_t>(scene.row_axes[i])] = row.indices[i];
    for (std::size_t i = 0; i < column.indices.size(); ++i)
        position[static_cast<std::size_t>(scene.column_axes[i])] += column.indices[i];
    return position;
}

void check_laws(const Placement& placement, const Subject& subject, const Limits& limits) {
    const auto& mesh = placement.mesh();
    const auto scene = draw(placement, subject, limits);
    SCOPED_TRACE(to_string(placement) + " in " + std::to_string(limits.columns) + " by " +
                 std::to_string(limits.rows));
    ASSERT_LE(scene.rows.size(), static_cast<std::size_t>(limits.rows));
    auto cells = std::ptrdiff_t{0};
    for (const auto& column : scene.columns) cells += column.folded ? 0 : 1;
    ASSERT_LE(cells, limits.columns);

    auto shown = std::set<int>{};
    const auto folds = folds_of(scene);
    for (const auto& row : scene.rows) {
        ASSERT_EQ(row.cells.size(), scene.columns.size());
        for (std::size_t c = 0; c < scene.columns.size(); ++c) {
            const auto& cell = row.cells[c];
            const auto position = group_rank_of(scene, row, scene.columns[c]);
            auto inside = !scene.columns[c].folded;
            for (int a = 0; a < mesh.axis_count(); ++a)
                inside = inside && position[static_cast<std::size_t>(a)] < mesh.size(AxisId{a});
            ASSERT_EQ(cell.rank >= 0, inside);
            if (!inside) continue;
            const auto coordinate = placement.coord(cell.rank);
            auto differing = std::vector<int>{};
            for (int a = 0; a < mesh.axis_count(); ++a) {
                ASSERT_EQ(coordinate[AxisId{a}], position[static_cast<std::size_t>(a)]);
                if (coordinate[AxisId{a}] != placement.index(scene.focus, AxisId{a})) differing.push_back(a);
            }
            ASSERT_TRUE(shown.insert(cell.rank).second) << "rank " << cell.rank << " is shown twice";
            ASSERT_EQ(cell.peer, differing.size() == 1 ? differing[0] : -1);
            const auto boxed = subject.cluster ? subject.cluster->level_count() - 2 : -1;
            ASSERT_EQ(cell.box, boxed < 0 ? 0 : subject.cluster->unit(cell.rank, boxed));
            ASSERT_EQ(scene.labels.contains(cell.box), boxed >= 0);
            for (const auto& fold : folds) {
                const auto index = position[static_cast<std::size_t>(fold.axis)];
                ASSERT_FALSE(index >= fold.first && index <= fold.last)
                    << "rank " << cell.rank << " is said to be folded";
            }
        }
    }
    for (const auto rank : placement.ranks()) {
        auto folded = false;
        for (const auto& fold : folds) {
            const auto index = placement.index(rank, AxisId{fold.axis});
            folded = folded || (index >= fold.first && index <= fold.last);
        }
        ASSERT_NE(shown.contains(rank), folded) << "rank " << rank;
    }
}

TEST(Scene, ShowsEveryRankOnceAtItsCoordinateOrSaysThatItIsFolded) {
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh))
            for (const auto& limits : all_limits) {
                check_laws(mesh, {.cluster = cluster}, limits);
                check_laws(mesh, {.cluster = cluster, .focus = mesh.ranks().back()}, limits);
                check_laws(mesh, {.cluster = cluster, .focus = mesh.ranks()[mesh.size() / 2]}, limits);
            }
}

/// The focus has a cell; the rest of its group along each axis has cells or lies in folds of that axis.
void expect_focus(const Placement& placement, const Subject& subject, const Limits& limits) {
    const auto& mesh = placement.mesh();
    const auto scene = draw(placement, subject, limits);
    SCOPED_TRACE(to_string(mesh) + " rank " + std::to_string(*subject.focus) + " in " +
                 std::to_string(limits.columns) + " by " + std::to_string(limits.rows));
    ASSERT_EQ(scene.focus, *subject.focus);
    ASSERT_TRUE(scene.selects);
    auto shown = 0;
    auto peers = std::vector<std::int64_t>(scene.axes.size());
    for (const auto& row : scene.rows)
        for (const auto& cell : row.cells) {
            shown += cell.rank == scene.focus ? 1 : 0;
            if (cell.peer >= 0) ++peers[static_cast<std::size_t>(cell.peer)];
        }
    ASSERT_EQ(shown, 1);
    auto folded = std::set<std::pair<int, int>>{};
    for (const auto& fold : folds_of(scene))
        if (folded.emplace(fold.axis, fold.first).second)
            peers[static_cast<std::size_t>(fold.axis)] += fold.count();
    for (int a = 0; a < mesh.axis_count(); ++a)
        ASSERT_EQ(peers[static_cast<std::size_t>(a)] + 1, mesh.size(AxisId{a})) << "along " << a;
    ASSERT_LE(scene.rows.size(), static_cast<std::size_t>(limits.rows));
    ASSERT_LE(scene.columns.size(), 2 * static_cast<std::size_t>(limits.columns) + 1);
}

TEST(Scene, ShowsTheFocusAndOfItsGroupsEachRankOrThatItIsFolded) {
    for (const auto& mesh : tests::meshes())
        for (const auto& limits : all_limits)
            for (int i = 0; i < mesh.size(); i += std::max(1, mesh.size() / 31))
                expect_focus(mesh, {.focus = mesh.ranks()[i]}, limits);
    auto random = std::mt19937(11);
    for (const auto* text : {"dp=10000", "dp=1250 tp=8", "pp=10 dp=1000", "dp=1048576", "pp=16 dp=8192 tp=8",
                             "tp=8 dp=8192 pp=16", "a=2 b=524288", "pp=1024 dp=1024 tp=1024", "dp=2147483647",
                             "a=8 b=8 c=8 d=8 e=8 f=8 g=8 h=8 i=8 j=8"}) {
        const auto mesh = Mesh::parse(text);
        const auto clusters = {std::optional<Cluster>(),
                               std::optional(Cluster({{"node", 2147483647}, {"gpu", 1}})),
                               std::optional(Cluster({{"node", 268435455}, {"gpu", 8}}))};
        for (const auto& cluster : clusters)
            for (const auto& limits : all_limits)
                for (int turn = 0; turn < 10; ++turn) {
                    const auto rank = std::uniform_int_distribution(0, mesh.size() - 1)(random);
                    if (cluster && mesh.extent() > cluster->size()) continue;
                    expect_focus(mesh, {.cluster = cluster, .focus = rank}, limits);
                }
    }
    const auto mesh = Mesh{{"dp", 40}, {"tp", 30}};
    auto ranks = std::vector<int>(static_cast<std::size_t>(mesh.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random);
    const auto placement = Placement(mesh, ranks);
    for (const auto& limits : all_limits)
        for (int rank = 0; rank < mesh.size(); rank += 23) expect_focus(placement, {.focus = rank}, limits);
}

TEST(Scene, FoldsOneIndexOnlyWhereThereIsRoomForTwo) {
    for (const auto size : {20, 21, 22, 1000})
        for (const auto columns : {4, 5, 6, 7, 12})
            for (int rank = 0; rank < size; ++rank) {
                const auto scene =
                    draw(Mesh{{"a", 2}, {"b", size}}, {.focus = rank}, Limits{.columns = columns, .rows = 1});
                for (const auto& fold : folds_of(scene))
                    EXPECT_GE(fold.count(), fold.axis == 1 ? 2 : 1) << rank;
            }
}

TEST(Scene, ShowsAPlacementByItsTable) {
    for (const auto& mesh :
         {Mesh{{"a", 2}, {"b", 2}}, Mesh{{"a", 3}, {"b", 1}, {"c", 7}}, Mesh{{"dp", 40}, {"tp", 30}}}) {
        auto ranks = std::vector<int>(static_cast<std::size_t>(mesh.size()));
        std::iota(ranks.begin(), ranks.end(), 0);
        std::shuffle(ranks.begin(), ranks.end(), std::mt19937(7));
        const auto placement = Placement(mesh, ranks);
        for (const auto& limits : all_limits)
            for (const auto& cluster : tests::clusters(mesh))
                check_laws(placement, {.cluster = cluster}, limits);
    }
}

TEST(Scene, DrawsAMeshOfNoMoreRowsThanThereIsRoomForWhole) {
    for (const auto& mesh : tests::meshes()) {
        const auto limits = Limits{.columns = 4096, .rows = 4096, .tall_rows = 20, .folded_rows = 16};
        EXPECT_TRUE(folds_of(draw(mesh, {}, limits)).empty()) << mesh;
    }
}

TEST(Scene, OfTheLargestWorldIsAsSmallAsTheRoom) {
    for (const auto* text : {"dp=2147483647", "pp=1024 dp=1024 tp=1024", "pp=2 dp=1073741823",
                             "a=1073741823 b=2", "a=8 b=8 c=8 d=8 e=8 f=8 g=8 h=8 i=8 j=8"}) {
        const auto mesh = Mesh::parse(text);
        const auto scene =
            draw(mesh, {.cluster = Cluster({{"node", 2147483647}, {"gpu", 1}}), .focus = 5}, {});
        EXPECT_LE(scene.rows.size(), 32U);
        EXPECT_EQ(scene.size, mesh.size());
        for (const auto& fold : folds_of(scene)) {
            EXPECT_LE(fold.first, fold.last) << text;
            EXPECT_GT(fold.first, 0) << text;
            EXPECT_LT(fold.last, mesh.size(AxisId{fold.axis})) << text;
        }
        EXPECT_FALSE(folds_of(scene).empty());
    }
}

TEST(Scene, RefusesAMeshBeyondItsClusterAndSaysWhatWouldHoldIt) {
    const auto text = [](const char* mesh, const char* cluster) {
        try {
            draw(Mesh::parse(mesh), {.cluster = Cluster::parse(cluster)}, {});
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    EXPECT_EQ(
        text("dp=8 tp=2", "node:2 gpu:4"),
        "mesh dp=8 tp=2 reaches rank 15, but cluster node:2 gpu:4 has 8 devices; it fits on node:4 gpu:4");
    EXPECT_EQ(text("dp=2 @7", "node:2 gpu:4"),
              "mesh dp=2 @7 reaches rank 8, but cluster node:2 gpu:4 has 8 devices; it fits on node:3 gpu:4");
    EXPECT_EQ(text("dp=2 @6", "node:2 gpu:4"), "no error");
    EXPECT_EQ(
        text("dp=16", "node[a1]:8 node[b1]:4"),
        "mesh dp=16 reaches rank 15, but cluster node[a1]:8 node[b1]:4 has 12 devices; it fits on one of 16 "
        "devices or more");
    EXPECT_EQ(text("dp=12", "node[a1]:8 node[b1]:4"), "no error");
}

TEST(Scene, LabelsABoxWithTheNameOfItsUnit) {
    const auto labels = [](const char* cluster) {
        return draw(Mesh{{"dp", 12}}, {.cluster = Cluster::parse(cluster)}, {}).labels;
    };
    EXPECT_EQ(labels("node[a1]:8 node[b1]:4"), (std::map<int, std::string>{{0, "a1"}, {1, "b1"}}));
    EXPECT_EQ(labels("rack[r7]:1 rack[r8]:1 node gpu:6"),
              (std::map<int, std::string>{{0, "r7 node 0"}, {1, "r8 node 0"}}));
    EXPECT_EQ(labels("rack:1 node:2 gpu:6"),
              (std::map<int, std::string>{{0, "rack 0 node 0"}, {1, "rack 0 node 1"}}));
}

}  // namespace
}  // namespace rankmesh::view
