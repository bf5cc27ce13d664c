// SPDX-License-Identifier: Apache-2.0
// How a Gloo job lets processes in that were started later, and what becomes of it where they or its own
// ranks end meanwhile.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>

#include "support/gloo_job.hpp"
#include "support/listener.hpp"
#include "support/redis_server.hpp"

namespace {

using support::expect_says;
using support::JobOutcome;

/// A job whose ranks take these steps, and processes that are started later, of the numbers 10, 11, ...
class Growing {
public:
    Growing(const std::string& steps, int size, std::string store = {})
        : store_(store.empty() ? folder_.path() + "/store" : std::move(store)),
          ranks_({.command = "sh -c 'exec " RANKMESH_GLOO_GROW_PROGRAM " $RANK start " + steps + "'",
                  .size = size,
                  .store = store_}) {}

    /// Starts a process that takes the place of `rank`, any if it is less than 0, under that number.
    void later(const std::string& steps, int rank = -1, const std::string& name = "a job",
               std::optional<int> as = {}) {
        const auto number =
            std::to_string(as.value_or(rank < 0 ? 10 + static_cast<int>(later_.size()) : rank));
        later_.push_back(std::make_unique<support::Job>(support::Job::Options{
            .command = RANKMESH_GLOO_GROW_PROGRAM " " + number + " " + steps,
            .size = 1,
            .first = rank,
            .store = store_,
            .name = name,
            .before = [rank](int) { return std::string(rank < 0 ? "env -u RANK" : ""); }}));
    }
    const support::Job& ranks() const { return ranks_; }
    const support::Job& last() const { return *later_.back(); }
    /// The ranks first, then those that were started later, in their order.
    JobOutcome end() {
        auto outcome = ranks_.end();
        for (auto& each : later_) {
            auto one = each->end();
            outcome.outputs.push_back(one.outputs.front());
            outcome.exit_codes.push_back(one.exit_codes.front());
        }
        return outcome;
    }
    /// The names of what is left in the store.
    std::vector<std::string> left() const {
        auto names = std::vector<std::string>{};
        for (const auto& entry : std::filesystem::recursive_directory_iterator(store_))
            names.push_back(entry.path().filename().string());
        return names;
    }
    /// Beyond what a job leaves that does not grow.
    std::vector<std::string> left_of_growing() const {
        auto names = left();
        std::erase_if(names, [](const std::string& name) {
            return std::ranges::none_of(std::array{"candidate.", "offer.", "grow."}, [&](const char* part) {
                return name.find(part) != std::string::npos;
            });
        });
        return names;
    }

private:
    const support::Folder folder_;
    const std::string store_;
    support::Job ranks_;
    std::vector<std::unique_ptr<support::Job>> later_;
};

void expect_all(const JobOutcome& outcome, const std::vector<std::size_t>& ranks, const std::string& text) {
    for (auto rank : ranks) expect_says(outcome, rank, text);
}

/// A rank says this, with a time of less than 5 s.
void expect_soon(const JobOutcome& outcome, std::size_t rank, const std::string& pattern) {
    auto found = std::smatch{};
    ASSERT_TRUE(std::regex_search(outcome.outputs[rank], found, std::regex(pattern))) << pattern << '\n'
                                                                                      << outcome.all();
    EXPECT_LT(std::stoi(found[1]), 5000) << pattern << '\n' << outcome.all();
}

void lose_and_replace(const std::string& store, int lost, int place) {
    const auto number = std::to_string(lost);
    auto job = Growing("sum lose:" + number + " survivors sum grow:1:20000 sum sum", 4, store);
    job.later("rejoin:20000 sum sum", place);
    const auto outcome = job.end();
    for (auto rank = 0; rank < 4; ++rank) {
        const auto at = static_cast<std::size_t>(rank == lost ? 4 : rank);
        const auto stands = "is [dp=" + std::to_string(rank / 2) + " tp=" + std::to_string(rank % 2) + "] " +
                            std::to_string(rank) + " of 4, with {";
        // Of three numbers those that are there, then who has come.
        auto all = std::vector{0, 1, 2, 3};
        if (place < 0) {
            std::erase(all, lost);
            all.push_back(10);
        }
        expect_says(outcome, at, stands + (place < 0 ? std::to_string(all[0]) : "0..3"));
        EXPECT_EQ(outcome.exit_codes[at], 0) << outcome.all();
        if (rank != lost) expect_says(outcome, at, "of 3, with ");
    }
}

}  // namespace

TEST(GlooGrow, Rank_WhenLost_IsReplacedAtTheSameCoordinate) {
    for (auto lost : {0, 1, 3}) lose_and_replace({}, lost, lost);
    lose_and_replace({}, 2, -1);
}

TEST(GlooGrow, ByTheStoreThatRank0ServesAsWell) {
    const auto port = support::Listener().port();  // free now, though somebody may take it first
    lose_and_replace("tcp://127.0.0.1:" + std::to_string(port), 1, 1);
}

TEST(GlooGrow, Survivors_WithoutTheStoresServer_DoNotGoOn) {
    const auto store = "tcp://127.0.0.1:" + std::to_string(support::Listener().port());
    auto job = Growing("sum lose:0 survivors grow:1:2000", 3, store);
    const auto outcome = job.end();
    for (auto rank : {1U, 2U}) {
        expect_says(outcome, rank, "lose:0: PeerLost {0} after ");
        expect_says(outcome, rank, "survivors: error after ");
        expect_says(outcome, rank, "which rank 0 serves, is gone (");
        EXPECT_EQ(outcome.exit_codes[rank], 0) << outcome.all();
    }
}

TEST(GlooGrow, ByRedisAsWell) {
    if (!support::RedisServer::is_installed()) GTEST_SKIP() << support::RedisServer::how_to_get_it;
    const auto server = support::RedisServer();
    lose_and_replace(server.url(), 1, 1);
}

TEST(GlooGrow, NewRanksComeAfterThoseThatWereThere) {
    auto job = Growing("sum grow:2:20000 sum grow:1:20000 sum", 2);
    job.later("rejoin:20000 sum grow:1:20000 sum");
    job.later("rejoin:20000 sum grow:1:20000 sum");
    ASSERT_TRUE(job.ranks().all_say("of 4, with {0, 1, 10, 11}"));
    job.later("rejoin:20000 sum");
    const auto outcome = job.end();
    expect_all(outcome, {0, 1}, "of 2, with {0, 1}");
    expect_all(outcome, {0, 1, 2, 3, 4}, "of 5, with {0, 1, 10..12}");
    expect_says(outcome, 4, "is [dp=4] 4 of 5");
}

TEST(GlooGrow, Grow_WhenNobodyComes_ThrowsAndMayBeCalledAgain) {
    auto job = Growing("sum grow:1:300 sum told grow:1:20000 sum", 3);
    ASSERT_TRUE(job.ranks().all_say("grow:1:300: Timeout {0..2} {} after "));
    job.later("rejoin:20000 sum");
    job.ranks().tell("told");
    const auto outcome = job.end();
    expect_all(outcome, {0, 1, 2},
               "expired in grow: no process has come to enter the job 'a job' in the store '");
    expect_all(outcome, {0, 1, 2}, "'; the world of 3 ranks is as it was");
    expect_all(outcome, {0, 1, 2, 3}, "of 4, with {0..2, 10}");
}

TEST(GlooGrow, Candidate_WhenItDiesWaiting_CostsOneTimeout) {
    auto job = Growing("sum told grow:1:1000 sum told grow:1:20000 sum", 3);
    ASSERT_TRUE(job.ranks().all_say("of 3"));
    job.later("dies:10:300 rejoin:20000");
    const auto dead = job.last().all_say("waits");
    ASSERT_TRUE(dead);
    job.last().wait_for_end(0);
    job.ranks().tell("told");
    ASSERT_TRUE(job.ranks().all_say("grow:1:1000: Timeout {0..2} {} after "));
    job.later("rejoin:20000 sum");
    const auto outcome = job.end();
    expect_all(outcome, {0, 1, 2},
               "expired in grow: those that came to enter the job 'a job' in the store '");
    expect_all(outcome, {0, 1, 2}, "of 4, with {0..2, 11}");
    expect_says(outcome, 4, "is [dp=1 tp=1] 3 of 4");
}

TEST(GlooGrow, Candidate_WhenItDiesAfterEntering_IsLostAsAnyRank) {
    auto job = Growing("sum grow:1:20000 lose:-1 back sum", 3);
    job.later("rejoin:20000 lose:10");
    const auto outcome = job.end();
    expect_all(outcome, {0, 1, 2}, "lose:-1: PeerLost {3} after ");
    for (auto rank : {0U, 1U, 2U}) {
        const auto lost = outcome.outputs[rank].find("PeerLost");
        EXPECT_NE(outcome.outputs[rank].find("of 3, with {0..2}", lost), std::string::npos) << outcome.all();
    }
}

TEST(GlooGrow, AProcessOfAnotherJobEntersNoneAndIsToldWhatToGiveIt) {
    auto job = Growing("grow:1:1000 sum", 2);
    job.later("rejoin:1000", -1, "another job");
    const auto outcome = job.end();
    expect_all(outcome, {0, 1}, "grow:1:1000: Timeout {0, 1} {} after ");
    expect_says(outcome, 2, "the ranks of the job 'another job' in the store '");
    expect_says(
        outcome, 2,
        "have let no process in; they do when all of them call grow(); no rank 0 has started in that job: "
        "give this process the RANKMESH_STORE and RANKMESH_JOB of its ranks");
}

TEST(GlooGrow, AProcessThatFindsNoStoreGivesUpAtItsTimeout) {
    const auto store = "tcp://127.0.0.1:" + std::to_string(support::Listener().port());
    auto job =
        support::Job({.command = RANKMESH_GLOO_GROW_PROGRAM " 10 rejoin:1500", .size = 1, .store = store});
    const auto outcome = job.end();
    auto found = std::smatch{};
    ASSERT_TRUE(std::regex_search(outcome.outputs[0], found, std::regex("Timeout .* after ([0-9]+) ms")))
        << outcome.all();
    EXPECT_GE(std::stoi(found[1]), 1500) << outcome.all();
    EXPECT_LT(std::stoi(found[1]), 10'000) << "not 30 s" << outcome.all();
    expect_says(outcome, 0, " has not found the store '" + store + "' of the job 'a job' for 1");
}

TEST(GlooGrow, AnotherPlanIsADisagreementOnAll) {
    auto job = Growing("grow:1:20000 lose:-1 sum", 2);
    job.later("rejoin:20000 plan sum");
    const auto outcome = job.end();
    expect_all(outcome, {0, 1}, "lose:-1: Disagreement after ");
    expect_says(outcome, 2, "plan: Disagreement after ");
    expect_all(outcome, {0, 1, 2}, "of 3, with {0, 1, 10}");
}

TEST(GlooGrow, OfTwoForThePlaceOfOneRankOneEnters) {
    auto job = Growing("sum lose:1 survivors sum grow:2:1500 sum", 3);
    for (auto number : {10, 11}) job.later("rejoin:5000 sum", 1, "a job", number);
    const auto outcome = job.end();
    const auto enters = [&](std::size_t rank) {
        return outcome.outputs[rank].find("1 of 3, with {0, 2, 1") != std::string::npos;
    };
    expect_all(outcome, {0, 2}, "of 2, with {0, 2}");
    expect_all(outcome, {0, 2}, "of 3, with {0, 2, 1");
    EXPECT_NE(enters(3), enters(4)) << outcome.all();
    expect_says(outcome, enters(3) ? 4 : 3,
                "have let no process in that asks for place 1; they do when all of them call grow()");
}

TEST(GlooGrow, Rank_WhenItEndsInGrow_IsNamedOnAll) {
    auto job = Growing("sum dies:1:500 grow:1:20000 survivors sum grow:1:20000 sum", 4);
    ASSERT_TRUE(job.ranks().all_say("of 4"));
    job.ranks().wait_for_end(1);
    job.later("rejoin:20000 sum", 1);
    const auto outcome = job.end();
    expect_all(outcome, {0, 2, 3}, "grow:1:20000: PeerLost {1} after ");
    for (auto rank : {0U, 2U, 3U}) {
        auto found = std::smatch{};
        ASSERT_TRUE(std::regex_search(outcome.outputs[rank], found, std::regex("after ([0-9]+) ms")));
        EXPECT_LT(std::stoi(found[1]), 5000) << outcome.all();
    }
    expect_all(outcome, {0, 2, 3}, "of 3, with {0, 2, 3}");
    expect_all(outcome, {0, 2, 3, 4}, "of 4, with {0..3}");
}

TEST(GlooGrow, Rank_WhenItEndsBeforeTheOthersCome_IsNamedSoon) {
    auto job = Growing(
        "sum dies:1:300 $(test $RANK = 1 || echo told) grow:1:20000 survivors sum grow:1:20000 sum", 3);
    ASSERT_TRUE(job.ranks().all_say("of 3"));
    job.ranks().wait_for_end(1);
    job.ranks().tell("told");
    job.later("rejoin:20000 sum", 1);
    const auto outcome = job.end();
    expect_all(outcome, {0, 2}, "grow:1:20000: PeerLost {1} after ");
    for (auto rank : {0U, 2U}) {
        auto found = std::smatch{};
        ASSERT_TRUE(std::regex_search(outcome.outputs[rank], found, std::regex("after ([0-9]+) ms")));
        EXPECT_LT(std::stoi(found[1]), 10'000) << outcome.all();
    }
    expect_all(outcome, {0, 2}, "of 2, with {0, 2}");
    expect_all(outcome, {0, 2, 3}, "of 3, with {0..2}");
}

// Nobody has a connection to it, and the timeout is 20 s, the grace 10 s.
TEST(GlooGrow, ARankThatEndsBeforeItsNewWorldIsConnectedIsNamedSoon) {
    auto job = Growing("sum lose:1 survivors die:3 sum survivors sum", 4);
    const auto outcome = job.end();
    for (auto rank : {0U, 2U}) {
        expect_soon(outcome, rank, "sum: PeerLost \\{2\\} after ([0-9]+) ms");
        expect_soon(outcome, rank, "PeerLost \\{2\\}[\\s\\S]*goes on after ([0-9]+) ms");
        expect_says(outcome, rank, "of 2, with {0, 2}");
    }
}

TEST(GlooGrow, AProcessThatEndsBeforeTheLargerWorldIsConnectedIsNamedSoon) {
    auto job = Growing("sum grow:1:20000 sum back sum", 3);
    job.later("rejoin:20000 die:10");
    const auto outcome = job.end();
    for (auto rank : {0U, 1U, 2U}) {
        expect_soon(outcome, rank, "sum: PeerLost \\{3\\} after ([0-9]+) ms");
        const auto lost = outcome.outputs[rank].find("PeerLost");
        EXPECT_NE(outcome.outputs[rank].find("of 3, with {0..2}", lost), std::string::npos) << outcome.all();
    }
}

TEST(GlooGrow, Rank0_WhenItEndsInGrow_IsReplaced) {
    auto job = Growing("sum dies:0:500 grow:1:20000 survivors sum grow:1:20000 sum", 3);
    ASSERT_TRUE(job.ranks().all_say("of 3"));
    job.ranks().wait_for_end(0);
    job.later("rejoin:20000 sum", 0);
    const auto outcome = job.end();
    expect_all(outcome, {1, 2}, "grow:1:20000: PeerLost {0} after ");
    expect_all(outcome, {1, 2}, "of 2, with {1, 2}");
    expect_all(outcome, {1, 2, 3}, "of 3, with {0..2}");
}

TEST(GlooGrow, ARankThatDoesNotCallItIsMissingOnAll) {
    auto job = Growing("sum pause:$(( RANK == 1 ? 3000 : 0 )) grow:1:1000 sum", 3);
    job.later("rejoin:5000");
    const auto outcome = job.end();
    expect_all(outcome, {0, 1, 2}, "grow:1:1000: Timeout {0, 2} {1} after ");
    for (auto rank : {0U, 1U, 2U}) {
        const auto late = outcome.outputs[rank].find("Timeout");
        EXPECT_NE(outcome.outputs[rank].find("of 3, with {0..2}", late), std::string::npos) << outcome.all();
    }
}

TEST(GlooGrow, Grow_RemovesItsEntries) {
    auto job = Growing("sum grow:1:20000 sum sum sum grow:1:20000 sum sum sum", 2);
    job.later("rejoin:20000 sum sum sum grow:1:20000 sum sum sum");
    ASSERT_TRUE(job.ranks().all_say("of 3"));
    job.later("rejoin:20000 sum sum sum");
    job.end();
    EXPECT_EQ(job.left_of_growing(), std::vector<std::string>{});
}

TEST(GlooGrow, Survivors_RemoveTheEntriesOfTheWorldTheyLeave) {
    auto job = Growing("sum lose:1 survivors sum", 3);
    job.end();
    auto names = job.left();
    std::erase_if(names, [](const auto& name) { return !name.starts_with("connections."); });
    EXPECT_FALSE(names.empty()) << "nobody knows what the rank that was killed has said";
    for (const auto& name : names) EXPECT_TRUE(name.ends_with(".1")) << name;
}
