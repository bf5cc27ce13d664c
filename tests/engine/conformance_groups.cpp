// SPDX-License-Identifier: Apache-2.0
// Groups of any ranks that are made at run time, from lists and from colors.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"
#include "operations.hpp"

using namespace rankmesh;
using operations::check_all;

namespace {

/// One to `most` different ranks of `from`, in a random order.
std::vector<int> some_of(std::vector<int> from, std::mt19937& random) {
    std::ranges::shuffle(from, random);
    from.resize(1 + random() % from.size());
    return from;
}

bool contains(const std::vector<int>& ranks, int rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
}

std::vector<int> all_of(int n) {
    auto ranks = std::vector<int>(static_cast<std::size_t>(n));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

/// Adds up the numbers of its ranks over a group.
void expect_sum(Communicator& on, int rank) {
    const auto ranks = on.world_ranks();
    auto sum = rank;
    on.all_reduce(sum);
    EXPECT_EQ(sum, std::accumulate(ranks.begin(), ranks.end(), 0)) << ranks_to_string(ranks);
}

/// A color, perhaps none, and a key for each rank.
struct Colors {
    std::vector<std::optional<int>> color;
    std::vector<int> key;

    static Colors random(int size, std::mt19937& numbers) {
        auto made = Colors{};
        const auto colors = 1 + numbers() % static_cast<unsigned>(size);
        for (int i = 0; i < size; ++i) {
            const auto color = static_cast<int>(numbers() % (colors + 1)) - 1;
            made.color.push_back(color < 0 ? std::nullopt : std::optional(color * 1000 - 1000));
            made.key.push_back(static_cast<int>(numbers() % 5) - 2);
        }
        return made;
    }
    /// By brute force: the indices of the color of `index`, by key and then index; empty without a color.
    std::vector<int> group(int index) const {
        const auto at = [](int i) { return static_cast<std::size_t>(i); };
        auto found = std::set<std::pair<int, int>>{};
        for (int i = 0; i < static_cast<int>(color.size()); ++i)
            if (color[at(index)] && color[at(i)] == color[at(index)]) found.emplace(key[at(i)], i);
        auto indices = std::vector<int>{};
        for (const auto& [key, i] : found) indices.push_back(i);
        return indices;
    }
};

}  // namespace

TEST(Conformance, RandomListsOfRanksMakeGroupsOfTheirMembersAlone) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        auto numbers = std::mt19937(static_cast<unsigned>(world.size()));
        auto kept = std::vector<Communicator>{};
        for (int turn = 0; turn < 12; ++turn) {
            const auto ranks = some_of(all_of(world.size()), numbers);
            if (!contains(ranks, world.rank())) continue;
            auto on = me.group(ranks);
            EXPECT_EQ(on.world_ranks(), ranks);
            EXPECT_EQ(on.rank(), std::ranges::find(ranks, world.rank()) - ranks.begin());
            expect_sum(on, world.rank());
            if (turn % 4 == 0) check_all<float>(on, world.rank(), 3);
            kept.push_back(std::move(on));
        }
        for (auto& on : kept) expect_sum(on, world.rank());
        me.on("dp").barrier();
    });
}

TEST(Conformance, DisjointGroupsAreMadeAtOnceWithoutDisturbingEachOther) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        auto all = me.on("dp");
        for (int parts = 1; parts <= std::min(world.size(), 3); ++parts) {
            auto mine = std::vector<int>{};
            for (int r = world.rank() % parts; r < world.size(); r += parts) mine.push_back(r);
            auto total = 1;
            auto pending = all.start().all_reduce(total);
            auto on = me.group(mine);
            expect_sum(on, world.rank());
            pending.wait();
            EXPECT_EQ(total, world.size());
            auto other = mine;
            std::ranges::reverse(other);
            auto turned = me.group(other, {.name = "turned"});
            expect_sum(turned, world.rank());
        }
    });
}

TEST(Conformance, GroupsOfEqualRanksInEqualOrderShareAChannel) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        auto me = world.join({{"dp", n}, {"tp", 1}});
        EXPECT_EQ(me.channel_count(), n > 1 ? 1 : 0);
        auto declared = me.on("dp");
        auto listed = me.group(all_of(n));
        auto named = me.group(all_of(n), {.name = "everyone", .timeout = std::chrono::minutes(1)});
        auto split = me.split(0);
        auto split_over = me.split(declared, 7);
        EXPECT_EQ(me.channel_count(), n > 1 ? 1 : 0);
        for (auto* on : {&declared, &listed, &named, &*split, &*split_over}) expect_sum(*on, world.rank());
        if (n == 1) return;
        auto turned = all_of(n);
        std::ranges::reverse(turned);
        EXPECT_EQ(me.group(turned).world_ranks(), turned);
        EXPECT_EQ(me.channel_count(), 2);
        EXPECT_EQ(me.split(1, -world.rank())->world_ranks(), turned);
        EXPECT_EQ(me.channel_count(), 2);
        me.group(turned, {.tuned = {.max_ctas = 4}}).barrier();
        EXPECT_EQ(me.channel_count(), 3);
        // Another member has channels of its own, under names of their own.
        auto again = world.join({{"dp", rest}});
        auto other = again.group(turned);
        EXPECT_EQ(again.channel_count(), 2);
        expect_sum(other, world.rank());
        EXPECT_EQ(listed.label(), detail::cat("'", ranks_to_string(all_of(n)), "' of mesh dp=", n, " tp=1"));
        EXPECT_EQ(named.label(), detail::cat("'everyone' of mesh dp=", n, " tp=1"));
        EXPECT_EQ(split->label(), detail::cat("'color 0 of the world' of mesh dp=", n, " tp=1"));
        EXPECT_EQ(split_over->label(), detail::cat("'color 7 of dp' of mesh dp=", n, " tp=1"));
    });
}

TEST(Conformance, RandomColorsSplitTheWorldAndItsGroupsAsBruteForceDoes) {
    on_every_rank([](World& world) {
        auto numbers = std::mt19937(static_cast<unsigned>(world.size()));
        for (const auto& mesh : meshes_of(world.size())) {
            auto me = world.join(mesh);
            for (int turn = 0; turn < 2; ++turn) {
                const auto colors = Colors::random(world.size(), numbers);
                const auto at = static_cast<std::size_t>(world.rank());
                auto on = me.split(colors.color[at], colors.key[at]);
                EXPECT_EQ(on.has_value(), colors.color[at].has_value());
                if (on) {
                    EXPECT_EQ(on->world_ranks(), colors.group(world.rank()));
                    expect_sum(*on, world.rank());
                }
            }
            for (int a = 0; a < mesh.axis_count(); ++a) {
                auto over = me.on(AxisId{a});
                // The same on all ranks of one group, and another in each group.
                auto own = std::mt19937(static_cast<unsigned>(over.world_rank(0) + 31 * a));
                const auto colors = Colors::random(over.size(), own);
                const auto at = static_cast<std::size_t>(over.rank());
                auto on = me.split(over, colors.color[at], colors.key[at]);
                EXPECT_EQ(on.has_value(), colors.color[at].has_value());
                if (!on) continue;
                auto ranks = colors.group(over.rank());
                for (auto& each : ranks) each = over.world_rank(each);
                EXPECT_EQ(on->world_ranks(), ranks);
                expect_sum(*on, world.rank());
            }
        }
    });
}

TEST(Conformance, GroupListsThatDifferRaiseDisagreementAndTheNextGroupIsMade) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        if (n < 2) return;
        auto me = world.join({{"dp", rest}});
        auto own = all_of(n);
        if (world.rank() == n - 1) std::swap(own[0], own[1]);
        const auto all = ranks_to_string(all_of(n));
        auto swapped = all_of(n);
        std::swap(swapped[0], swapped[1]);
        const auto text = text_of<Disagreement>([&] { me.group(own); });
        const auto head = std::string(
            "the ranks ask for different groups; all ranks of a group must list the same ranks in the same "
            "order:");
        const auto one = detail::cat(
            "\n  ", n == 2 ? "rank 0" : detail::cat("ranks ", ranks_to_string(all_of(n - 1))), ": ", all);
        const auto other = detail::cat("\n  rank ", n - 1, ": ", ranks_to_string(swapped));
        EXPECT_TRUE(text == head + one + other || (n == 2 && text == head + other + one)) << text;
        auto everyone = me.split(0);
        expect_sum(*everyone, world.rank());
        auto on = me.group(all_of(n), {.name = "next"});
        expect_sum(on, world.rank());
        // One leaves another out, which waits for it.
        if (n < 3) return;
        own = all_of(3);
        if (world.rank() == 2) own = {1, 2};
        if (world.rank() < 3) {
            const auto differ = text_of<Disagreement>([&] { me.group(own); });
            EXPECT_EQ(differ, head + "\n  ranks {0, 1}: {0..2}\n  rank 2: {1, 2}");
        }
        auto again = me.group(all_of(n), {.name = "again"});
        expect_sum(again, world.rank());
        // Names and settings are compared as well.
        const auto name = world.rank() == 0 ? "router" : "rooter";
        EXPECT_NE(text_of<Disagreement>([&] {
                      me.group(all_of(n), {.name = name});
                  }).find(detail::cat("\n  rank 0: ", all, " as router")),
                  std::string::npos);
    });
}

TEST(Conformance, AGroupThatCannotBeIsRefusedBeforeAnythingIsSent) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        const auto r = world.rank();
        auto me = world.join({{"dp", rest}});
        EXPECT_EQ(text_of([&] { me.group({}); }),
                  "a group of no ranks was asked for; list at least this one");
        EXPECT_EQ(text_of([&] {
                      me.group({r, n});
                  }),
                  detail::cat("a group of the ranks {", r, ", ", n,
                              "} was asked for; the world has ranks 0..", n - 1));
        EXPECT_EQ(
            text_of([&] {
                me.group({r, r});
            }),
            detail::cat("a group of the ranks {", r, ", ", r, "} was asked for, which lists ", r, " twice"));
        if (n > 1) {
            EXPECT_EQ(text_of([&] { me.group({(r + 1) % n}); }),
                      detail::cat("a group of the ranks {", (r + 1) % n, "} was asked for by rank ", r,
                                  ", which is not one of them; only they call group"));
        }
        EXPECT_EQ(text_of([&] { me.group({r}, {.timeout = std::chrono::seconds(0)}); }),
                  "a timeout of 0 s; it must be positive");
        EXPECT_EQ(text_of([&] { me.group({r}, {.name = "a b"}); }),
                  "the name 'a b' holds the character ' '; names are letters, digits, '_', '-' or '.'");
        EXPECT_EQ(text_of([&] { me.group({r}, {.tuned = {.max_ctas = 65}}); }),
                  "a group is tuned to max_ctas=65; an operation takes 1 to 64 CTAs");
        auto part = world.sub(all_of(n)).join({{"dp", rest}});
        EXPECT_EQ(text_of([&] { me.split(part.on("dp"), 0); }),
                  detail::cat("a split over 'dp' of mesh dp=", n, ", group ", ranks_to_string(all_of(n)),
                              ", was asked for, which is of another world than this member"));
        auto alone = me.group({r});
        check_all<float>(alone, r, 3);
        EXPECT_EQ(me.channel_count(), n > 1 ? 1 : 0);
        me.on("dp").barrier();
    });
}
