// SPDX-License-Identifier: Apache-2.0
// How ranks find out who goes on, over entries in memory: many ranks, deaths and delays at every point.
#include "engine/membership/survivor_agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include <rankmesh/core/ranks.hpp>

#include "support/dying_store.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using detail::SurvivorAgreement;
using support::Died;
using support::DyingStore;
using support::Entries;

namespace {

/// What became of one rank.
struct Fate {
    std::vector<int> list = {};  // that it goes on with, empty if it does not
    bool died = false;
    std::size_t read = 0;  // entries
    std::chrono::milliseconds took{};
};

struct Rank {
    std::optional<std::chrono::milliseconds> comes = 0ms;  // nothing: never
    int last = -1;                                         // the use of the store at which it dies, -1: never
    std::vector<int> ended = {};                           // whose end it has noticed
};

std::vector<Fate> survivor_agreement(const std::vector<Rank>& ranks, std::chrono::milliseconds grace,
                                     std::chrono::milliseconds slow = 0ms) {
    auto entries = Entries{};
    auto fates = std::vector<Fate>(ranks.size());
    auto threads = std::vector<std::thread>{};
    for (std::size_t r = 0; r < ranks.size(); ++r)
        threads.emplace_back([&, r] {
            if (!ranks[r].comes) return;
            std::this_thread::sleep_for(*ranks[r].comes);  // the laws hold for any times
            const auto store =
                std::make_shared<DyingStore>(entries, ranks[r].last, slow, static_cast<unsigned>(r));
            const auto begin = std::chrono::steady_clock::now();
            try {
                auto own =
                    SurvivorAgreement(store, "", static_cast<int>(r), static_cast<int>(ranks.size()), 20s);
                fates[r].list = own.survivors(grace, [&] { return ranks[r].ended; });
            } catch (const Timeout&) {
            } catch (const Died&) {
                fates[r].died = true;
            }
            fates[r].read = store->read();
            fates[r].took = std::chrono::duration_cast<std::chrono::milliseconds>(
                std::chrono::steady_clock::now() - begin);
        });
    for (auto& thread : threads) thread.join();
    return fates;
}

}  // namespace

TEST(SurvivorAgreement, Survivors_WhateverHappens_HoldTheSameWorld) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        auto random = std::mt19937(seed);
        const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n + 1)); };
        auto ranks = std::vector<Rank>(static_cast<std::size_t>(2 + upto(8)));
        const auto size = static_cast<int>(ranks.size());
        // In every other run all come, the lowest when another is about to write the list in its place.
        const auto late = seed % 2 == 0;
        if (late) ranks[0].comes = std::chrono::milliseconds(20 + upto(20));
        for (auto& rank : ranks) {
            if (late) break;
            if (upto(3) == 0)
                rank.comes = std::nullopt;
            else
                rank.comes = std::chrono::milliseconds(upto(40));
            if (upto(2) == 0) rank.last = upto(30);
        }
        // Some of those that never come are noticed by others, some of them wrongly.
        for (int r = 0; r < size && !late; ++r)
            if (!ranks[static_cast<std::size_t>(r)].comes || upto(5) == 0)
                ranks[static_cast<std::size_t>(upto(size - 1))].ended.push_back(r);
        const auto fates = survivor_agreement(ranks, 25ms, 4ms);
        auto list = std::vector<int>{};
        for (int r = 0; r < size; ++r) {
            const auto& fate = fates[static_cast<std::size_t>(r)];
            if (fate.list.empty()) continue;
            if (list.empty()) list = fate.list;
            EXPECT_EQ(fate.list, list) << "rank " << r << ", seed " << seed;
        }
        for (int r = 0; r < size && !list.empty(); ++r) {
            const auto& fate = fates[static_cast<std::size_t>(r)];
            if (!fate.died) {
                EXPECT_EQ(std::ranges::binary_search(list, r), !fate.list.empty())
                    << "rank " << r << " of " << ranks_to_string(list) << ", seed " << seed;
            }
        }
    }
}

TEST(SurvivorAgreement, Rank_WhenItDiesAfterArriving_IsOnNoList) {
    auto ranks = std::vector<Rank>(4);
    ranks[2].last = 3;
    ranks[3].comes = 200ms;
    const auto fates = survivor_agreement(ranks, 2s);
    for (auto r : {0U, 1U, 3U}) EXPECT_EQ(fates[r].list, (std::vector{0, 1, 3})) << "rank " << r;
    EXPECT_TRUE(fates[2].died);
}

TEST(SurvivorAgreement, Survivors_DoNotWaitForRanksKnownToHaveEnded) {
    auto ranks = std::vector<Rank>(8);
    ranks[0].comes = ranks[1].comes = ranks[5].comes = std::nullopt;
    ranks[7].ended = {0, 5};
    ranks[3].ended = {1};
    const auto fates = survivor_agreement(ranks, 20s);
    for (auto r : {2U, 3U, 4U, 6U, 7U}) {
        EXPECT_EQ(fates[r].list, (std::vector{2, 3, 4, 6, 7}));
        EXPECT_LT(fates[r].took, 10s);
    }
}

TEST(SurvivorAgreement, Leader_AloneReadsTheEntriesOfAll) {
    auto ranks = std::vector<Rank>(200);
    ranks[150].comes = std::nullopt;
    ranks[3].ended = {150};
    const auto fates = survivor_agreement(ranks, 20s);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (r == 150) continue;
        EXPECT_EQ(fates[r].list.size(), 199U);
        // Three for each look, which are the more the busier the machine is.
        const auto looks = 60U + static_cast<std::size_t>(fates[r].took / 4ms);
        if (r > 0) {
            EXPECT_LT(fates[r].read, 3 * looks) << "rank " << r;
        }
    }
}
