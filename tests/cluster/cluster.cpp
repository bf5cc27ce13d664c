// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cluster.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "support/allocations.hpp"
#include "support/clean.hpp"
#include "support/text_of.hpp"

namespace rankmesh {
namespace {

std::string parse_error(const char* text) {
    return text_of([&] { Cluster::parse(text); });
}

TEST(Cluster, WhatIsPrintedIsWhatWasRead) {
    for (const auto* text :
         {"gpu:8", "node:2 gpu:4", "rack:4 node:8(25GB/s,5us) gpu:8(450GB/s)", "node:1(5us) gpu:1(1.5TB/s)",
          "node:3(999kB/s,0s) gpu:2(1B/s,1000s)", "a:2(12.5GB/s) b:2(1.25us)", "n:1(1.001ns)", "n:1(0.001ns)",
          "n:1(1000000TB/s)", "n:1(123.456MB/s,2.5ms)"})
        EXPECT_EQ(to_string(Cluster::parse(text)), text);
}

TEST(Cluster, OneClusterIsReadFromSeveralSpellings) {
    const auto plain = Cluster::parse("node:2(25GB/s,5us) gpu:4");
    for (const auto* text : {"  node:2( 25GB/s , 5us )  gpu:4 ", "node:2(25000MB/s,5000ns),gpu:4",
                             "node:2(0.025TB/s,0.005ms)\ngpu:4", "node:2(25.0GB/s,5us), gpu:4"})
        EXPECT_EQ(Cluster::parse(text), plain) << text;
}

RC_GTEST_PROP(Cluster, ParsesBackToItself, ()) {
    const auto link = [](double low, double high) -> std::optional<double> {
        if (*rc::gen::inRange(0, 3) == 0) return std::nullopt;
        const auto share = *rc::gen::inRange(0, 1 << 30) / static_cast<double>(1 << 30);
        return std::exp(std::log(low) + share * (std::log(high) - std::log(low)));
    };
    auto levels = std::vector<Cluster::Level>{};
    for (auto left = *rc::gen::inRange(1, max_axes + 1); left > 0; --left)
        levels.push_back(
            {"level-" + std::to_string(left), *rc::gen::inRange(1, 4), link(1.0, 1e18), link(1e-12, 1e3)});
    const auto cluster = Cluster(levels);
    RC_ASSERT(Cluster::parse(to_string(cluster)) == cluster);
}

TEST(Cluster, EveryDeviceLiesInTheUnitsThatCountingFinds) {
    for (const auto* text :
         {"gpu:7", "node:3 gpu:4", "rack:2 node:3 gpu:5", "a:1 b:3 c:1 d:4", "a:2 b:2 c:2 d:2 e:2"}) {
        const auto cluster = Cluster::parse(text);
        auto numbers = std::vector<int>(cluster.levels().size());  // inside the parent, by level
        auto units = std::vector<int>(cluster.levels().size());    // over the whole cluster, by level
        for (int device = 0; device < cluster.size(); ++device) {
            for (int level = 0; level < cluster.level_count(); ++level) {
                const auto at = static_cast<std::size_t>(level);
                EXPECT_EQ(cluster.unit(device, level), units[at]) << text << " device " << device;
                EXPECT_EQ(cluster.path(device)[AxisId{level}], numbers[at]) << text << " device " << device;
            }
            for (auto at = numbers.size(); at-- > 0;) {
                ++units[at];
                if (++numbers[at] < cluster.levels()[at].count) break;
                numbers[at] = 0;
            }
        }
        EXPECT_EQ(cluster.unit_count(cluster.level_count() - 1), cluster.size());
        EXPECT_EQ(units[0], cluster.unit_count(0));
    }
}

/// A tree and what walking over all of it finds, device by device.
struct Walked {
    std::vector<Cluster::Level> levels;
    std::vector<std::vector<int>> counts;  // by level: of the units inside, of each unit
    std::vector<std::vector<int>> firsts;  // by level: the first device of each unit
    std::vector<std::vector<std::string>> names;
    std::vector<std::vector<int>> paths;  // by device
    std::vector<std::vector<int>> units;  // by device: the unit at each level

    void walk(std::size_t level, std::vector<int> path, std::vector<int> above, const std::string& name) {
        if (level == levels.size()) {
            paths.push_back(path);
            units.push_back(above);
            return;
        }
        const auto inside = level == 0 ? static_cast<int>(counts[0].size())
                                       : counts[level - 1][static_cast<std::size_t>(above.back())];
        for (int i = 0; i < inside; ++i) {
            const auto unit = firsts[level].size();
            firsts[level].push_back(static_cast<int>(paths.size()));
            const auto& given = levels[level].units;
            names[level].push_back(!given.empty() ? given[unit].name
                                                  : name + (name.empty() ? "" : " ") + levels[level].name +
                                                        " " + std::to_string(i));
            auto next_path = path;
            auto next_above = above;
            next_path.push_back(i);
            next_above.push_back(static_cast<int>(unit));
            walk(level + 1, next_path, next_above, names[level].back());
        }
    }
};

/// Different names, of characters that lists of names give a meaning to.
std::vector<std::string> any_names(std::size_t count) {
    auto names = std::vector<std::string>{};
    auto seen = std::set<std::string>{};
    const auto letters = rc::gen::elementOf(std::string("a109-."));
    while (names.size() < count) {
        auto name = *rc::gen::container<std::string>(*rc::gen::inRange<std::size_t>(1, 6), letters);
        // Often a few that follow one another.
        for (auto more = *rc::gen::inRange(0, 4); more >= 0 && names.size() < count; --more) {
            if (seen.insert(name).second) names.push_back(name);
            if (name.back() >= '0' && name.back() < '9')
                ++name.back();
            else
                name += '8';
        }
    }
    return names;
}

Walked any_tree() {
    auto tree = Walked{};
    const auto depth = *rc::gen::inRange<std::size_t>(1, 5);
    auto units = *rc::gen::inRange<std::size_t>(1, 5);
    for (std::size_t i = 0; i < depth; ++i) {
        auto level = Cluster::Level{
            .name = i + 1 == depth && *rc::gen::arbitrary<bool>() ? "device" : "l" + std::to_string(i)};
        const auto all = *rc::gen::inRange(1, 4);
        auto counts = std::vector<int>(units, all);
        if (i == 0) level.count = static_cast<int>(units);
        if (i > 0) level.count = tree.counts.back().front();
        if (i + 1 < depth && *rc::gen::arbitrary<bool>()) {
            const auto names = any_names(units);
            for (std::size_t unit = 0; unit < units; ++unit) {
                if (*rc::gen::inRange(0, 3) == 0) counts[unit] = *rc::gen::inRange(1, 4);
                level.units.push_back({names[unit], counts[unit]});
            }
        }
        if (*rc::gen::arbitrary<bool>()) level.bandwidth = 1e9 * *rc::gen::inRange(1, 1000);
        tree.counts.push_back(counts);
        tree.levels.push_back(level);
        units = 0;
        for (const auto count : counts) units += static_cast<std::size_t>(count);
    }
    tree.firsts.resize(depth);
    tree.names.resize(depth);
    tree.walk(0, {}, {}, "");
    return tree;
}

RC_GTEST_PROP(Cluster, AnUnevenOneSaysWhatWalkingOverAllOfItFinds, ()) {
    const auto tree = any_tree();
    const auto cluster = Cluster(tree.levels);
    RC_ASSERT(cluster.size() == static_cast<int>(tree.paths.size()));
    auto even = true;
    for (int level = 0; level < cluster.level_count(); ++level) {
        const auto at = static_cast<std::size_t>(level);
        const auto& firsts = tree.firsts[at];
        RC_ASSERT(cluster.unit_count(level) == static_cast<int>(firsts.size()));
        for (std::size_t unit = 0; unit < firsts.size(); ++unit) {
            const auto number = static_cast<int>(unit);
            const auto end = unit + 1 < firsts.size() ? firsts[unit + 1] : cluster.size();
            RC_ASSERT(cluster.first_device(number, level) == firsts[unit]);
            RC_ASSERT(cluster.unit_size(number, level) == end - firsts[unit]);
            RC_ASSERT(cluster.unit_name(number, level) == tree.names[at][unit]);
        }
        if (at + 1 < tree.levels.size()) {
            const auto& counts = tree.counts[at];
            RC_ASSERT(cluster.levels()[at + 1].count == std::ranges::max(counts));
            even = even &&
                   std::ranges::count(counts, counts.front()) == static_cast<std::ptrdiff_t>(counts.size());
        }
    }
    RC_ASSERT(cluster.is_even() == even);
    for (int device = 0; device < cluster.size(); ++device) {
        const auto path = cluster.path(device);
        for (int level = 0; level < cluster.level_count(); ++level) {
            RC_ASSERT(cluster.unit(device, level) ==
                      tree.units[static_cast<std::size_t>(device)][static_cast<std::size_t>(level)]);
            RC_ASSERT(path[AxisId{level}] ==
                      tree.paths[static_cast<std::size_t>(device)][static_cast<std::size_t>(level)]);
        }
    }
    RC_ASSERT(Cluster::parse(to_string(cluster)) == cluster);
}

TEST(Cluster, UnitsByNameAreFoldedIntoRanges) {
    const auto printed = [](const char* text) { return to_string(Cluster::parse(text)); };
    for (const auto* text :
         {"node[a01-a31]:8 node[b01]:4", "rack[r1]:16 rack[r2]:15 node[a01-a31]:8",
          "node[a01-a31]:8(50GB/s,5us) node[b01]:4 gpu(450GB/s)", "rack[r1]:2 rack[r2]:1 node gpu:8",
          "rack:2 node[a1-a4]:8", "node[gpu-a[01-31]]:8", "node[n[1-3]-ib]:2", "node[1-3]:2", "node[1-[3]]:2",
          "node[a9-a11]:1", "node[a09-a11]:1", "node[a1,a01]:1", "rack[r1]:1 rack[r2]:2 node device:8"})
        EXPECT_EQ(printed(text), text);
    EXPECT_EQ(printed("node[a1,a2,a3]:8 node[a4]:8"), "node[a1-a4]:8");
}

TEST(Cluster, CountsThatAreSaidElsewhereNeedNotBeSaidTwice) {
    for (const auto& [text, canonical] : std::vector<std::pair<const char*, const char*>>{
             {"node[a1-a3] gpu:8", "node[a1-a3]:8 gpu"},
             {"node[a1-a3]:8 gpu:8", "node[a1-a3]:8 gpu"},
             {"node[a1-a3]:8 device", "node[a1-a3]:8"},
             {"rack[r1,r2] node[a1-a4]:8", "rack[r1-r2]:2 node[a1-a4]:8"},
             {"node[a1] node[a2]:8 gpu:8", "node[a1-a2]:8 gpu"},
             {"node[ a[1-2][0-1] , b ]:8, gpu", "node[a10-a11,a20-a21,b]:8 gpu"},
             {"node[a1]:8 node[a2]:8(1GB/s)", "node[a1-a2]:8(1GB/s)"},
             {"node[a1-a1]:8", "node[a1]:8"}})
        EXPECT_EQ(to_string(Cluster::parse(text)), canonical);
}

TEST(Cluster, SaysWhatIsWrongWithUnitsByName) {
    EXPECT_EQ(parse_error("node[a1-a3,a2]:8"), "level 'node' lists 'a2' twice; list every unit once");
    EXPECT_EQ(parse_error("node[a1]:8 node[b1,a1]:4"), "level 'node' lists 'a1' twice; list every unit once");
    EXPECT_EQ(parse_error("node[a1-a3]:0"),
              "level 'node' says that 'a1' holds 0 units; it must hold 1 or more");
    EXPECT_EQ(parse_error("node[a1-a3]:-4"),
              "level 'node' says that 'a1' holds -4 units; it must hold 1 or more");
    EXPECT_EQ(parse_error("rack[r1]:16 rack[r2]:15 node[a01-a30]:8"),
              "the units of level 'rack' hold 31 of level 'node', which lists 30 by name");
    EXPECT_EQ(parse_error("rack:2 node[a01-a31]:8"),
              "level 'node' lists 31 units by name, which 2 of level 'rack' cannot share evenly; give the "
              "number that each holds, as in rack[rack1]:16 rack[rack2]:15");
    EXPECT_EQ(parse_error("node[a1-a3]"),
              "level 'node' does not say how many of level 'device' 'a1' holds; add it, as in node[a1]:8");
    EXPECT_EQ(parse_error("node[a1-a3]:8 gpu:4"),
              "level 'node' says that 'a1' holds 8 of level 'gpu', which says 4; give it once");
    EXPECT_EQ(parse_error("node[a1]:8(1GB/s) node[a2]:8(2GB/s)"),
              "level 'node' has two links; give all units of a level the same link");
    EXPECT_EQ(parse_error("node[a1]:8 gpu node[a2]:8"),
              "the level 'node' is listed twice; list every level once");
    EXPECT_EQ(parse_error("node[a1,a2]:2147483647"),
              "the levels up to 'device' make 4294967294 units; a cluster has at most 2147483647 devices");
    const auto end =
        std::string("; names are letters, digits, '_', '-' or '.', and ranges a01-a31 or a[01-31]");
    EXPECT_EQ(
        parse_error("node[a9-a1]:8"),
        "the names 'a9-a1' of level 'node' have the range 'a9-a1', which counts down from 9 to 1" + end);
    EXPECT_EQ(to_string(Cluster::parse("node[a01-a5]:8")), to_string(Cluster::parse("node[a01-a05]:8")));
    EXPECT_EQ(parse_error("node[a[1-1000000000]]:8"),
              "the names of level 'node' with '1-1000000000' are more than 262144, the limit");
    EXPECT_EQ(parse_error("node[a1-a262144,b]:8"),
              "the names of level 'node' with 'b' are more than 262144, the limit");
    EXPECT_EQ(parse_error("node[a[0-999][0-999]]:8"),
              "the names of level 'node' with '0-999' are more than 262144, the limit");
    EXPECT_EQ(parse_error("node[]:8"), "the names '' of level 'node' have an empty name" + end);
    EXPECT_EQ(parse_error("node[a,,b]:8"), "the names 'a,,b' of level 'node' have an empty name" + end);
    EXPECT_EQ(parse_error("node[a$]:8"),
              "the names 'a$' of level 'node' have the character '$' at character 2" + end);
    EXPECT_EQ(
        parse_error("node[a[1]]x]:8"),
        "the cluster 'node[a[1]]x]:8' cannot be read: expected a blank, or a link such as (25GB/s,5us), "
        "after 'node[a[1]]', found 'x' at character 11");
    EXPECT_EQ(
        parse_error("node[a[b]]:8"),
        "the names 'a[b]' of level 'node' have the character 'b' at character 3, where a number is missing" +
            end);
    EXPECT_EQ(
        parse_error("node[a1"),
        "the cluster 'node[a1' cannot be read: expected ']', as in node[a01-a31]:8, after 'node[a1', found "
        "the end");
    const auto long_name = parse_error(("node[" + std::string(256, 'a') + "]:8").c_str());
    EXPECT_TRUE(long_name.ends_with("' of level 'node' have a name of 256 characters, more than 255" + end))
        << long_name;
    EXPECT_EQ(
        text_of([] {
            Cluster({{.name = "node", .units = {{"a", 1}}}});
        }),
        "level 'node' lists its units by name, but no level is inside it; give only the number of devices");
    EXPECT_EQ(text_of([] {
                  Cluster({{.name = "node", .units = {{"a b", 1}}}, {.name = "gpu"}});
              }),
              "level 'node' has a unit named 'a b'; names are 1 to 255 letters, digits, '_', '-' or '.'");
    const auto cluster = Cluster::parse("node[a1]:8 node[a2]:4");
    EXPECT_EQ(text_of([&] { cluster.first_device(2, 0); }),
              "unit 2 of level 'node' was asked of cluster node[a1]:8 node[a2]:4; it has units 0..1");
}

TEST(Cluster, AnEvenOneOfAnySizeTakesNoMemoryForItsDevices) {
    const auto made = [](const char* text) {
        support::most_bytes();
        const auto cluster = Cluster::parse(text);
        EXPECT_EQ(cluster.unit(cluster.size() - 1, 0), cluster.unit_count(0) - 1);
        return support::most_bytes();
    };
    EXPECT_EQ(made("rack:1 node:1 gpu:1"), made("rack:9 node:9 gpu:9"));
    EXPECT_EQ(made("rack:100 node:1000 gpu:100"), made("rack:1000 node:1000 gpu:999"));
}

TEST(Cluster, SaysWhatIsWrongInANotation) {
    EXPECT_EQ(parse_error(""), "a cluster without levels; name at least one, as in 'node:2 gpu:8'");
    EXPECT_EQ(
        parse_error("gpu8"),
        "the cluster 'gpu8' cannot be read: expected ':' and a count, as in node:8 gpu:8, after 'gpu8', "
        "found the end");
    EXPECT_EQ(parse_error("gpu:"),
              "the cluster 'gpu:' cannot be read: expected a whole number after 'gpu:', found the end");
    EXPECT_EQ(parse_error("gpu:8x"),
              "the cluster 'gpu:8x' cannot be read: expected a blank, or a link such as (25GB/s,5us), after "
              "'gpu:8', found 'x' at character 6");
    EXPECT_EQ(parse_error("gpu:0"), "level 'gpu' has count 0; counts are 1 or more");
    EXPECT_EQ(parse_error("a:2 a:2"), "the level 'a' is listed twice; list every level once");
    EXPECT_EQ(parse_error("gpu[001-003] gpu:8"),
              "'gpu[...]' lists units of a level 'gpu', which is listed twice; if they are hosts, write "
              "'node[gpu[001-003]]:8'");
    EXPECT_EQ(parse_error("a:65536 b:32768"),
              "the levels up to 'b' make 2147483648 units; a cluster has at most 2147483647 devices");
    EXPECT_EQ(parse_error("gpu:8(25Gb/s)"),
              "the cluster 'gpu:8(25Gb/s)' cannot be read: expected a bandwidth in B/s, "
              "kB/s, MB/s, GB/s or TB/s (bytes: 8 Gb/s are 1 GB/s) or a latency in s, ms, us or ns after "
              "'gpu:8(25', "
              "found 'G' at character 9");
    EXPECT_EQ(parse_error("gpu:8(5us,25GB/s)"),
              "the cluster 'gpu:8(5us,25GB/s)' cannot be read: expected ')' after 'gpu:8(5us', found ',' at "
              "character 10");
    EXPECT_EQ(parse_error("gpu:8(25GB/s,5)"),
              "the cluster 'gpu:8(25GB/s,5)' cannot be read: expected a latency in s, ms, us or ns after "
              "'5', found ')' at character 15");
    EXPECT_EQ(parse_error("gpu:8()"),
              "the cluster 'gpu:8()' cannot be read: expected a number such as 25 or 2.5 after "
              "'gpu:8(', found ')' at character 7");
    EXPECT_NE(parse_error("gpu:8(0B/s)").find("level 'gpu' has a bandwidth of 0"), std::string::npos);
    EXPECT_NE(parse_error("gpu:8(2000s)").find("level 'gpu' has a latency of 2000"), std::string::npos);
    EXPECT_NE(parse_error("gpu:8(1.2.3GB/s)").find("expected a number within range"), std::string::npos);
}

TEST(Cluster, NamesTheNearestLevel) {
    const auto cluster = Cluster::parse("rack:2 node:2 gpu:4");
    EXPECT_EQ(cluster.level("node"), 1);
    EXPECT_EQ(text_of([&] { cluster.level("nod"); }),
              "cluster rack:2 node:2 gpu:4 has no level 'nod'; did you mean 'node'?");
    EXPECT_EQ(text_of([&] { cluster.unit(16, 0); }),
              "device 16 is outside cluster rack:2 node:2 gpu:4, which has devices 0..15");
    EXPECT_EQ(text_of([&] { cluster.unit_count(3); }),
              "level number 3 was asked of cluster rack:2 node:2 gpu:4; it has levels 0..2");
}

TEST(Cluster, SaysInACleanTextWhatIsWrongWithOne) {
    for (const auto valid :
         {"rack:4 node:8(25GB/s,5us) gpu:8(450GB/s)", "node[a01-a31,b[1-2]-x]:8 node[b01]:4"}) {
        auto errors = 0;
        for (unsigned n = 0; n < 4000; ++n) try {
                (void)Cluster::parse(support::hostile(n, valid));
            } catch (const UsageError& error) {
                ++errors;
                ASSERT_TRUE(support::is_clean(error.what())) << n << ": " << error.what();
            }
        EXPECT_GT(errors, 1000);
    }
}

}  // namespace
}  // namespace rankmesh
