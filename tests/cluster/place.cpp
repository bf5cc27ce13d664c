// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/place.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "cluster/objective.hpp"
#include "support/fewer.hpp"
#include "support/text_of.hpp"

namespace rankmesh {
namespace {

/// The sum that place makes least.
double seconds_of(const Cluster& cluster, const Placement& order, const std::vector<AxisTraffic>& traffic,
                  std::int64_t bytes) {
    auto sum = 0.0;
    for (const auto& of : traffic)
        sum += of.weight *
               Traffic(cluster, order, order.mesh().axes(of.axis)).cost(of.operation, bytes).seconds.value();
    return sum;
}

/// Holds that what place says of its own result is true.
void expect_true(const Cluster& cluster, const Mesh& mesh, const Placed& placed, std::int64_t bytes) {
    const auto where = to_string(mesh) + " on " + to_string(cluster);
    auto traffic = std::vector<AxisTraffic>{};
    auto before = 0.0;
    auto after = 0.0;
    for (const auto& axis : placed.axes) {
        traffic.push_back(axis.traffic);
        before += axis.traffic.weight * axis.before;
        after += axis.traffic.weight * axis.after;
    }
    EXPECT_NEAR(placed.before, before, before * 1e-9) << where;
    EXPECT_NEAR(placed.after, after, after * 1e-9) << where;
    EXPECT_LE(placed.after, placed.before) << where;
    EXPECT_NEAR(placed.before, seconds_of(cluster, mesh, traffic, bytes), before * 1e-9) << where;
    EXPECT_NEAR(placed.after, seconds_of(cluster, placed.order, traffic, bytes), after * 1e-9) << where;
    const auto devices = placed.devices();
    EXPECT_EQ(devices.size(), static_cast<std::size_t>(mesh.size())) << where;
    EXPECT_EQ(std::set<int>(devices.begin(), devices.end()).size(), devices.size()) << where;
    EXPECT_GE(std::ranges::min(devices), 0) << where;
    EXPECT_LT(std::ranges::max(devices), cluster.size()) << where;
}

/// The least that any choice and order of devices reaches.
double least_of_all(const Cluster& cluster, const Mesh& mesh, const std::vector<AxisTraffic>& traffic,
                    std::int64_t bytes) {
    auto devices = std::vector<int>(static_cast<std::size_t>(cluster.size()));
    std::iota(devices.begin(), devices.end(), 0);
    const auto middle = devices.begin() + mesh.size();
    auto least = std::numeric_limits<double>::infinity();
    do {
        least =
            std::min(least, seconds_of(cluster, Placement(mesh, {devices.begin(), middle}), traffic, bytes));
        std::reverse(middle, devices.end());  // the idle ones have no order
    } while (std::next_permutation(devices.begin(), devices.end()));
    return least;
}

TEST(Place, FindsTheBestOfAllPermutations) {
    for (const auto* text :
         {"node:2(1GB/s,5us) gpu:3(9GB/s,1us)", "node:3(1GB/s) gpu:2(9GB/s)", "gpu:6(3GB/s)",
          "rack:2(1GB/s,9us) node:2(3GB/s,5us) gpu:2(9GB/s)", "node[a]:4(1GB/s,1us) node[b]:2 gpu(5GB/s)",
          "node[a]:1(1GB/s,1us) node[b]:3 node[c]:3 gpu(2GB/s)",
          "rack[r]:2(1GB/s) rack[s]:1 node[a,b]:2(2GB/s,3us) node[c]:3 gpu(8GB/s)"}) {
        const auto cluster = Cluster::parse(text);
        for (const auto* words :
             {"tp=2 dp=3", "tp=3 dp=2", "tp=2 cp=2", "tp=2 ep=2 pp=1", "dp=5", "pp=3 tp=2"}) {
            const auto mesh = Mesh::parse(words);
            for (auto bytes : {100, 1 << 20}) {
                const auto placed = place(cluster, mesh, {}, bytes);
                EXPECT_EQ(placed.search, Placed::Search::all);
                expect_true(cluster, mesh, placed, bytes);
                const auto least = least_of_all(cluster, mesh, typical_traffic(mesh), bytes);
                EXPECT_NEAR(placed.after, least, least * 1e-8) << words << " on " << text;
            }
        }
    }
}

TEST(Place, FindsTheBestOfAllPermutationsOfEightDevices) {
    for (const auto* text : {"node:4(1GB/s,5us) gpu:2(9GB/s,1us)", "node:2(1GB/s,5us) gpu:4(9GB/s,1us)",
                             "node[a]:5(1GB/s,5us) node[b]:3 gpu(9GB/s)"}) {
        const auto cluster = Cluster::parse(text);
        const auto mesh = Mesh::parse("tp=2 pp=2 dp=2");
        const auto placed = place(cluster, mesh, {}, 1 << 20);
        const auto least = least_of_all(cluster, mesh, typical_traffic(mesh), 1 << 20);
        EXPECT_NEAR(placed.after, least, least * 1e-8) << text;
        EXPECT_EQ(placed.search, Placed::Search::all);
    }
}

/// The seconds of the mesh that the search over factors alone finds.
double seconds_by_factors(const Cluster& cluster, const Mesh& mesh, std::int64_t bytes) {
    auto fan_outs = std::vector<int>{};
    for (const auto& level : cluster.levels()) fan_outs.push_back(level.count);
    auto complete = false;
    const auto factors =
        detail::best_factors({cluster, mesh, typical_traffic(mesh), bytes}, fan_outs, complete);
    EXPECT_TRUE(factors && complete);
    return seconds_of(cluster, detail::mesh_of_factors(cluster, mesh, factors.value()), typical_traffic(mesh),
                      bytes);
}

/// True if every digit of the mesh lies within the units of a level or beyond them.
bool is_aligned(const Cluster& cluster, const Mesh& mesh) {
    for (int a = 0; a < mesh.axis_count(); ++a)
        for (int k = 0; k < mesh.layout(AxisId{a}).digit_count(); ++k)
            for (int l = 0; l < cluster.level_count(); ++l) {
                const auto [size, stride] = mesh.layout(AxisId{a}).digit(k);
                if (stride % cluster.unit_size(0, l) != 0 && cluster.unit_size(0, l) % (size * stride) != 0)
                    return false;
            }
    return true;
}

/// Every mesh over the first devices that has the prime factors of its axes in some order.
TEST(Place, NoMeshWithOtherStridesIsBetter) {
    for (const auto* text : support::fewer_if_sanitized(std::vector<const char*>{
             "rack:2(10GB/s,9us) node:4(50GB/s,5us) gpu:4(450GB/s,2us)",
             "rack:4(200GB/s) node:2(50GB/s,5us) gpu:4(60GB/s,2us)",
             "rack:2(20GB/s) node:3(25GB/s,50us) gpu:6(450GB/s,2us)", "node:8(1GB/s,1us) gpu:4(3GB/s,1us)",
             "node:16(1GB/s) gpu:4(9GB/s)", "a:2(1GB/s) b:2(2GB/s) c:2(4GB/s) d:4(8GB/s)"})) {
        const auto cluster = Cluster::parse(text);
        // Of 64 devices axes that do not fit into a node, so that it matters how much of each does.
        const auto words =
            cluster.size() == 64   ? std::vector<std::string>{"dp=8 edp=8", "ep=8 cp=8", "ep=16 tp=4"}
            : cluster.size() == 32 ? std::vector<std::string>{"tp=4 dp=8", "pp=2 tp=4 dp=4", "ep=8 tp=2 dp=2"}
                                   : std::vector<std::string>{"tp=3 dp=12", "tp=6 dp=3 pp=2", "cp=4 dp=9"};
        for (const auto& word : words) {
            const auto mesh = Mesh::parse(word);
            for (auto bytes : {1000, 1 << 24}) {
                const auto placed = place(cluster, mesh, {}, bytes);
                EXPECT_EQ(placed.search, Placed::Search::strided);
                expect_true(cluster, mesh, placed, bytes);
                const auto by_factors = seconds_by_factors(cluster, mesh, bytes);
                auto digits = std::vector<Axis>{};  // the primes of each axis
                for (int a = 0; a < mesh.axis_count(); ++a)
                    for (auto left = mesh.size(AxisId{a}), prime = 2; left > 1; ++prime)
                        for (; left % prime == 0; left /= prime)
                            digits.push_back({mesh.name(AxisId{a}), prime});
                auto order = std::vector<std::size_t>(digits.size());
                std::iota(order.begin(), order.end(), std::size_t{0});
                do {
                    auto strides = std::vector<int>(digits.size());
                    auto stride = 1;
                    for (auto i = order.size(); i-- > 0;) {
                        strides[order[i]] = stride;
                        stride *= digits[order[i]].size.size();
                    }
                    auto notation = std::string{};
                    for (int a = 0; a < mesh.axis_count(); ++a) {
                        auto sizes = std::string{};
                        auto steps = std::string{};
                        for (std::size_t i = 0; i < digits.size(); ++i)
                            if (digits[i].name == mesh.name(AxisId{a})) {
                                sizes += (sizes.empty() ? "" : ",") + std::to_string(digits[i].size.size());
                                steps += (steps.empty() ? "" : ",") + std::to_string(strides[i]);
                            }
                        notation += std::string(mesh.name(AxisId{a})) + "=(" + sizes + "):(" + steps + ") ";
                    }
                    const auto other = Mesh::parse(notation);
                    if (!is_aligned(cluster, other)) continue;
                    const auto seconds = seconds_of(cluster, other, typical_traffic(mesh), bytes);
                    EXPECT_GE(seconds, placed.after * (1 - 1e-9))
                        << notation << " on " << text << " beats " << word;
                    EXPECT_GE(seconds, by_factors * (1 - 1e-9))
                        << notation << " on " << text << " beats " << word;
                } while (std::ranges::next_permutation(order).found);
            }
        }
    }
}

TEST(Place, KeepsTheGivenOrderWhereNoneIsBetter) {
    const auto cluster = Cluster::parse("node:4(25GB/s,5us) gpu:8(450GB/s,2us)");
    const auto mesh = Mesh::parse("dp=4 tp=8");
    const auto placed = place(cluster, mesh);
    EXPECT_EQ(placed.order, mesh);
    EXPECT_EQ(placed.before, placed.after);
    const auto table = Placement(Mesh::parse("a=2 b=2"), {0, 1, 2, 3});
    EXPECT_EQ(place(Cluster::parse("gpu:4(1GB/s)"), table).order, shortest(table));
}

TEST(Place, GivesTheHeavierAxisTheFasterLinks) {
    const auto cluster = Cluster::parse("node:64(50GB/s,5us) gpu:8(450GB/s,2us)");
    const auto mesh = Mesh::parse("a=8 b=64");
    const auto inside = [&](double a, double b) {
        const auto placed =
            place(cluster, mesh, {{"a", Collective::all_reduce, a}, {"b", Collective::all_reduce, b}});
        return Traffic(cluster, placed.order, mesh.axes("a")).straddling(0) == 0;
    };
    EXPECT_TRUE(inside(100, 1));
    EXPECT_FALSE(inside(0, 1));
}

TEST(Place, LeavesDevicesIdleBeforeAGroupLeavesItsNode) {
    // Nodes with holes: 4 + 3 + 4 + 3 + 4 + 4 devices for five groups of four, of which four fit.
    const auto cluster =
        Cluster::parse("node[a]:4(25GB/s,5us) node[b]:3 node[c]:4 node[d]:3 node[e,f]:4 gpu(450GB/s)");
    const auto mesh = Mesh::parse("dp=4 tp=4");
    const auto placed = place(cluster, mesh);
    expect_true(cluster, mesh, placed, 64 << 20);
    const auto straddling = [&](const Placement& order) {
        return Traffic(cluster, order, mesh.axes("tp")).straddling(0);
    };
    EXPECT_EQ(straddling(mesh), 3);
    EXPECT_EQ(straddling(placed.order), 0);
}

TEST(Place, PacksClustersOfAnyShape) {
    for (const auto* text :
         {"node[a-0,a-1]:8(25GB/s,5us) node[b]:7 node[c]:8 node[d]:1 gpu(450GB/s)",
          "node:5(25GB/s,5us) gpu:7(450GB/s)", "gpu:40(1GB/s)",
          "rack[r]:3(10GB/s) rack[s]:2 node[a,b]:7(25GB/s,5us) node[c]:5 node[d,e]:8 gpu(450GB/s)"}) {
        const auto cluster = Cluster::parse(text);
        for (const auto* words :
             {"dp=8 tp=4", "tp=4 dp=8", "tp=3 dp=10", "pp=2 dp=3 tp=5", "dp=29", "tp=7 dp=4", "dp=32 tp=1"})
            expect_true(cluster, Mesh::parse(words), place(cluster, Mesh::parse(words), {}, 1 << 20),
                        1 << 20);
    }
}

TEST(Place, OfManyRanksEndsAndIsTrue) {
    const auto even =
        Cluster::parse("row:8(400GB/s,10us) rack:16(200GB/s,8us) node:64(50GB/s,5us) gpu:8(450GB/s,2us)");
    const auto mesh = Mesh::parse("tp=8 cp=4 ep=8 pp=16 dp=16");
    const auto placed = place(even, mesh);
    EXPECT_EQ(placed.search, Placed::Search::strided);
    expect_true(even, mesh, placed, 64 << 20);
    EXPECT_EQ(Traffic(even, placed.order, mesh.axes("tp")).straddling(2), 0);

    const auto holes = Cluster::parse("node[a0001-a8000]:8(50GB/s,5us) node[b001-b300]:7 gpu(450GB/s,2us)");
    const auto less = Mesh::parse("tp=8 pp=8 dp=1000");
    const auto packed = place(holes, less);
    expect_true(holes, less, packed, 64 << 20);
    EXPECT_EQ(Traffic(holes, packed.order, less.axes("tp")).straddling(0), 0);
}

TEST(Place, SaysWhatCannotBeAsked) {
    const auto mesh = Mesh::parse("dp=2 tp=2");
    const auto text = [&](const char* cluster, const std::vector<AxisTraffic>& traffic) {
        return text_of([&] { place(Cluster::parse(cluster), mesh, traffic); });
    };
    EXPECT_EQ(text("node:2(25GB/s) gpu:2", {}),
              "cluster node:2(25GB/s) gpu:2 gives no bandwidth for level 'gpu', which place requires; add it "
              "to the level, as in gpu:8(50GB/s,5us)");
    EXPECT_EQ(
        text("gpu:2(1GB/s)", {}),
        "mesh dp=2 tp=2 reaches rank 3, but cluster gpu:2(1GB/s) has devices 0..1; rank r runs on device r");
    EXPECT_EQ(text("gpu:4(1GB/s)", {{"ttp"}}), "mesh dp=2 tp=2 has no axis 'ttp'; did you mean 'tp'?");
    EXPECT_EQ(text("gpu:4(1GB/s)", {{"tp", Collective::shift, -1}}),
              "axis 'tp' has weight -1.000000; weights are numbers of 0 or more");
    EXPECT_EQ(text("gpu:4(1GB/s)", {{"tp", Collective::shift, std::nan("")}}),
              "axis 'tp' has weight nan; weights are numbers of 0 or more");
}

TEST(TypicalTraffic, IsOfTheAxesOfTwoRanksOrMore) {
    EXPECT_EQ(typical_traffic(Mesh::parse("pp=2 dp=2 cp=2 ep=2 tp=2 x=1")),
              (std::vector<AxisTraffic>{{"pp", Collective::shift, 1},
                                        {"dp", Collective::all_reduce, 10},
                                        {"cp", Collective::shift, 30},
                                        {"ep", Collective::all_to_all, 30},
                                        {"tp", Collective::all_reduce, 100}}));
}

}  // namespace
}  // namespace rankmesh
