// SPDX-License-Identifier: Apache-2.0
// How a world and those that enter it agree, over entries in memory: deaths and delays at every point.
#include "engine/membership/grow_agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "support/dying_store.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using detail::choose;
using detail::GrowAgreement;
using detail::NextWorld;
using support::Died;
using support::DyingStore;
using support::Entries;

namespace {

/// A rank that is there, or a process that waits to enter.
struct One {
    std::chrono::milliseconds comes = 0ms;
    int last = -1;                // the use of the store at which it dies, -1: never
    std::vector<int> ended = {};  // whose end it notices after 20 ms
    int most = 1;
    std::chrono::milliseconds timeout = 20s;
    std::optional<int> wish = {};
    std::chrono::milliseconds stalls = 0ms;  // once, after 20 ms and when it has come
};

/// What became of it.
struct Fate {
    std::optional<NextWorld> world = {};
    std::string error = {};  // its kind and text
    bool died = false;
    std::chrono::milliseconds took{};
};

struct Fates {
    std::vector<Fate> ranks;
    std::vector<Fate> others;
};

Fates grow(Entries& entries, std::vector<std::unique_ptr<GrowAgreement>>& worlds,
           const std::vector<One>& ranks, const std::vector<One>& others, const std::vector<int>& places,
           std::chrono::milliseconds slow = 0ms) {
    auto fates = Fates{std::vector<Fate>(ranks.size()), std::vector<Fate>(others.size())};
    auto threads = std::vector<std::thread>{};
    worlds.resize(ranks.size());
    const auto run = [](const One& one, Fate& fate, auto&& body) {
        std::this_thread::sleep_for(one.comes);  // the laws hold for any times
        const auto begin = std::chrono::steady_clock::now();
        try {
            fate.world = body();
        } catch (const Died&) {
            fate.died = true;
        } catch (const Timeout& error) {
            fate.error = detail::cat("Timeout ", ranks_to_string(error.arrived), " ",
                                     ranks_to_string(error.missing), " ", error.what());
        } catch (const PeerLost& error) {
            fate.error = detail::cat("PeerLost ", ranks_to_string(error.ranks), " ", error.what());
        } catch (const Disagreement& error) {
            fate.error = detail::cat("Disagreement ", ranks_to_string(error.ranks), " ", error.what());
        } catch (const UsageError& error) {
            fate.error = detail::cat("UsageError ", error.what());
        }
        fate.took =
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    };
    for (std::size_t r = 0; r < ranks.size(); ++r)
        threads.emplace_back([&, r] {
            run(ranks[r], fates.ranks[r], [&] {
                if (!worlds[r])
                    worlds[r] = std::make_unique<GrowAgreement>(
                        std::make_shared<DyingStore>(entries, ranks[r].last, slow, static_cast<unsigned>(r)),
                        "", static_cast<int>(r), static_cast<int>(ranks.size()), places);
                const auto noticed = std::chrono::steady_clock::now() + 20ms;
                return worlds[r]->grow({.most = ranks[r].most,
                                        .timeout = ranks[r].timeout,
                                        .about = detail::cat("rank ", r),
                                        .common = "common"},
                                       [&, noticed, left = ranks[r].stalls]() mutable {
                                           if (std::chrono::steady_clock::now() < noticed)
                                               return std::vector<int>{};
                                           std::this_thread::sleep_for(std::exchange(left, 0ms));
                                           return ranks[r].ended;
                                       });
            });
        });
    for (std::size_t c = 0; c < others.size(); ++c)
        threads.emplace_back([&, c] {
            auto store = DyingStore(entries, others[c].last, slow, 100 + static_cast<unsigned>(c));
            run(others[c], fates.others[c], [&] {
                return detail::enter(store, others[c].wish, detail::cat("other ", c), others[c].timeout);
            });
        });
    for (auto& thread : threads) thread.join();
    return fates;
}

Fates grow(Entries& entries, const std::vector<One>& ranks, const std::vector<One>& others,
           std::vector<int> places = {}, std::chrono::milliseconds slow = 0ms) {
    auto worlds = std::vector<std::unique_ptr<GrowAgreement>>{};
    if (places.empty()) places = detail::first_ranks(static_cast<int>(ranks.size()));
    return grow(entries, worlds, ranks, others, places, slow);
}

std::vector<std::string> left_in(const Entries& entries) {
    auto names = std::vector<std::string>{};
    for (const auto& [name, text] : entries.texts) names.push_back(name);
    return names;
}

void expect_all_say(const std::vector<Fate>& fates, const std::string& text) {
    for (const auto& fate : fates) EXPECT_EQ(fate.error, text);
}

const auto stays = std::string("; the world of 3 ranks is as it was");
const auto outcome_alone = std::vector<std::string>{"grow.0.outcome"};

}  // namespace

TEST(GrowAgreement, Choose_GivesWishedPlacesFirst) {
    using Chosen = std::vector<std::pair<std::size_t, int>>;
    const auto lost_one = std::vector{0, 1, 3};
    EXPECT_EQ(choose(lost_one, std::vector{-1}, 1), (Chosen{{0, 2}}));
    EXPECT_EQ(choose(lost_one, std::vector{-1, -1}, 2), (Chosen{{0, 2}, {1, 4}}));
    EXPECT_EQ(choose(lost_one, std::vector{-1, 2}, 2), (Chosen{{1, 2}, {0, 4}}));
    EXPECT_EQ(choose(lost_one, std::vector{-1, 2}, 1), (Chosen{{1, 2}}));
    EXPECT_EQ(choose(lost_one, std::vector{2, 2, 3}, 3), (Chosen{{0, 2}}));
    EXPECT_EQ(choose(lost_one, std::vector{9, -1}, 3), (Chosen{{0, 9}, {1, 2}}));
    EXPECT_EQ(choose(lost_one, std::vector<int>{}, 3), Chosen{});
}

TEST(GrowAgreement, Candidate_TakesAFreePlace) {
    auto entries = Entries{};
    const auto fates = grow(entries, {{}, {}, {}}, {{}}, {0, 1, 3});
    for (const auto* each : {&fates.ranks[0], &fates.ranks[1], &fates.ranks[2], &fates.others[0]}) {
        ASSERT_TRUE(each->world) << each->error;
        EXPECT_EQ(each->world->places, (std::vector{0, 1, 2, 3}));
        EXPECT_EQ(each->world->abouts, (std::vector<std::string>{"rank 0", "rank 1", "other 0", "rank 2"}));
        EXPECT_EQ(each->world->common, "common");
        EXPECT_EQ(each->world->scope, fates.ranks[0].world->scope);
        EXPECT_EQ(each->world->scope.substr(0, 6), "grown.");
    }
    EXPECT_EQ(fates.ranks[1].world->rank, 1);
    EXPECT_EQ(fates.others[0].world->rank, 2);
    EXPECT_EQ(fates.ranks[2].world->rank, 3);
    EXPECT_EQ(left_in(entries), outcome_alone);
}

TEST(GrowAgreement, World_WhenNobodyComes_GrowsTheNextTime) {
    auto entries = Entries{};
    auto worlds = std::vector<std::unique_ptr<GrowAgreement>>{};
    auto ranks = std::vector<One>(3, One{.most = 2, .timeout = 1s});
    const auto none = grow(entries, worlds, ranks, {}, {0, 1, 2});
    expect_all_say(none.ranks,
                   "Timeout {0..2} {} the timeout of 1 s expired in grow: no process has come to enter the "
                   "job 'job' in memory" +
                       stays);
    const auto one = grow(entries, worlds, ranks, {{}}, {0, 1, 2});
    for (const auto& each : one.ranks) {
        ASSERT_TRUE(each.world) << each.error;
        EXPECT_EQ(each.world->places.size(), 4U) << "those that have come when the timeout expires";
    }
}

TEST(GrowAgreement, Candidates_MoreThanAsked_EnterTheNextWorld) {
    auto entries = Entries{};
    const auto fates =
        grow(entries, std::vector<One>(2, One{.most = 2}), std::vector<One>(5, One{.timeout = 2s}));
    auto in = 0;
    for (const auto& each : fates.others) {
        if (each.world)
            ++in;
        else
            EXPECT_EQ(
                each.error,
                "Timeout {} {} the timeout of 2 s expired in rejoin: the ranks of the job 'job' in memory "
                "have let no process in; they do when all of them call grow()");
    }
    EXPECT_EQ(in, 2);
    EXPECT_EQ(left_in(entries), outcome_alone);
}

TEST(GrowAgreement, Candidates_ForOnePlace_OneEnters) {
    auto entries = Entries{};
    const auto fates = grow(entries, std::vector<One>(2, One{.most = 2, .timeout = 1s}),
                            std::vector<One>(2, One{.timeout = 2s, .wish = 1}), {0, 2});
    EXPECT_NE(fates.others[0].world.has_value(), fates.others[1].world.has_value());
    for (const auto& each : fates.ranks) {
        ASSERT_TRUE(each.world) << each.error;
        EXPECT_EQ(each.world->places, (std::vector{0, 1, 2}));
    }
    const auto& out = fates.others[fates.others[0].world ? 1 : 0];
    EXPECT_EQ(
        out.error,
        "Timeout {} {} the timeout of 2 s expired in rejoin: the ranks of the job 'job' in memory have let "
        "no process in that asks for place 1; they do when all of them call grow()");
    auto full = Entries{};
    const auto taken = grow(full, std::vector<One>(3, One{.timeout = 1s}), {{.timeout = 3s, .wish = 1}});
    expect_all_say(taken.ranks,
                   "Timeout {0..2} {} the timeout of 1 s expired in grow: no process has come to enter the "
                   "job 'job' in memory, and 1 process to take a place that a rank has" +
                       stays);
}

TEST(GrowAgreement, Candidate_WhenItDiesWaiting_IsLeftOut) {
    for (auto last = 2; last < 6; ++last) {
        auto entries = Entries{};
        const auto fates = grow(entries, std::vector<One>(3, One{.timeout = 400ms}),
                                {{.last = last}, {.comes = 100ms, .timeout = 3s}});
        for (const auto& each : fates.ranks) {
            if (each.world) continue;  // it may have died after it had entered
            EXPECT_EQ(
                each.error,
                "Timeout {0..2} {} the timeout of 400 ms expired in grow: those that came to enter the job "
                "'job' in memory did not go on: stopped, cut off or gone" +
                    stays);
        }
        EXPECT_TRUE(fates.ranks[0].world) << fates.ranks[0].error;
        EXPECT_LT(fates.ranks[0].took, 2s);
    }
}

TEST(GrowAgreement, Candidate_WhenItGivesUpAfterConfirming_IsLeftOut) {
    auto entries = Entries{};
    const auto fates = grow(entries, {{}, {.stalls = 4600ms}},
                            {{.comes = 50ms, .timeout = 300ms}, {.comes = 100ms, .timeout = 20s}});
    EXPECT_TRUE(fates.others[0].error.starts_with("Timeout ")) << fates.others[0].error;
    for (const auto& fate : {fates.ranks[0], fates.ranks[1], fates.others[1]}) {
        ASSERT_TRUE(fate.world) << fate.error;
        EXPECT_EQ(fate.world->abouts, (std::vector<std::string>{"rank 0", "rank 1", "other 1"}));
    }
}

TEST(GrowAgreement, Rank_WhenLostOrAbsent_IsNamedOnAll) {
    auto entries = Entries{};
    auto ranks = std::vector<One>(3, One{.timeout = 20s});
    ranks[1].ended = {2};
    ranks[2].comes = 1s;
    const auto lost = grow(entries, ranks, {{.timeout = 500ms}});
    expect_all_say(lost.ranks,
                   "PeerLost {2} rank 2 has ended; grow cannot be completed, and the world of 3 ranks "
                   "is as it was");
    EXPECT_FALSE(lost.others[0].world);
    for (auto absent : {0, 2}) {
        auto more = Entries{};
        auto some = std::vector<One>(3, One{.timeout = 300ms});
        some[static_cast<std::size_t>(absent)].last = 0;
        const auto fates = grow(more, some, {{.timeout = 500ms}});
        const auto expected =
            absent == 0 ? std::string("Timeout {1, 2} {0} ") : std::string("Timeout {0, 1} {2} ");
        for (auto r : {absent == 0 ? 2U : 0U, 1U})
            EXPECT_EQ(fates.ranks[r].error.substr(0, expected.size()), expected) << fates.ranks[r].error;
        EXPECT_EQ(fates.ranks[1].error, fates.ranks[absent == 0 ? 2U : 0U].error);
    }
}

TEST(GrowAgreement, Calls_WhenTheyDifferOrAreInvalid_AreRefused) {
    auto entries = Entries{};
    auto ranks = std::vector<One>(3, One{});
    ranks[1].most = 2;
    expect_all_say(
        grow(entries, ranks, {}).ranks,
        "Disagreement {1} the ranks of a world that grows ask for different numbers of processes: 1 on "
        "{0, 2}, 2 on {1}");
    for (auto most : {0, -3, 257}) {
        auto more = Entries{};
        expect_all_say(grow(more, std::vector<One>(2, One{.most = most}), {}).ranks,
                       detail::cat("UsageError a world is to grow by ", most,
                                   " processes; 1 to 256 can enter it at once"));
    }
    auto never = Entries{};
    auto some = std::vector<One>(2, One{});
    some[1].timeout = 0ms;
    expect_all_say(grow(never, some, {}).ranks,
                   "UsageError a world is to grow within a timeout that is not positive, on {1}; give it one "
                   "that is");
}

TEST(GrowAgreement, World_OfSomeRanksOrWithoutAStore_DoesNotGrow) {
    auto entries = Entries{};
    auto part = GrowAgreement(std::make_shared<DyingStore>(entries, -1, 0ms, 0U), "", 1, 2, {});
    const auto text_of = [](GrowAgreement& world) {
        try {
            world.grow({}, [] { return std::vector<int>{}; });
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string{};
    };
    EXPECT_EQ(
        text_of(part),
        "rank 1 asks for more ranks of a world that sub() made; the world that the job started with grows, "
        "and those that survivors() and grow() made of it");
    auto alone = GrowAgreement(nullptr, "", 0, 1, {0});
    EXPECT_EQ(text_of(alone),
              "rank 0 asks for more ranks of a world of one process, which has no store; worlds grow on the "
              "engine 'gloo', with RANKMESH_STORE and processes that are started one by one");
}

TEST(GrowAgreement, Ranks_WhateverHappens_EndAlike) {
    const auto check = [](unsigned seed) {
        auto random = std::mt19937(seed);
        const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n + 1)); };
        auto ranks = std::vector<One>(static_cast<std::size_t>(1 + upto(4)));
        auto others = std::vector<One>(static_cast<std::size_t>(upto(4)));
        const auto size = static_cast<int>(ranks.size());
        const auto most = 1 + upto(2);
        auto places = std::vector<int>{};
        for (int place = upto(1); std::cmp_less(places.size(), size); place += 1 + upto(1))
            places.push_back(place);
        for (auto& rank : ranks) {
            rank.comes = std::chrono::milliseconds(upto(40));
            rank.most = most;
            rank.timeout = 200ms;
            if (upto(5) == 0) rank.last = upto(20);
            if (upto(5) == 0) rank.ended = {upto(size - 1)};
        }
        for (auto& other : others) {
            other.comes = std::chrono::milliseconds(upto(250));
            other.timeout = 1s;
            if (upto(2) == 0) other.last = upto(20);
            if (upto(2) == 0) other.wish = upto(size + 1);
        }
        auto entries = Entries{};
        const auto fates = grow(entries, ranks, others, places, 3ms);
        const auto where = detail::cat("seed ", seed);
        const Fate* first = nullptr;  // of those that live
        for (const auto& fate : fates.ranks) {
            if (fate.died) continue;
            if (!first) first = &fate;
            EXPECT_EQ(fate.error, first->error) << where;
            ASSERT_EQ(fate.world.has_value(), first->world.has_value()) << where;
        }
        if (!first) return;
        for (int c = 0; c < static_cast<int>(others.size()); ++c) {
            const auto& fate = fates.others[static_cast<std::size_t>(c)];
            if (fate.world) {
                ASSERT_TRUE(first->world) << where << " " << first->error;
            }
            if (!first->world || fate.died) continue;
            const auto& abouts = first->world->abouts;
            const auto at = std::ranges::find(abouts, detail::cat("other ", c)) - abouts.begin();
            EXPECT_EQ(fate.world.has_value(), at < std::ssize(abouts)) << where << " other " << c;
            if (!fate.world) continue;
            EXPECT_EQ(fate.world->rank, at) << where;
            EXPECT_EQ(fate.world->places, first->world->places) << where;
            EXPECT_EQ(fate.world->scope, first->world->scope) << where;
            if (const auto wish = others[static_cast<std::size_t>(c)].wish) {
                EXPECT_EQ(fate.world->places[static_cast<std::size_t>(at)], *wish) << where;
            }
        }
        if (!first->world) return;
        const auto& world = *first->world;
        EXPECT_TRUE(std::ranges::is_sorted(world.places)) << where;
        EXPECT_EQ(std::ranges::adjacent_find(world.places), world.places.end()) << where;
        EXPECT_GT(world.places.size(), ranks.size()) << where;
        EXPECT_LE(world.places.size(), ranks.size() + static_cast<std::size_t>(most)) << where;
        for (std::size_t r = 0; r < ranks.size(); ++r) {
            const auto& fate = fates.ranks[r];
            const auto about =
                std::ranges::find(world.abouts, detail::cat("rank ", r)) - world.abouts.begin();
            ASSERT_LT(about, std::ssize(world.abouts)) << where;
            EXPECT_EQ(world.places[static_cast<std::size_t>(about)], places[r]) << where;
            if (!fate.died) {
                EXPECT_EQ(fate.world->rank, about) << where;
            }
        }
    };
    auto threads = std::vector<std::thread>{};
    for (unsigned lane = 0; lane < 8; ++lane)
        threads.emplace_back([&, lane] {
            for (unsigned seed = lane; seed < 80; seed += 8) check(seed);
        });
    for (auto& thread : threads) thread.join();
}
