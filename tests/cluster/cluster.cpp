// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cluster.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "support/clean.hpp"

namespace rankmesh {
namespace {

std::string error_of(auto&& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "no error";
}

std::string parse_error(const char* text) {
    return error_of([&] { Cluster::parse(text); });
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

TEST(Cluster, SaysWhatIsWrongInANotation) {
    EXPECT_EQ(parse_error(""), "a cluster without levels; name at least one, as in 'node:2 gpu:8'");
    EXPECT_EQ(parse_error("gpu8"),
              "the cluster 'gpu8' cannot be read: expected ':' and a count, as in gpu:8, after 'gpu8', "
              "found the end");
    EXPECT_EQ(parse_error("gpu:"),
              "the cluster 'gpu:' cannot be read: expected a whole number after 'gpu:', found the end");
    EXPECT_EQ(parse_error("gpu:8x"),
              "the cluster 'gpu:8x' cannot be read: expected a blank, or a link such as (25GB/s,5us), after "
              "'gpu:8', found 'x' at character 6");
    EXPECT_EQ(parse_error("gpu:0"), "level 'gpu' has count 0; counts are 1 or more");
    EXPECT_EQ(parse_error("a:2 a:2"), "the level 'a' is listed twice; every level stands once");
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
    EXPECT_EQ(error_of([&] { cluster.level("nod"); }),
              "cluster rack:2 node:2 gpu:4 has no level 'nod'; did you mean 'node'?");
    EXPECT_EQ(error_of([&] { cluster.unit(16, 0); }),
              "device 16 is outside cluster rack:2 node:2 gpu:4, which has devices 0..15");
    EXPECT_EQ(error_of([&] { cluster.unit_count(3); }),
              "level number 3 was asked of cluster rack:2 node:2 gpu:4; it has levels 0..2");
}

TEST(Cluster, SaysInACleanTextWhatIsWrongWithOne) {
    const auto valid = std::string_view("rack:4 node:8(25GB/s,5us) gpu:8(450GB/s)");
    auto errors = 0;
    for (unsigned n = 0; n < 4000; ++n) try {
            (void)Cluster::parse(support::hostile(n, valid));
        } catch (const UsageError& error) {
            ++errors;
            ASSERT_TRUE(support::is_clean(error.what())) << n << ": " << error.what();
        }
    EXPECT_GT(errors, 1000);
}

}  // namespace
}  // namespace rankmesh
