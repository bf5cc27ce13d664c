// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/check.hpp>

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "support/text_of.hpp"

namespace rankmesh {
namespace {

TEST(Keep, IsReadFromAxesAndALevel) {
    EXPECT_EQ(Keep::parse("tp:node"), (Keep{{"tp"}, "node"}));
    EXPECT_EQ(Keep::parse("tp,cp:rack"), (Keep{{"tp", "cp"}, "rack"}));
    const auto text = [](const char* words) { return text_of([&] { Keep::parse(words); }); };
    const auto hint = std::string("; write axes and a level, such as tp:node or tp,cp:node");
    EXPECT_EQ(text("tp"), "the rule 'tp' has no ':'" + hint);
    EXPECT_EQ(text("tp:"), "the rule 'tp:' names no level" + hint);
    EXPECT_EQ(text(":node"), "the rule ':node' has an empty axis" + hint);
    EXPECT_EQ(text("tp,:node"), "the rule 'tp,:node' has an empty axis" + hint);
}

/// Holds the rules of a report against looking at every rank of every group.
void expect_judged(const Cluster& cluster, const Placement& placement, const ClusterReport& report) {
    const auto& mesh = placement.mesh();
    for (const auto& rule : report.rules) {
        auto set = AxisSet{};
        for (const auto& axis : rule.keep.axes) set.insert(mesh.axis(axis));
        const auto level = cluster.level(rule.keep.level);
        auto straddling = 0;
        auto first = std::vector<int>{};
        for (const auto& group : mesh.partition(set)) {
            auto ranks = std::vector<int>{};
            auto units = std::set<int>{};
            for (auto position : group) {
                ranks.push_back(placement.ranks()[position]);
                units.insert(cluster.unit(ranks.back(), level));
            }
            if (units.size() > 1 && straddling++ == 0) first = ranks;
        }
        auto largest = 0;
        auto divides = true;
        for (int unit = 0; unit < cluster.unit_count(level); ++unit) {
            auto devices = 0;
            for (int device = 0; device < cluster.size(); ++device)
                if (cluster.unit(device, level) == unit) ++devices;
            largest = std::max(largest, devices);
            divides = divides && devices % rule.group_size == 0;
        }
        EXPECT_EQ(rule.straddling, straddling);
        EXPECT_EQ(rule.first, first);
        EXPECT_EQ(rule.units.size(), first.size());
        for (std::size_t i = 0; i < first.size(); ++i)
            EXPECT_EQ(rule.units[i], cluster.unit(first[i], level));
        EXPECT_EQ(rule.unit_size, largest);
        EXPECT_EQ(rule.divides, divides);
        EXPECT_EQ(rule.holds(), straddling == 0);
        EXPECT_EQ(rule.groups * rule.group_size, mesh.size());
    }
}

TEST(CheckOn, JudgesARuleAsLookingAtEveryRankDoes) {
    auto random = std::mt19937(7);
    for (const auto* text : {"rack:2 node:3 gpu:4", "node:6 gpu:4", "node[a]:9 node[b,c]:7 node[d]:1"}) {
        const auto cluster = Cluster::parse(text);
        for (const auto* words : {"a=2 b=3 c=4", "a=4 b=3", "a=5 b=4", "a=24", "a=1 b=8"}) {
            const auto mesh = Mesh::parse(words);
            auto keep = std::vector<Keep>{};
            for (const auto& level : cluster.levels())
                for (int a = 0; a < mesh.axis_count(); ++a) {
                    keep.push_back({{std::string(mesh.name(AxisId{a}))}, level.name});
                    if (a > 0) keep.push_back({{std::string(mesh.name(AxisId{a})), "a"}, level.name});
                }
            auto ranks = std::vector<int>(static_cast<std::size_t>(cluster.size()));
            std::iota(ranks.begin(), ranks.end(), 0);
            for (int i = 0; i < 5; ++i) {
                const auto placement = Placement(mesh, {ranks.begin(), ranks.begin() + mesh.size()});
                const auto report = check_on(cluster, placement, {.keep = keep});
                ASSERT_EQ(report.rules.size(), keep.size());
                expect_judged(cluster, placement, report);
                if (i == 0) expect_judged(cluster, placement, check_on(cluster, mesh, {.keep = keep}));
                std::ranges::shuffle(ranks, random);
            }
        }
    }
}

TEST(CheckOn, TellsTheCostsThatTrafficCounts) {
    const auto cluster = Cluster::parse("node:4(25GB/s,5us) gpu:4(450GB/s)");
    const auto mesh = Mesh::parse("pp=2 cp=1 dp=2 tp=4");
    const auto report = check_on(cluster, mesh, {.bytes = 1000});
    ASSERT_EQ(report.costs.size(), 3U) << "cp has one rank";
    for (const auto& costs : report.costs) {
        const auto traffic = Traffic(cluster, mesh, mesh.axes(costs.axes.at(0)));
        for (std::size_t i = 0; i < collectives.size(); ++i) {
            EXPECT_EQ(costs.together[i].seconds, traffic.cost(collectives[i], 1000).seconds);
            EXPECT_EQ(costs.alone[i].links, traffic.cost(collectives[i], 1000, Busy::one_group).links);
        }
        EXPECT_EQ(costs.straddling, (std::vector{traffic.straddling(0), traffic.straddling(1)}));
    }
    EXPECT_EQ(check_on(cluster, mesh, {.sets = {{"dp", "pp"}}}).costs.at(0).group_size, 4);
}

TEST(CheckOn, KeepsTheAxesThatTalkMostInsideTheFastestLevel) {
    const auto keeps = [](const char* cluster, const char* mesh) {
        return default_keeps(Cluster::parse(cluster), Mesh::parse(mesh));
    };
    const auto all = [](const char* level) {
        return std::vector<Keep>{{{"tp"}, level}, {{"cp"}, level}, {{"ep"}, level}};
    };
    EXPECT_EQ(keeps("rack:2 node:2 gpu:8", "dp=4 ep=2 cp=2 tp=2"), all("node"));
    EXPECT_EQ(keeps("node:4 gpu:8", "dp=4 ep=2 cp=2 tp=4").size(), 2U) << "ep does not fit";
    EXPECT_EQ(keeps("node:4 gpu:8", "dp=2 ep=2 cp=4 tp=4"), std::vector{Keep::parse("tp:node")})
        << "ep does not take the place of cp";
    EXPECT_EQ(keeps("node:8 gpu:8", "pp=4 edp=2 ep=4 etp=2").size(), 2U) << "etp is the tp of experts";
    EXPECT_EQ(keeps("node:8 gpu:8", "edp=2 ep=4 etp=8"), std::vector{Keep::parse("etp:node")});
    EXPECT_EQ(keeps("node:4 gpu:8", "dp=2 tp=16"), std::vector{Keep::parse("tp:node")})
        << "tp always has a rule";
    EXPECT_EQ(keeps("node:8 gpu:8", "dp=2 cp=2 tp=16"), std::vector{Keep::parse("tp:node")});
    EXPECT_EQ(keeps("node:8 gpu:8", "edp=2 ep=2 etp=16"), std::vector{Keep::parse("etp:node")});
    EXPECT_EQ(keeps("node:4 gpu:8", "dp=2 cp=16"), std::vector<Keep>{});
    EXPECT_EQ(keeps("node:4 gpu:8", "dp=32 tp=1"), std::vector<Keep>{});
    EXPECT_EQ(keeps("gpu:8", "tp=8"), std::vector<Keep>{});
    EXPECT_EQ(keeps("rack:2(9GB/s) node:2(25GB/s) gpu:2(25GB/s)", "tp=4").at(0).level, "rack");
    EXPECT_EQ(keeps("rack:2(9GB/s) node:2(24GB/s) gpu:2(25GB/s)", "tp=2").at(0).level, "node");
    const auto report = check_on(Cluster::parse("node:4 gpu:8"), Mesh::parse("dp=2 cp=4 tp=4"));
    EXPECT_EQ(report.unruled, std::vector<std::string>{"cp"});
    EXPECT_TRUE(report.rules.at(0).is_default);
    EXPECT_FALSE(check_on(Cluster::parse("node:4 gpu:8"), Mesh::parse("dp=2 tp=16")).right());
}

TEST(CheckOn, OfAMeshThatDoesNotFitSaysNoMore) {
    const auto report = check_on(Cluster::parse("node:2 gpu:4"), Mesh::parse("dp=4 tp=2 @1"));
    EXPECT_FALSE(report.fits());
    EXPECT_FALSE(report.right());
    EXPECT_EQ(report.last_rank, 8);
    EXPECT_TRUE(report.rules.empty() && report.costs.empty());
    EXPECT_TRUE(check_on(Cluster::parse("node:2 gpu:4"), Mesh::parse("dp=4 tp=2")).right());
}

TEST(CheckOn, RefusesNamesThatAreNotThere) {
    const auto cluster = Cluster::parse("node:2 gpu:4");
    const auto mesh = Mesh::parse("dp=4 tp=2");
    for (const auto& of : {mesh, Mesh::parse("dp=40 tp=2")}) {
        EXPECT_EQ(text_of([&] { check_on(cluster, of, {.keep = {Keep::parse("ttp:node")}}); }),
                  "mesh " + to_string(of) + " has no axis 'ttp'; did you mean 'tp'?");
        EXPECT_EQ(text_of([&] { check_on(cluster, of, {.keep = {Keep::parse("tp:nod")}}); }),
                  "cluster node:2 gpu:4 has no level 'nod'; did you mean 'node'?");
    }
}

}  // namespace
}  // namespace rankmesh
