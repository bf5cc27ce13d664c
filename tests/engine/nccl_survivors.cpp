// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job on devices go on without one that was killed while its device reduced, and whom they
// blame when a rank does not come. Their host's engine is Gloo.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/command.hpp"
#include "support/gloo_job.hpp"

namespace {

using support::expect_says;
using support::time_of;

/// NCCL cannot shrink on rank `refusing`.
support::JobOutcome job(const std::string& mode, int size, int refusing = -1) {
    const auto before = [refusing](int rank) {
        return std::string(rank == refusing ? "env FAKE_FAIL=ncclCommShrink" : "");
    };
    return support::Job({.command = RANKMESH_NCCL_SURVIVORS_PROGRAM " " + mode,
                         .size = size,
                         .variables = {{"FAKE_LEAKS", "1"}},
                         .before = before})
        .end();
}

const auto shrunk = std::string("goes on with a shrunk NCCL communicator of all ranks");
const auto anew = std::string("goes on without the NCCL communicator of all ranks");

/// Ranks `left` of a job go on together as 0, 1, ..., with the sum of theirs alone and nothing left behind.
void expect_go_on(const support::JobOutcome& outcome, const std::vector<std::size_t>& left,
                  const std::string& shown, const std::string& how) {
    for (std::size_t i = 0; i < left.size(); ++i) {
        expect_says(outcome, left[i],
                    "is " + std::to_string(i) + " of " + std::to_string(left.size()) + ", with " + shown);
        expect_says(outcome, left[i], how);
        EXPECT_EQ(outcome.exit_codes[left[i]], 0) << outcome.all();
    }
}

}  // namespace

TEST(NcclSurvivors, GoOnWithTheCommunicatorOfAllRanksShrunk) {
    for (auto killed : {0U, 1U, 3U}) {
        const auto outcome = job("one " + std::to_string(killed), 4);
        EXPECT_EQ(outcome.exit_codes[killed], 128 + SIGKILL);
        auto left = std::vector<std::size_t>{0, 1, 2, 3};
        std::erase(left, killed);
        expect_go_on(outcome, left, killed == 0 ? "{1..3}" : killed == 1 ? "{0, 2, 3}" : "{0..2}", shrunk);
        for (auto rank : left) {
            expect_says(outcome, rank, "has lost ");
            const auto took = time_of(outcome, rank, R"(with \{[^}]*\})") - time_of(outcome, killed, "dies");
            EXPECT_LT(took, 5000) << "rank " << rank << " has waited for a timeout\n" << outcome.all();
        }
    }
}

TEST(NcclSurvivors, ShrinkWhatWasShrunkOrMakeANewOneWhereTheFirstWorldIsAsked) {
    expect_go_on(job("same 1", 4), {0, 3}, "{0, 3}", anew);
    const auto outcome = job("again 1", 4);
    expect_go_on(outcome, {0, 3}, "{0, 3}", shrunk);
    EXPECT_EQ(outcome.all().find(anew), std::string::npos) << outcome.all();
}

TEST(NcclSurvivors, MakeANewCommunicatorWhereNcclCannotShrinkTheOld) {
    expect_go_on(job("early 1", 3), {0, 2}, "{0, 2}", anew);
    expect_go_on(job("share 1", 3), {0, 2}, "{0, 2}", anew);
    // The others wait for it, up to half their timeout.
    expect_go_on(job("refused 1", 3, 2), {0, 2}, "{0, 2}", anew);
}

TEST(NcclSurvivors, LeaveACommunicatorOfTheProgramsToIt) {
    const auto outcome = job("adopted 1", 3);
    expect_go_on(outcome, {0, 2}, "{0, 2}", anew);
    for (auto rank : {0U, 2U}) expect_says(outcome, rank, "still has its own");
}

TEST(NcclBlame, AnExpiredTimeoutSaysWhoIsMissingAndWhatItDoes) {
    const auto outcome = job("missing 1", 3);
    for (auto rank : {0U, 2U}) {
        expect_says(outcome, rank, "arrived ranks {0, 2}, missing rank 1 [dp=1]");
        expect_says(outcome, rank, "rank 1 [dp=1] is in barrier, call number 2 on 'dp' of mesh dp=3, for 0.");
    }
    for (auto code : outcome.exit_codes) EXPECT_EQ(code, 0) << outcome.all();
}

#if RANKMESH_HAS_MPI
TEST(NcclBlame, OverMpiAsWell) {
    const auto outcome =
        support::run("env " RANKMESH_ENVIRONMENT " RANKMESH_ENGINE=mpi timeout -k 5 60 " RANKMESH_MPIRUN
                     " -n 3 " RANKMESH_MPIEXEC_FLAGS " " RANKMESH_NCCL_SURVIVORS_PROGRAM " missing 1");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    for (const std::string rank : {"0", "2"}) {
        const auto said = outcome.output.find("rank " + rank + " waits in vain: ");
        ASSERT_NE(said, std::string::npos) << outcome.output;
        const auto line = outcome.output.substr(said, outcome.output.find('\n', said) - said);
        EXPECT_NE(line.find("arrived ranks {0, 2}, missing rank 1 [dp=1]"), std::string::npos) << line;
        EXPECT_NE(line.find("rank 1 [dp=1] is in barrier, call number 2 on 'dp' of mesh dp=3, for 0."),
                  std::string::npos)
            << line;
    }
}
#endif

TEST(NcclBlame, ARankThatMakesNoWorldOnDevicesIsTheOnlyOneMissing) {
    const auto outcome = job("absent 1", 5);
    for (auto rank : {0U, 2U, 3U, 4U}) expect_says(outcome, rank, "blames {1}\n");
}

TEST(NcclBlame, ARankOnWhichNcclFailsInAJoinIsNamedByAll) {
    const auto before = [](int rank) { return std::string(rank == 1 ? "env FAKE_FAIL=ncclCommSplit" : ""); };
    const auto outcome =
        support::Job({.command = RANKMESH_NCCL_SURVIVORS_PROGRAM " join", .size = 3, .before = before}).end();
    expect_says(outcome, 1, "fails");
    for (auto rank : {0U, 2U}) expect_says(outcome, rank, "blames {1}\n");
}

TEST(NcclSurvivors, OneRankMayBeLeft) { expect_go_on(job("one 0", 2), {1}, "{1}", anew); }

TEST(NcclSurvivors, LetAnotherTakeThePlaceThatIsFreeAndMakeACommunicatorOfAll) {
    const auto folder = support::Folder();
    auto job = support::Job({.command = RANKMESH_NCCL_SURVIVORS_PROGRAM " grow 1",
                             .size = 4,
                             .store = folder.path() + "/store",
                             .variables = {{"FAKE_LEAKS", "1"}}});
    auto late = support::Job({.command = RANKMESH_NCCL_SURVIVORS_PROGRAM " late",
                              .size = 1,
                              .first = 1,
                              .store = folder.path() + "/store",
                              .variables = {{"FAKE_LEAKS", "1"}}});
    const auto outcome = job.end();
    const auto entered = late.end();
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, "of 3, with {0, 2, 3}");
        expect_says(outcome, rank, "is " + std::to_string(rank) + " of 4, with {0..3}");
        EXPECT_EQ(outcome.exit_codes[rank], 0) << outcome.all();
    }
    expect_says(entered, 0, "is 1 of 4, with {0..3}");
    EXPECT_EQ(entered.exit_codes[0], 0) << entered.all();
}

// Where some ranks had the new world and others not, each of them would look for its survivors in its own.
TEST(NcclSurvivors, ARankThatEndsWhileTheWorldShrinksIsNamedToAllInTheNextJoin) {
    const auto outcome = job("shrinking 1", 4);
    for (auto rank : {0U, 3U}) {
        expect_says(outcome, rank, "is in a world of 3\n");
        expect_says(outcome, rank, "blames {1}\n");
    }
    expect_go_on(outcome, {0, 3}, "{0, 3}", anew);
}

TEST(NcclSurvivors, HearOfAProcessThatEndsWhenItHasEnteredInTheNextJoinAllOfThem) {
    const auto folder = support::Folder();
    auto job = support::Job({.command = RANKMESH_NCCL_SURVIVORS_PROGRAM " growing 1",
                             .size = 4,
                             .store = folder.path() + "/store",
                             .variables = {{"FAKE_LEAKS", "1"}}});
    auto late = support::Job({.command = RANKMESH_NCCL_SURVIVORS_PROGRAM " later",
                              .size = 1,
                              .first = 1,
                              .store = folder.path() + "/store"});
    const auto outcome = job.end();
    late.end();
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, "is in a world of 4\n");
        expect_says(outcome, rank, "blames {1}\n");
    }
    expect_go_on(outcome, {0, 2, 3}, "{0, 2, 3}", anew);
}
