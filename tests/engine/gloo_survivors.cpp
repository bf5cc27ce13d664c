// SPDX-License-Identifier: Apache-2.0
// How the ranks of a Gloo job go on without one that was killed.
#include <gtest/gtest.h>

#include "support/gloo_job.hpp"
#include "support/ports.hpp"
#include "waits.hpp"

namespace {

using Outcome = support::JobOutcome;
using support::expect_says;
using support::time_of;

Outcome job(const std::string& mode, int size) {
    return support::gloo_job(RANKMESH_GLOO_SURVIVORS_PROGRAM " " + mode, size);
}

/// Ranks `left` of a job go on together as 0, 1, ...; `shown` is how they are written.
void expect_go_on(const Outcome& outcome, const std::vector<std::size_t>& left, const std::string& shown) {
    for (std::size_t i = 0; i < left.size(); ++i) {
        expect_says(outcome, left[i],
                    "is " + std::to_string(i) + " of " + std::to_string(left.size()) + ", with " + shown);
    }
}

}  // namespace

TEST(GlooSurvivors, TheRanksOfAJobGoOnWithoutAKilledOneAtOnce) {
    for (auto killed : {0U, 1U, 3U}) {
        const auto outcome = job("one " + std::to_string(killed), 4);
        EXPECT_EQ(outcome.exit_codes[killed], 128 + SIGKILL);
        auto left = std::vector<std::size_t>{0, 1, 2, 3};
        std::erase(left, killed);
        expect_go_on(outcome, left, killed == 0 ? "{1..3}" : killed == 1 ? "{0, 2, 3}" : "{0..2}");
        const auto died = time_of(outcome, killed, "dies");
        for (auto rank : left) {
            const auto took = time_of(outcome, rank, R"(with \{[^}]*\})") - died;
            EXPECT_LT(took, 5000) << "rank " << rank << " has waited for the grace of 10 s";
        }
    }
}

TEST(GlooSurvivors, AStoreThatRankZeroServesEndsWithItAndServesTheOthersElse) {
    const auto store = [] { return "tcp://127.0.0.1:" + std::to_string(support::free_ports(1)); };
    const auto command = std::string(RANKMESH_GLOO_SURVIVORS_PROGRAM " one ");
    expect_go_on(support::gloo_job(command + "2", 4, -1, store()), {0, 1, 3}, "{0, 1, 3}");
    const auto without = support::gloo_job(command + "0", 4, -1, store());
    for (std::size_t rank = 1; rank < 4; ++rank)
        expect_says(without, rank, "', which rank 0 serves, is gone (");
}

TEST(GlooSurvivors, RanksThatShareNoCommunicatorWithTheKilledOneGoOnToo) {
    const auto outcome = job("one 5", 6);
    expect_go_on(outcome, {0, 1, 2, 3, 4}, "{0..4}");
}

TEST(GlooSurvivors, Ranks_WhateverTheyWaitIn_HearOfIt) {
    auto victim = 0U;
    for (const auto& [how, wait] : waits::all()) {
        victim = (victim + 5) % 8;
        const auto axes = victim % 2 == 0 ? " 3" : " 2";
        const auto outcome =
            job(how + " " + std::to_string(victim) + axes + (victim % 4 < 2 ? " throws" : " killed"), 8);
        auto left = std::vector<std::size_t>{};
        auto shown = std::vector<int>{};
        for (auto rank = 0U; rank < 8; ++rank)
            if (rank != victim) {
                left.push_back(rank);
                shown.push_back(static_cast<int>(rank));
                expect_says(outcome, rank, "has lost {" + std::to_string(victim) + "}: ");
            }
        expect_go_on(outcome, left, rankmesh::ranks_to_string(shown));
    }
}

TEST(GlooSurvivors, MoreRanksMayBeLostLater) {
    const auto outcome = job("again 0", 4);
    expect_go_on(outcome, {2, 3}, "{2, 3}");
    expect_go_on(outcome, {3}, "{3}");
}

TEST(GlooSurvivors, TheFirstWorldMayBeAskedAgain) { expect_go_on(job("same 1", 4), {0, 3}, "{0, 3}"); }

TEST(GlooSurvivors, OneThatIsKilledAfterItHasComeIsNoSurvivor) {
    expect_go_on(job("within 1", 4), {0, 3}, "{0, 3}");
}

TEST(GlooSurvivors, OneRankMayBeLeft) { expect_go_on(job("one 0", 2), {1}, "{1}"); }

TEST(GlooSurvivors, AWorldThatHasLostNobodyGoesOnWithAll) {
    expect_go_on(job("nobody", 4), {0, 1, 2, 3}, "{0..3}");
    expect_go_on(job("nobody", 1), {0}, "{0}");
}

TEST(GlooSurvivors, OneThatComesLateIsToldWhoWentOn) {
    const auto outcome = job("late 1", 4);
    expect_go_on(outcome, {0, 2}, "{0, 2}");
    expect_says(
        outcome, 3,
        "lacks {3} of {0, 2}: rank 3 is none of the survivors: {0, 2} went on without it, since it came "
        "later than their grace, here 2 s, or they lost their connections to it; where ranks notice "
        "late what happened, give survivors() more time\nrank 3 lacks {3} of {0, 2}: ");
    EXPECT_EQ(outcome.exit_codes[3], 0);
}

TEST(GlooSurvivors, TheFirstCommunicatorsFailUntilTheyGo) {
    const auto outcome = job("keep", 4);
    expect_go_on(outcome, {0, 2, 3}, "{0, 2, 3}");
    for (auto rank : {0U, 2U, 3U}) {
        const auto lost = "rank " + std::to_string(rank) + " has lost rank 1 is gone";
        auto times = 0;
        for (auto at = outcome.outputs[rank].find(lost); at != std::string::npos;
             at = outcome.outputs[rank].find(lost, at + 1))
            ++times;
        EXPECT_EQ(times, 4) << outcome.all();
    }
}
