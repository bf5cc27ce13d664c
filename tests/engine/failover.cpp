// SPDX-License-Identifier: Apache-2.0
// How ranks whose store is lost go over to the second: over entries in memory, with deaths and delays at
// every point.
#include "engine/membership/failover.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include <rankmesh/core/ranks.hpp>

#include "support/dying_store.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using support::Died;
using support::DyingStore;
using support::Entries;

namespace {

/// A store that a process serves, as one rank sees it.
class Served final : public detail::ServedStore {
public:
    Served(std::shared_ptr<DyingStore> store, std::string served_as, std::string doubt,
           const std::atomic<bool>& ended)
        : store_(std::move(store)),
          served_as_(std::move(served_as)),
          doubt_(std::move(doubt)),
          ended_(ended) {}
    bool set(const std::string& name, const std::string& text, Instant until) override {
        throw_if_ended();
        return store_->set(name, text, until);
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override {
        throw_if_ended();
        return store_->get(names, until);
    }
    void remove(const std::vector<std::string>& names, Instant until) noexcept override {
        store_->remove(names, until);
    }
    std::chrono::microseconds longest_pause() const override { return 4ms; }
    std::string text() const override { return "the store 'second'"; }
    const std::string& job() const override { return store_->job(); }
    std::string served_as() const override { return served_as_; }
    std::string ping(Instant) override { return {}; }
    std::string doubt() override { return doubt_; }

private:
    void throw_if_ended() const {
        if (ended_) throw EngineFailure("its process has ended");
    }
    const std::shared_ptr<DyingStore> store_;
    const std::string served_as_;
    const std::string doubt_;
    const std::atomic<bool>& ended_;
};

/// The stores of one process: the first, and a second that the process at the place `server` serves.
detail::FailoverStore stores_of(int place, int server, const std::shared_ptr<DyingStore>& second,
                                const std::string& doubt, const std::atomic<bool>& ended) {
    return {std::make_shared<Served>(second, "", doubt, ended),
            {.store = std::make_shared<Served>(second, place == server ? "this process" : "", "", ended),
             .name = "the second store",
             .place = server}};
}

const auto first_is_lost = detail::ServerLost("the first is gone", "; go on");

/// One process that goes over, or not.
struct Process {
    std::vector<int> places = {};  // of the ranks of the world that it knows
    int rank = 0;
    std::optional<std::chrono::milliseconds> comes = 0ms;  // nothing: never
    int last = -1;                                         // the use of the store at which it dies, -1: never
    std::vector<int> ended = {};                           // ranks whose end it has noticed
    int place() const { return places[static_cast<std::size_t>(rank)]; }
};

/// What became of it.
struct Fate {
    std::vector<int> places = {};  // of the world in which it goes on, empty if it does not
    int rank = -1;                 // in that world
    bool died = false;
    std::string error = {};
    std::vector<int> lost = {};
    std::vector<int> missing = {};
    std::chrono::milliseconds took{};
};

std::vector<Fate> fail_over(const std::vector<Process>& processes, int server,
                            std::chrono::milliseconds grace, std::chrono::milliseconds slow = 0ms,
                            const std::string& doubt = {}) {
    auto entries = Entries{};
    auto server_ended = std::atomic<bool>(false);
    auto fates = std::vector<Fate>(processes.size());
    auto threads = std::vector<std::jthread>{};
    for (std::size_t i = 0; i < processes.size(); ++i)
        threads.emplace_back([&, i] {
            const auto& own = processes[i];
            auto& fate = fates[i];
            if (!own.comes) return;
            std::this_thread::sleep_for(*own.comes);  // the laws hold for any times
            const auto store =
                std::make_shared<DyingStore>(entries, own.last, slow, static_cast<unsigned>(i));
            auto stores = stores_of(own.place(), server, store, doubt, server_ended);
            const auto begin = std::chrono::steady_clock::now();
            try {
                const auto world = stores
                                       .fail_over(
                                           {own.places, own.rank, "about " + std::to_string(own.place())},
                                           grace, [&] { return own.ended; }, first_is_lost)
                                       .world;
                fate.places = world.places;
                fate.rank = world.rank;
                for (std::size_t r = 0; r < world.places.size(); ++r)
                    EXPECT_EQ(world.abouts[r], "about " + std::to_string(world.places[r]));
            } catch (const PeerLost& error) {
                fate.error = error.what();
                fate.lost = error.ranks;
            } catch (const Timeout& error) {
                fate.error = error.what();
                fate.missing = error.missing;
            } catch (const Error& error) {
                fate.error = error.what();
            } catch (const Died&) {
                fate.died = true;
                if (own.place() == server) server_ended = true;
            }
            fate.took = std::chrono::duration_cast<std::chrono::milliseconds>(
                std::chrono::steady_clock::now() - begin);
        });
    threads.clear();
    return fates;
}

/// Processes of a world of so many ranks that has lost its first.
std::vector<Process> world_without_first(int size) {
    auto all = std::vector<Process>{};
    for (int rank = 1; rank < size; ++rank)
        all.push_back({.places = detail::first_ranks(size), .rank = rank, .ended = {0}});
    return all;
}

}  // namespace

TEST(Failover, Survivors_WhateverHappens_HoldTheSameWorld) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        auto random = std::mt19937(seed);
        const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n + 1)); };
        auto processes = world_without_first(3 + upto(7));
        const auto server = 1 + upto(static_cast<int>(processes.size()) - 1);
        for (auto& each : processes) {
            each.comes = std::chrono::milliseconds(upto(40));
            if (each.place() != server && upto(4) == 0) each.comes = std::nullopt;
            if (upto(3) == 0) each.last = upto(12);
            if (upto(5) == 0) each.ended.push_back(1 + upto(static_cast<int>(processes.size()) - 1));
        }
        const auto fates = fail_over(processes, server, 25ms, 4ms);
        auto list = std::vector<int>{};
        for (const auto& fate : fates)
            if (!fate.places.empty()) list = fate.places;
        const auto& decides = fates[static_cast<std::size_t>(server - 1)];
        for (std::size_t i = 0; i < fates.size(); ++i) {
            const auto& fate = fates[i];
            const auto about = detail::cat("place ", processes[i].place(), ", seed ", seed, ": ", fate.error);
            if (!fate.places.empty()) {
                EXPECT_EQ(fate.places, list) << about;
                EXPECT_EQ(list[static_cast<std::size_t>(fate.rank)], processes[i].place()) << about;
            } else if (!fate.died && processes[i].comes && !decides.died) {
                EXPECT_FALSE(std::ranges::binary_search(list, processes[i].place())) << about;
                EXPECT_EQ(fate.missing, std::vector{processes[i].rank}) << about;
            }
            EXPECT_EQ(fate.died || !processes[i].comes, fate.places.empty() && fate.error.empty()) << about;
        }
    }
}

TEST(Failover, Survivors_DoNotWaitForRanksKnownToHaveEnded) {
    auto processes = world_without_first(6);
    processes[1].comes = processes[3].comes = std::nullopt;
    processes[0].ended = {4};
    processes[4].ended = {2};
    const auto fates = fail_over(processes, 3, 20s);
    for (auto i : {0U, 2U, 4U}) {
        EXPECT_EQ(fates[i].places, (std::vector{1, 3, 5})) << fates[i].error;
        EXPECT_LT(fates[i].took, 10s);
    }
}

TEST(Failover, Survivors_OfDifferentWorlds_MeetInOne) {
    // Of 0..4 rank 2 was lost, which some know; two have entered, at places 2 and 5, which others know.
    auto processes = std::vector<Process>{{.places = {0, 1, 2, 3, 4}, .rank = 1},
                                          {.places = {0, 1, 3, 4}, .rank = 2},
                                          {.places = {0, 1, 2, 3, 4, 5}, .rank = 4},
                                          {.places = {0, 1, 2, 3, 4, 5}, .rank = 2},
                                          {.places = {0, 1, 2, 3, 4, 5}, .rank = 5}};
    for (auto server : {1, 3, 5})
        for (const auto& fate : fail_over(processes, server, 20s))
            EXPECT_EQ(fate.places, (std::vector{1, 2, 3, 4, 5})) << fate.error;
}

TEST(Failover, Survivors_WhenRank0MayLive_DoNotGoOn) {
    for (const auto& fate : fail_over(world_without_first(4), 2, 20s, 0ms, "it is only silent")) {
        EXPECT_TRUE(fate.places.empty());
        EXPECT_EQ(
            fate.error,
            "the first is gone; no rank goes over to the second store, since rank 0 may live and others go "
            "on with it: it is only silent, on the rank that serves the second");
    }
}

TEST(Failover, Failover_WhenForbidden_IsRefused) {
    auto entries = Entries{};
    const auto store = std::make_shared<DyingStore>(entries, -1, 0ms, 0U);
    const auto ended = std::atomic<bool>(false);
    auto stores = stores_of(1, 1, store, "", ended);
    const auto said = stores_of(0, 1, store, "", ended).shrink({0, 1, 2}, {0, 2}, true, {});
    EXPECT_EQ(said, "the second store is lost with the rank that serves it: the end of rank 0 ends the job");
    try {
        stores.fail_over(
            {.places = {0, 1, 2}, .rank = 1, .about = ""}, 10ms, [] { return std::vector<int>{}; },
            first_is_lost);
        FAIL();
    } catch (const EngineFailure& error) {
        EXPECT_STREQ(error.what(),
                     "the first is gone; no rank goes over to the second store, since others went on without "
                     "the rank that serves it");
    }
    EXPECT_FALSE(store->get({detail::failed_over}, {}).front());
}

TEST(Failover, Survivors_WhenTheSecondServerIsAbsent_NameIt) {
    auto processes = world_without_first(3);
    processes[0].comes = std::nullopt;
    const auto fates = fail_over(processes, 1, 10ms);
    EXPECT_EQ(fates[1].missing, std::vector{1});
    EXPECT_TRUE(
        fates[1].error.starts_with("the timeout expired: the first is gone; the second store is there, but "
                                   "the rank that serves it, rank 1, "
                                   "has not said within "))
        << fates[1].error;
}

TEST(Failover, Survivors_WhenTheSecondIsLost_NameBothServers) {
    auto processes = world_without_first(4);
    processes[1].last = 3;  // in the middle of it
    const auto fates = fail_over(processes, 2, 20s);
    for (auto i : {0U, 2U}) {
        EXPECT_EQ(fates[i].lost, (std::vector{0, 2}));
        EXPECT_EQ(fates[i].error,
                  "the first is gone; the second store is gone as well: its process has ended; the ranks "
                  "cannot find "
                  "each other any more");
    }
}

TEST(Failover, Processes_ForOnePlace_OnlyTheFirstGoesOn) {
    auto processes = std::vector<Process>{{.places = {0, 1, 2}, .rank = 1},
                                          {.places = {0, 1, 2}, .rank = 2},
                                          {.places = {0, 2}, .rank = 1, .comes = 200ms}};
    const auto fates = fail_over(processes, 1, 1s);
    EXPECT_EQ(fates[0].places, (std::vector{1, 2}));
    EXPECT_EQ(fates[1].places, (std::vector{1, 2}));
    EXPECT_TRUE(fates[2].places.empty());
}
