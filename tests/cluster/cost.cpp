// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cost.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/fewer.hpp"
#include "support/text_of.hpp"

namespace rankmesh {
namespace {

struct Message {
    int step;
    int from;  // as group ranks
    int to;
    std::int64_t bytes;
};

/// Every message of one collective in a group of `n` ranks.
std::vector<Message> messages_of(Collective collective, int n, std::int64_t bytes) {
    auto messages = std::vector<Message>{};
    const auto part = (bytes + n - 1) / n;
    if (n == 1) return messages;
    switch (collective) {
        case Collective::shift:
            for (int i = 0; i < n; ++i) messages.push_back({0, i, (i + 1) % n, bytes});
            break;
        case Collective::all_to_all:
            for (int step = 1; step < n; ++step)
                for (int i = 0; i < n; ++i) messages.push_back({step - 1, i, (i + step) % n, part});
            break;
        default:
            for (int step = 0; step < (collective == Collective::all_reduce ? 2 : 1) * (n - 1); ++step)
                for (int i = 0; i < n; ++i) messages.push_back({step, i, (i + 1) % n, part});
    }
    return messages;
}

/// The links of a cluster, by level and unit, with what crosses each of them.
struct Walk {
    struct Link {
        std::int64_t up = 0;
        std::int64_t down = 0;
    };

    explicit Walk(const Cluster& cluster) : cluster(&cluster) {
        for (int l = 0; l < cluster.level_count(); ++l)
            links.emplace_back(static_cast<std::size_t>(cluster.unit_count(l)));
    }

    void send(int from, int to, std::int64_t bytes) {
        for (int l = 0; l < cluster->level_count(); ++l) {
            if (cluster->unit(from, l) == cluster->unit(to, l)) continue;
            const auto at = static_cast<std::size_t>(l);
            links[at][static_cast<std::size_t>(cluster->unit(from, l))].up += bytes;
            links[at][static_cast<std::size_t>(cluster->unit(to, l))].down += bytes;
            const auto& level = cluster->levels()[at];
            start = std::max(start, level.latency.value_or(0.0));
            known = known && level.bandwidth.has_value();
        }
    }

    std::int64_t busiest(int level) const {
        auto most = std::int64_t{0};
        for (const auto& [up, down] : links[static_cast<std::size_t>(level)])
            most = std::max({most, up, down});
        return most;
    }
    std::optional<double> seconds(std::int64_t steps) const {
        if (!known) return std::nullopt;
        auto longest = 0.0;
        for (int l = 0; l < cluster->level_count(); ++l) {
            const auto bandwidth = cluster->levels()[static_cast<std::size_t>(l)].bandwidth;
            if (bandwidth) longest = std::max(longest, static_cast<double>(busiest(l)) / *bandwidth);
        }
        return static_cast<double>(steps) * start + longest;
    }

    const Cluster* cluster;
    std::vector<std::vector<Link>> links;
    double start = 0.0;
    bool known = true;
};

/// Holds what Traffic says of groups against walking all their messages.
void expect_walked(const Cluster& cluster, const Traffic& traffic,
                   const std::vector<std::vector<int>>& groups, std::int64_t bytes,
                   const std::string& where) {
    const auto n = static_cast<int>(groups.front().size());
    ASSERT_EQ(traffic.group_count(), static_cast<int>(groups.size())) << where;
    ASSERT_EQ(traffic.group_size(), n) << where;
    for (int l = 0; l < cluster.level_count(); ++l) {
        auto count = 0;
        auto first = std::optional<int>{};
        for (std::size_t g = 0; g < groups.size(); ++g) {
            const auto straddles = std::ranges::any_of(
                groups[g], [&](int rank) { return cluster.unit(rank, l) != cluster.unit(groups[g][0], l); });
            if (straddles && count++ == 0) first = static_cast<int>(g);
        }
        EXPECT_EQ(traffic.straddling(l), count) << where << " level " << l;
        EXPECT_EQ(traffic.first_straddling(l), first) << where << " level " << l;
    }
    for (auto collective : collectives) {
        const auto messages = messages_of(collective, n, bytes);
        auto steps = std::int64_t{0};
        auto sent = std::int64_t{0};
        for (const auto& message : messages) {
            steps = std::max(steps, std::int64_t{message.step} + 1);
            if (message.from == 0) sent += message.bytes;
        }
        auto all = Walk(cluster);
        auto most = std::vector<std::int64_t>(static_cast<std::size_t>(cluster.level_count()));
        auto slowest = std::optional(0.0);
        for (const auto& group : groups) {
            auto one = Walk(cluster);
            for (const auto& message : messages)
                for (auto* walk : {&one, &all})
                    walk->send(group[static_cast<std::size_t>(message.from)],
                               group[static_cast<std::size_t>(message.to)], message.bytes);
            for (int l = 0; l < cluster.level_count(); ++l)
                most[static_cast<std::size_t>(l)] =
                    std::max(most[static_cast<std::size_t>(l)], one.busiest(l));
            const auto time = one.seconds(steps);
            slowest = slowest && time ? std::optional(std::max(*slowest, *time)) : std::nullopt;
        }
        const auto text = detail::cat(where, " ", to_string(collective), " of ", bytes);
        const auto alone = traffic.cost(collective, bytes, Busy::one_group);
        const auto together = traffic.cost(collective, bytes);
        for (const auto* cost : {&alone, &together}) {
            EXPECT_EQ(cost->steps, steps) << text;
            EXPECT_EQ(cost->sent, sent) << text;
        }
        for (int l = 0; l < cluster.level_count(); ++l) {
            EXPECT_EQ(alone.links[static_cast<std::size_t>(l)], most[static_cast<std::size_t>(l)]) << text;
            EXPECT_EQ(together.links[static_cast<std::size_t>(l)], all.busiest(l)) << text;
        }
        ASSERT_EQ(alone.seconds.has_value(), slowest.has_value()) << text;
        ASSERT_EQ(together.seconds.has_value(), all.known) << text;
        if (slowest) {
            EXPECT_DOUBLE_EQ(*alone.seconds, *slowest) << text;
            EXPECT_DOUBLE_EQ(*together.seconds, *all.seconds(steps)) << text;
            EXPECT_GE(*together.seconds, *alone.seconds) << text;
        }
        ASSERT_EQ(together.slowest.has_value(), n > 1 && all.known) << text;
        if (together.slowest) {
            EXPECT_DOUBLE_EQ(
                *together.seconds,
                static_cast<double>(steps) * all.start +
                    static_cast<double>(together.links[static_cast<std::size_t>(*together.slowest)]) /
                        *cluster.levels()[static_cast<std::size_t>(*together.slowest)].bandwidth)
                << text;
        }
    }
}

std::vector<AxisSet> sets_of(const Mesh& mesh) {
    auto sets = std::vector<AxisSet>{};
    for (unsigned bits = 1; bits < 1U << mesh.axis_count(); ++bits) {
        auto& set = sets.emplace_back();
        for (int a = 0; a < mesh.axis_count(); ++a)
            if ((bits >> a & 1U) != 0) set.insert(AxisId{a});
    }
    return sets;
}

std::vector<std::vector<int>> groups_of(const Mesh& mesh, AxisSet set, const std::vector<int>& device_of) {
    auto groups = std::vector<std::vector<int>>{};
    for (const auto& group : mesh.partition(set)) {
        auto& ranks = groups.emplace_back();
        for (auto rank : group)
            ranks.push_back(device_of.empty() ? rank : device_of[static_cast<std::size_t>(rank)]);
    }
    return groups;
}

constexpr const char* clusters[] = {
    "gpu:48(3GB/s,2us)",
    "node:6(25GB/s,5us) gpu:8(450GB/s,2us)",
    "rack:2(10GB/s,1us) node:3(50GB/s,5us) gpu:8(450GB/s)",
    "a:3(1B/s) b:2(7GB/s) c:2(2GB/s,9us) d:4(900GB/s,3us)",
    "rack:2(25GB/s,5us) node:3(400GB/s) gpu:8",
    "rack:2 node:3(25GB/s,5us) gpu:8(450GB/s)",
    "node:12 gpu:4",
    "node[a]:9(25GB/s,5us) node[b,c]:16 node[d]:7 gpu(450GB/s,1us)",
    "rack[r]:1(9GB/s) rack[s]:3 node[a,b]:8(25GB/s,5us) node[c]:30 node[d]:2 gpu(450GB/s)"};

TEST(Traffic, IsWhatWalkingEveryMessageFinds) {
    for (const auto* text : clusters) {
        const auto cluster = Cluster::parse(text);
        for (const auto* words : support::fewer_if_sanitized(std::vector<const char*>{
                 "dp=6 tp=8", "tp=8 dp=6", "pp=4 dp=4 tp=3", "pp=2 dp=3 cp=2 tp=4", "a=48", "a=5 b=7",
                 "a=1 b=16", "a=2:24 b=8:3 @1", "a=(2,3):(24,8) b=8:1", "a=(2,2):(1,8) b=2:2 c=2:4 @16",
                 "tp=2:24 dp=24:1", "a=3:16 b=2:2 c=4:4", "a=2 b=4 @8", "a=2:1 b=3:2 c=8:6"})) {
            const auto mesh = Mesh::parse(words);
            for (const auto set : sets_of(mesh))
                for (auto bytes : {0, 1000})
                    expect_walked(cluster, Traffic(cluster, mesh, set), groups_of(mesh, set, {}), bytes,
                                  detail::cat(words, " on ", text, " axes ", set.bits()));
        }
    }
}

RC_GTEST_PROP(Traffic, OfAnyPlacementIsWhatWalkingEveryMessageFinds, ()) {
    const auto cluster = Cluster::parse(clusters[*rc::gen::inRange<std::size_t>(0, std::size(clusters))]);
    const auto mesh = Mesh::parse(*rc::gen::element<std::string>("a=3 b=4", "a=2 b=3 c=4", "a=8 b=6", "a=7"));
    auto ranks = std::vector<int>(static_cast<std::size_t>(cluster.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (auto i = ranks.size(); i > 1; --i)
        std::swap(ranks[i - 1], ranks[*rc::gen::inRange<std::size_t>(0, i)]);
    ranks.resize(static_cast<std::size_t>(mesh.size()));
    const auto placement = Placement(mesh, ranks);
    for (const auto set : sets_of(mesh))
        expect_walked(cluster, Traffic(cluster, placement, set), groups_of(mesh, set, ranks), 12345,
                      to_string(placement) + " on " + to_string(cluster));
}

TEST(Traffic, OfThePlainOrderIsThatOfThePlacementThatListsIt) {
    for (const auto* text : clusters) {
        const auto cluster = Cluster::parse(text);
        for (const auto* words : {"dp=6 tp=8", "tp=8 dp=6", "pp=4 dp=4 tp=3", "pp=2 dp=3 cp=2 tp=4"}) {
            const auto mesh = Mesh::parse(words);
            auto ranks = std::vector<int>(static_cast<std::size_t>(mesh.size()));
            std::iota(ranks.begin(), ranks.end(), 0);
            for (const auto set : sets_of(mesh))
                for (auto collective : collectives)
                    for (auto busy : {Busy::one_group, Busy::all_groups}) {
                        const auto by_strides = Traffic(cluster, mesh, set).cost(collective, 999, busy);
                        const auto by_table =
                            Traffic(cluster, Placement(mesh, ranks), set).cost(collective, 999, busy);
                        EXPECT_EQ(by_strides.links, by_table.links) << words << " on " << text;
                        EXPECT_EQ(by_strides.seconds, by_table.seconds) << words << " on " << text;
                        EXPECT_EQ(by_strides.slowest, by_table.slowest) << words << " on " << text;
                    }
        }
    }
}

TEST(Traffic, OnOneLevelIsTheTextbooks) {
    const auto bandwidth = 3e9;
    const auto latency = 2e-6;
    const auto cluster = Cluster::parse("gpu:24(3GB/s,2us)");
    for (auto n : {2, 3, 4, 8, 24}) {
        const auto mesh = Mesh{{"x", n}};
        const auto traffic = Traffic(cluster, mesh, mesh.axes("x"));
        const auto bytes = 24 * 1000;
        const auto part = static_cast<double>(bytes) / n / bandwidth;
        const auto of = [&](Collective collective) {
            return traffic.cost(collective, bytes).seconds.value();
        };
        EXPECT_DOUBLE_EQ(of(Collective::all_reduce), 2 * (n - 1) * (latency + part));
        EXPECT_DOUBLE_EQ(of(Collective::all_gather), (n - 1) * (latency + part));
        EXPECT_DOUBLE_EQ(of(Collective::reduce_scatter), (n - 1) * (latency + part));
        EXPECT_DOUBLE_EQ(of(Collective::all_to_all), (n - 1) * (latency + part));
        EXPECT_DOUBLE_EQ(of(Collective::shift), latency + bytes / bandwidth);
    }
}

TEST(Traffic, NeverTakesLessForMoreBytes) {
    const auto cluster = Cluster::parse(clusters[2]);
    for (const auto* words : {"pp=4 dp=4 tp=3", "tp=8 dp=6", "a=2:24 b=8:3 @1"}) {
        const auto mesh = Mesh::parse(words);
        for (const auto set : sets_of(mesh))
            for (auto collective : collectives) {
                auto least = CollectiveCost{.links = std::vector<std::int64_t>(3), .seconds = 0.0};
                for (std::int64_t bytes = 0; bytes < std::int64_t{1} << 40; bytes = bytes * 3 / 2 + 1) {
                    const auto cost = Traffic(cluster, mesh, set).cost(collective, bytes);
                    EXPECT_GE(*cost.seconds, *least.seconds);
                    for (std::size_t l = 0; l < 3; ++l) EXPECT_GE(cost.links[l], least.links[l]);
                    least = cost;
                }
            }
    }
}

TEST(Traffic, AGroupInsideOneUnitLeavesItsLinkAlone) {
    const auto cluster = Cluster::parse("rack:4(1GB/s) node:8(2GB/s) gpu:8(3GB/s)");
    const auto mesh = Mesh::parse("pp=4 dp=8 tp=8");
    using Links = std::vector<std::int64_t>;
    EXPECT_EQ(Traffic(cluster, mesh, mesh.axes("tp")).cost(Collective::shift, 10).links, (Links{0, 0, 10}));
    EXPECT_EQ(Traffic(cluster, mesh, mesh.axes("dp")).cost(Collective::shift, 10).links, (Links{0, 80, 10}));
    EXPECT_EQ(Traffic(cluster, mesh, mesh.axes("pp")).cost(Collective::shift, 10).links,
              (Links{640, 80, 10}));
    EXPECT_EQ(Traffic(cluster, mesh, mesh.axes("pp")).cost(Collective::shift, 10, Busy::one_group).links,
              (Links{10, 10, 10}));
    EXPECT_EQ(Traffic(cluster, mesh, mesh.axes("tp")).straddling(1), 0);
    EXPECT_EQ(Traffic(cluster, mesh, mesh.axes("dp")).straddling(1), 32);
}

TEST(Traffic, OfAThousandMillionRanksIsCountedByStrides) {
    const auto cluster = Cluster::parse("row:64(1TB/s) rack:64(400GB/s) node:32768(50GB/s) gpu:8(450GB/s)");
    const auto mesh = Mesh::parse("pp=1024 dp=32768 cp=4 tp=8");
    const auto cost = Traffic(cluster, mesh, mesh.axes("dp")).cost(Collective::all_reduce, 1 << 20);
    EXPECT_EQ(cost.sent, 2 * 32767 * 32);
    EXPECT_EQ(cost.links, (std::vector<std::int64_t>{0, 32 * cost.sent, 8 * cost.sent, cost.sent}));
}

TEST(Traffic, SaysWhatCannotBeAsked) {
    const auto cluster = Cluster::parse("node:2 gpu:4");
    const auto mesh = Mesh{{"dp", 4}, {"tp", 4}};
    EXPECT_EQ(text_of([&] { Traffic(cluster, mesh, mesh.axes("tp")); }),
              "mesh dp=4 tp=4 reaches rank 15, but cluster node:2 gpu:4 has devices 0..7; rank r runs on "
              "device r");
    const auto small = Mesh{{"dp", 2}, {"tp", 2}};
    EXPECT_EQ(text_of([&] {
                  Traffic(cluster, Placement(small, {0, 1, 2, 8}), small.axes("tp"));
              }),
              "mesh dp=2 tp=2 reaches rank 8, but cluster node:2 gpu:4 has devices 0..7; rank r runs on "
              "device r");
    const auto traffic = Traffic(cluster, small, small.axes("dp", "tp"));
    EXPECT_EQ(text_of([&] { traffic.cost(Collective::shift, -1); }),
              "the cost of shift of -1 bytes was asked for; bytes are 0 or more");
    const auto most = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(text_of([&] { traffic.cost(Collective::all_reduce, most); }),
              "6 times 2305843009213693952 bytes would cross one link; at most 9223372036854775807 can be "
              "counted");
}

}  // namespace
}  // namespace rankmesh
