// SPDX-License-Identifier: Apache-2.0
// How the ranks of a Gloo job learn of failures: each by an exception, soon, with the same reason.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <numeric>
#include <regex>
#include <sstream>

#include "support/fewer.hpp"
#include "support/gloo_job.hpp"
#include "support/listener.hpp"

namespace {

using support::expect_says;
using support::expect_took;
using Outcome = support::JobOutcome;

Outcome job(const std::string& mode, int size = 4, int come = -1, const std::string& store = {},
            const std::map<std::string, std::string>& variables = {}, const std::string& name = "a job") {
    return support::gloo_job(RANKMESH_GLOO_PROGRAM " " + mode, size, come, store, variables, name);
}

/// 0 to `times` - 1: as often does a test start the same job, which races. Each of its processes is slow
/// under a sanitizer.
std::vector<int> turns(int times) {
    auto all = std::vector<int>(static_cast<std::size_t>(times));
    std::iota(all.begin(), all.end(), 0);
    return support::fewer_if_sanitized(all);
}

}  // namespace

TEST(GlooFailures, AWellBehavedProgramEndsWell) {
    const auto outcome = job("well");
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(outcome.exit_codes[rank], 0);
        expect_says(outcome, rank, "ended well");
    }
}

TEST(GlooFailures, AKilledRankIsLostOnEveryCommunicatorThatHeldItAndNowhereElse) {
    const auto outcome = job("kill");
    EXPECT_NE(outcome.exit_codes[1], 0);
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, ", all: PeerLost {1} after ");
        expect_says(
            outcome, rank,
            "rank 1 is gone: its process has ended or cannot be reached; 'dp,tp' of mesh dp=2 tp=2, group "
            "{0..3}, has lost rank 1 [dp=0 tp=1] and cannot be used any more");
        expect_took(outcome, rank, "all", 0, 1000);
        expect_says(outcome, rank, ", all again: PeerLost {1} after ");
    }
    // Its tp group is {0, 1}, its dp group {1, 3}; {2, 3} and {0, 2} go on.
    expect_says(outcome, 0, ", tp: PeerLost {1} after ");
    expect_says(outcome, 0, ", dp: went well");
    expect_says(outcome, 2, ", tp: went well");
    expect_says(outcome, 2, ", dp: went well");
    expect_says(outcome, 3, ", tp: went well");
    expect_says(outcome, 3, ", dp: PeerLost {1} after ");
}

TEST(GlooFailures, ARankAbsentFromAGroupIsMissedByItsMembersOnly) {
    const auto late = job("timeout-group");
    const auto killed = job("kill-group");
    for (auto rank : {0U, 2U}) {
        expect_says(late, rank, ", group: Timeout {1} after ");
        expect_says(late, rank,
                    "expired in making 'three' of mesh dp=2 tp=2, group {2, 1, 0}, on rank " +
                        std::to_string(rank) + ": arrived ranks {2, 0}, missing rank 1 [dp=0 tp=1]");
        expect_says(killed, rank, ", group: PeerLost {1} after ");
        expect_took(killed, rank, "group", 0, 3000);
    }
    for (auto rank : {0U, 2U, 3U})
        for (const auto* outcome : {&late, &killed}) expect_says(*outcome, rank, ", rest: went well");
}

TEST(GlooFailures, ARankThatEndsBecauseOfAnotherNamesItToThoseThatWait) {
    const auto killed = job("kill-chain");
    expect_says(killed, 2, ", dp: PeerLost {1} after ");
    expect_says(killed, 2,
                "ms: rank 1 is gone: its process has ended or cannot be reached; so rank 0 left by an "
                "exception; 'dp' of mesh dp=2 tp=2, group {0, 2}, cannot be used any more");
    expect_says(job("throw-chain"), 2, ", dp: PeerLost {1} after ");
    const auto stopped = job("timeout-chain");
    expect_says(stopped, 2, ", dp: Timeout {1} after ");
    expect_says(stopped, 2, "missing rank 1 [dp=0 tp=1]; so rank 0 left by an exception; ");
    expect_says(killed, 3, ", join: PeerLost {1} after ");
}

TEST(GlooFailures, ARankThatIsKilledWhileNobodyCallsIsLostAtTheNextCall) {
    const auto outcome = job("kill-idle");
    for (auto rank : {0U, 2U, 3U}) expect_says(outcome, rank, ", message: PeerLost {1} after ");
}

TEST(GlooFailures, SurvivorsOfARingEndWellAlsoInCheckedMode) {
    for (const auto* checked : {"0", "1"}) {
        const auto outcome = job("kill-ring", 4, -1, {}, {{"RANKMESH_CHECK", checked}});
        for (auto rank : {0U, 2U, 3U}) {
            EXPECT_EQ(outcome.exit_codes[rank], 0) << checked << '\n' << outcome.outputs[rank];
            expect_says(outcome, rank, ", ring: PeerLost {1} after ");
        }
    }
}

TEST(GlooFailures, ARankOfARingThatIsStoppedIsNamedByAllAlsoInCheckedMode) {
    for (const auto* checked : {"0", "1"})
        for (auto turn = 0; turn < 2; ++turn) {
            const auto outcome = job("timeout-stop-ring", 4, -1, {}, {{"RANKMESH_CHECK", checked}});
            for (auto rank : {0U, 2U, 3U}) {
                EXPECT_EQ(outcome.exit_codes[rank], 0) << checked << '\n' << outcome.outputs[rank];
                // Of messages the first timeout names the sender: the stopped rank, or one that waits for it.
                EXPECT_TRUE(
                    std::regex_search(outcome.outputs[rank], std::regex(", ring: Timeout \\{[12]\\} after ")))
                    << checked << '\n'
                    << outcome.outputs[rank];
            }
            EXPECT_EQ(outcome.exit_codes[1], 0) << checked << '\n' << outcome.outputs[1];
        }
}

TEST(GlooFailures, AKilledRankIsLostAtOnceAlsoWhileItsChildLives) {
    const auto outcome = job("kill-with-child");
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, ", all: PeerLost {1} after ");
        expect_took(outcome, rank, "all", 0, 1000);
    }
}

TEST(GlooFailures, ChildrenOfRanksMakeAWorldOfTheirOwnWhichHasItsTimeouts) {
    const auto outcome = job("child-world");
    for (std::size_t rank = 0; rank < 4; ++rank) {
        expect_says(outcome, rank, "rank " + std::to_string(rank) + ", child's sum: went well");
        if (rank != 1) expect_says(outcome, rank, ", child's barrier: Timeout {1} after ");
        expect_says(outcome, rank, "the child ended with 0");
        expect_says(outcome, rank, "rank " + std::to_string(rank) + ", all: went well");
    }
}

TEST(GlooFailures, AChildThatARankForksIsToldThatItIsNoneAndEnds) {
    const auto outcome = job("child");
    for (const std::string what : {"child", "child's wait"}) {
        expect_says(outcome, 1, ", " + what + ": Error  after ");
        expect_says(outcome, 1,
                    " ms: 'dp,tp' of mesh dp=2 tp=2, group {0..3}, belongs to the process that this one was "
                    "forked off; "
                    "make a world of its own after the fork");
    }
    expect_says(outcome, 1, ", child's join: Error  after ");
    expect_says(outcome, 1,
                " ms: join: this world belongs to the process that this one was forked off, rank 1; make a "
                "world of its "
                "own after the fork");
    expect_says(outcome, 1, "the child ended with 0");
    for (std::size_t rank = 0; rank < 4; ++rank) {
        expect_says(outcome, rank, "rank " + std::to_string(rank) + ", wait: went well");
        expect_says(outcome, rank, "rank " + std::to_string(rank) + ", all: went well");
    }
}

TEST(GlooFailures, AStartedOperationThrowsLostInWait) {
    const auto outcome = job("kill-started");
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, ", wait: PeerLost {1} after ");
        expect_took(outcome, rank, "wait", 0, 1000);
    }
}

TEST(GlooFailures, AnExpiredTimeoutNamesWhoHasNotCome) {
    const auto outcome = job("timeout");
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, ", all: Timeout {1} after ");
        expect_says(
            outcome, rank,
            " in all_reduce of 1000 f32 by sum, call number 2 on 'dp,tp' of mesh dp=2 tp=2, group {0..3}: "
            "arrived ranks {0, 2, 3}, missing rank 1 [dp=0 tp=1]; 'dp,tp' of mesh dp=2 tp=2 cannot be used "
            "any more");
        expect_took(outcome, rank, "all", 950, 10'000);
        expect_says(outcome, rank, ", all again: Timeout {1} after ");
    }
}

TEST(GlooFailures, AnExpiredTimeoutSaysWhatTheMissingRankWasLastSeenDoing) {
    const auto outcome = job("timeout-elsewhere");
    const auto of = [&](std::size_t rank, const std::string& pattern) {
        EXPECT_TRUE(std::regex_search(outcome.outputs[rank], std::regex(pattern))) << outcome.outputs[rank];
    };
    for (auto rank : {0U, 2U, 3U})
        of(rank,
           "all: Timeout \\{1\\} .* cannot be used any more; rank 1 \\[dp=0 tp=1\\] is in barrier, call "
           "number 1 "
           "on 'tp' of mesh dp=2 tp=2, for [0-9.]+ s\n");
    of(0,
       "recv: Timeout \\{2\\} .*; rank 2 \\[dp=1 tp=0\\] is outside any call for [0-9.]+ s, last completed "
       "all_reduce of 1000 f32 by sum, call number 1 on 'dp,tp' of mesh dp=2 tp=2\n");
}

TEST(GlooFailures, AStoppedRankDoesNotAnswerAndIsNotCalledGone) {
    const auto outcome = job("timeout-stopped");
    for (auto rank : {0U, 2U, 3U})
        expect_says(outcome, rank, "; rank 1 [dp=0 tp=1] does not answer: it is stopped, cut off or gone");
    // It goes on once they have ended.
    EXPECT_TRUE(
        std::regex_search(outcome.outputs[1], std::regex(", all: (PeerLost|Timeout) \\{[0-3., ]+\\} after ")))
        << outcome.outputs[1];
}

TEST(GlooFailures, ARankThatHasNoTimeToAnswerAtOnceIsNotCalledMissing) {
    const auto outcome = job("timeout-busy");
    for (auto rank : {0U, 1U, 2U})
        expect_says(outcome, rank, ": arrived ranks {0..2}, missing rank 3 [dp=1 tp=1]; ");
}

TEST(GlooFailures, EveryRankOfAnExpiredTimeoutLeavesItsRecord) {
    const auto folder = support::Folder();
    job("timeout", 4, -1, {}, {{"RANKMESH_RECORD", folder.path()}});
    for (auto rank = 0; rank < 4; ++rank) {
        auto text = std::stringstream{};
        text << std::ifstream(folder.path() + "/rank-" + std::to_string(rank) + ".json").rdbuf();
        const auto wanted = rank == 1
                                ? "\"reason\": \"request\""
                                : "\"reason\": \"timeout\", \"error\": \"the timeout of 1 s expired on rank ";
        EXPECT_NE(text.str().find(wanted), std::string::npos) << text.str();
        EXPECT_NE(text.str().find("\"profiling_name\": \"gloo:all_reduce\""), std::string::npos)
            << text.str();
    }
}

TEST(GlooFailures, AStartedOperationHasTheSameTimeoutInWait) {
    const auto outcome = job("timeout-started");
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, ", wait: Timeout {1} after ");
        expect_took(outcome, rank, "wait", 950, 10'000);
    }
}

TEST(GlooFailures, AMessageThatNobodySendsNamesItsSender) {
    const auto outcome = job("timeout-recv");
    expect_says(
        outcome, 0,
        "the timeout of 1 s expired on rank 0 in recv of 1000 f32 from 1, message number 1 on 'dp,tp' of "
        "mesh dp=2 tp=2, group {0..3}: arrived rank 0, missing rank 1 [dp=0 tp=1]");
    expect_took(outcome, 0, "recv", 950, 10'000);
    for (std::size_t rank = 1; rank < 4; ++rank) expect_says(outcome, rank, ", barrier: Timeout {1} after ");
}

TEST(GlooFailures, InCheckedModeAMessageMeetsTheCollectiveInWhichItsPeerWaits) {
    for (auto turn = 0; turn < 3; ++turn) {
        const auto outcome = job("crossed", 4, -1, {}, {{"RANKMESH_CHECK", "1"}});
        for (std::size_t rank = 0; rank < 4; ++rank) {
            expect_says(outcome, rank, ", all: Disagreement {0} after ");
            expect_says(outcome, rank,
                        "\n  ranks 1 [dp=0 tp=1], 2 [dp=1 tp=0], 3 [dp=1 tp=1]: barrier"
                        "\n  rank 0 [dp=0 tp=0]: recv of 1000 f32 from 1\n");
        }
    }
}

TEST(GlooFailures, ARankThatNeverJoinsIsNamedAtTheTimeout) {
    const auto outcome = job("timeout-join");
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, "the timeout of 1 s expired in join on rank ");
        expect_says(outcome, rank,
                    ": arrived ranks {0, 2, 3}, missing rank 1; in mesh dp=4 that is rank 1 [dp=1]");
        // Soon after the first rank's timeout, which began with its own call.
        expect_took(outcome, rank, "join", 700, 1400);
    }
}

TEST(GlooFailures, ARankThatNeverJoinsIsNamedByAllThoughTheFirstToNoticeLeaves) {
    for (auto turn = 0; turn < 3; ++turn) {
        const auto outcome = job("timeout-absent", 6);
        for (std::size_t rank = 0; rank < 5; ++rank) {
            expect_says(outcome, rank, ", program: Timeout {5} after ");
            expect_says(outcome, rank,
                        ": arrived ranks {0..4}, missing rank 5; in mesh dp=6 that is rank 5 [dp=5]");
        }
    }
}

TEST(GlooFailures, PlansThatDifferAreHeardByAllAlsoIfTheFirstToHearLeaves) {
    for ([[maybe_unused]] auto turn : turns(10)) {
        const auto outcome = job("differ", 6);
        for (std::size_t rank = 0; rank < 6; ++rank) {
            expect_says(outcome, rank, ", program: Disagreement {1} after ");
            expect_says(outcome, rank, "\n  ranks {0, 2..5}: dp=6, over dp\n  rank 1: dp=2 tp=3, ");
        }
    }
}

TEST(GlooFailures, ARankThatIsKilledWhileOthersConnectIsTheOneThatIsLost) {
    for (auto turn : turns(24)) {
        const auto moment = turn * 500;
        const auto outcome = job("kill-in-join", 6, -1, {}, {{"MOMENT", std::to_string(moment)}});
        for (auto rank : {0U, 2U, 3U, 4U, 5U}) {
            // A rank that ends before it has said that it joins is not connected to anybody yet.
            EXPECT_TRUE(std::regex_search(outcome.outputs[rank],
                                          std::regex(", program: (PeerLost|Timeout) \\{1\\} after ")))
                << moment << '\n'
                << outcome.all();
        }
    }
}

TEST(GlooFailures, ARankThatStopsInAJoinIsMissingOnAllRanksEvenNonPeers) {
    for (auto moment = 1000; moment < 7000; moment += 1000) {
        const auto outcome = job("timeout-stop-in-join", 6, -1, {}, {{"MOMENT", std::to_string(moment)}});
        for (auto rank : {0U, 2U, 3U, 4U, 5U})
            EXPECT_TRUE(std::regex_search(outcome.outputs[rank],
                                          std::regex(", program: (went well|Timeout \\{1\\} after )")))
                << moment << '\n'
                << outcome.all();
    }
}

TEST(GlooFailures, ARankThatArrivesInAJoinAndStopsThereIsNamedByAll) {
    const auto outcome = job("timeout-stop-in-step");
    for (std::size_t rank = 1; rank < 4; ++rank) {
        expect_says(outcome, rank, ", program: Timeout {0} after ");
        expect_says(outcome, rank, ": arrived ranks {1..3}, missing rank 0; ");
        expect_says(outcome, rank, "rank 0 arrived and then did not go on: stopped, cut off or gone");
        expect_says(outcome, rank, "in mesh dp=4 that is rank 0 [dp=0]");
    }
}

TEST(GlooFailures, ARankThatEndsInAJoinIsLostToAllLongBeforeTheTimeout) {
    const auto outcome = job("kill-in-step");
    for (std::size_t rank = 1; rank < 4; ++rank) {
        expect_says(outcome, rank, ", program: PeerLost {0} after ");
        expect_says(
            outcome, rank,
            "rank 0 has ended; join cannot be completed on rank " + std::to_string(rank) + "; in mesh");
        expect_says(outcome, rank, "; in mesh dp=4 that is rank 0 [dp=0]");
        expect_took(outcome, rank, "program", 0, 10'000);
    }
}

TEST(GlooFailures, ALongStartIsToldByOneRankBeforeTheTimeout) {
    const auto outcome = job("timeout-told", 4, 3);
    expect_says(outcome, 0, "rankmesh: rank 0 waits for rank 3 in the start of the world, until ");
    for (std::size_t rank = 1; rank < 3; ++rank)
        EXPECT_EQ(outcome.outputs[rank].find(" waits for "), std::string::npos) << outcome.outputs[rank];
}

TEST(GlooFailures, ARankThatNeverStartsIsNamedAtTheTimeout) {
    const auto outcome = job("timeout-never", 4, 3);
    for (std::size_t rank = 0; rank < 3; ++rank)
        expect_says(outcome, rank,
                    "main caught: the timeout of 1 s expired in the start of the world on rank ");
    for (std::size_t rank = 0; rank < 3; ++rank)
        expect_says(outcome, rank, ": arrived ranks {0..2}, missing rank 3");
}

TEST(GlooFailures, OfARankThatAloneCannotStartAllHearWhyAtOnce) {
    for (const auto& [how, why] :
         {std::pair("interface", "no network interface that is up on this host is 'nonsense'"),
          std::pair("descriptors", "no descriptor can be opened here: Too many open files")}) {
        const auto outcome = job(std::string("hindered-") + how);
        expect_says(outcome, 1, ", program: Error  after ");
        expect_says(outcome, 1, why);
        for (auto rank : {0U, 2U, 3U}) {
            expect_says(outcome, rank, ", program: PeerLost {1} after ");
            expect_says(outcome, rank, " ms: rank 1 cannot start its world: ");
            expect_says(outcome, rank, why);
            expect_took(outcome, rank, "program", 0, 10'000);
        }
    }
}

TEST(GlooFailures, ARankThatThrowsIsLostOnAllOthers) {
    for (const auto* mode : {"throw", "throw-pending"}) {
        const auto outcome = job(mode);
        expect_says(outcome, 1, "main caught: boom");
        for (auto rank : {0U, 2U, 3U}) {
            expect_says(outcome, rank, ", all: PeerLost {1} after ");
            expect_says(outcome, rank, "rank 1 left by an exception");
        }
    }
}

TEST(GlooFailures, ARankThatThrowsBeforeAJoinIsLostInIt) {
    const auto outcome = job("throw-before-join");
    for (auto rank : {0U, 2U, 3U}) {
        expect_says(outcome, rank, ", join: PeerLost {1} after ");
        expect_says(outcome, rank,
                    "rank 1 of 4 left its world by an exception; join cannot be completed on rank " +
                        std::to_string(rank) + "; in mesh dp=4 that is rank 1 [dp=1]");
    }
}

TEST(GlooFailures, RanksWhoseCallsDifferAllHearWhoCalledWhat) {
    const auto wrong = std::string("call number 2 on 'dp,tp' of mesh dp=2 tp=2, group {0..3}, ");
    const auto differs = [&](const std::string& most, const std::string& odd) {
        return wrong + "is not the same on all its ranks: " + most +
               " on ranks 0 [dp=0 tp=0], 2 [dp=1 tp=0], 3 [dp=1 tp=1]; " + odd +
               " on rank 1 [dp=0 tp=1]; 'dp,tp' of mesh dp=2 tp=2 cannot be used any more";
    };
    const auto all_reduce = std::string("all_reduce of 1000 f32 by sum");
    const auto broadcast = std::string("broadcast of 1000 f32 from 0");
    const auto message = [](const std::string& received) {
        return "on 'dp,tp' of mesh dp=2 tp=2, group {0..3}, rank 0 [dp=0 tp=0] sends 1000 f32 to rank 1 "
               "[dp=0 "
               "tp=1], which receives " +
               received + ", message number 3 from rank 0 to rank 1; 'dp,tp' of mesh dp=2 tp=2 cannot";
    };
    struct Case {
        std::string mode;
        std::string ranks;
        std::string text;
    };
    const auto cases = std::vector<Case>{
        {"mismatch", "{1}", differs("all_reduce of 100000 f32 by sum", "all_reduce of 200000 f32 by sum")},
        {"differ-operation", "{1}", differs(all_reduce, broadcast)},
        {"differ-type", "{1}", differs(all_reduce, "all_reduce of 1000 i32 by sum")},
        {"differ-reduction", "{1}", differs(all_reduce, "all_reduce of 1000 f32 by max")},
        {"differ-root", "{1}", differs(broadcast, "broadcast of 1000 f32 from 2")},
        {"differ-empty", "{1}", differs(broadcast, "broadcast of 0 f32 from 0")},
        {"differ-started", "{1}", differs(all_reduce, "all_reduce of 1000 i32 by sum")},
        {"differ-swapped", "{1}", differs(all_reduce, broadcast)},
        {"differ-shift", "{1}", differs("shift of 1000 f32 by 1", "shift of 1000 f32 by 2")},
        {"differ-message-longer", "{0, 1}", message("999 f32")},
        {"differ-message-shorter", "{0, 1}", message("1001 f32")},
        {"differ-message-type", "{0, 1}", message("1000 i32")},
    };
    for (const auto& [mode, ranks, text] : cases) {
        SCOPED_TRACE(mode);
        const auto outcome = job(mode);
        // A call is complete on ranks that have the data of those that they named.
        const auto may_end = mode == "differ-root" || mode == "differ-empty" || mode == "differ-shift";
        for (std::size_t rank = 0; rank < 4; ++rank) {
            EXPECT_EQ(outcome.exit_codes[rank], 0);
            if (!may_end) {
                expect_says(outcome, rank, ", all: Disagreement " + ranks);
                expect_took(outcome, rank, "all", 0, 3000);
            }
            expect_says(outcome, rank, text);
            expect_says(outcome, rank, ", all again: Disagreement " + ranks);
        }
    }
}

TEST(GlooFailures, ARankSlowToSayItsCallIsHeardAndASilentOneIsNamed) {
    const auto text_of = [](const std::string& most, const std::string& silent) {
        return "is not the same on all its ranks: all_reduce of 1000 f32 by sum on " + most +
               "; broadcast of 1000 f32 from 0 on rank 1 [dp=0 tp=1]" + silent +
               "; 'dp,tp' of mesh dp=2 tp=2";
    };
    for (auto seconds : {3, 9}) {
        SCOPED_TRACE(seconds);
        const auto outcome = job("differ-and-stop-" + std::to_string(seconds));
        const auto heard = seconds == 3;
        for (auto rank : {0U, 1U, 2U}) {
            expect_says(outcome, rank, ", all: Disagreement {1} after ");
            expect_says(outcome, rank,
                        text_of(heard ? "ranks 0 [dp=0 tp=0], 2 [dp=1 tp=0], 3 [dp=1 tp=1]"
                                      : "ranks 0 [dp=0 tp=0], 2 [dp=1 tp=0]",
                                heard ? "" : "; no answer from rank 3 [dp=1 tp=1]"));
        }
        if (heard) expect_says(outcome, 3, ", all: Disagreement {1} after ");  // else the others have ended
    }
}

TEST(GlooFailures, CountsThatDifferAreSaidOfTheTwoRanks) {
    const auto outcome = job("differ-counts");
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const auto has_all = rank == 0 || rank == 3;
        expect_says(outcome, rank, has_all ? ", all: went well" : ", all: Disagreement {1, 2} after ");
        expect_says(outcome, rank, ", all again: Disagreement {1, 2} after ");
        expect_says(
            outcome, rank,
            "call number 2 on 'dp,tp' of mesh dp=2 tp=2, group {0..3}, is not the same on all its ranks: "
            "all_to_all_v of f32, 250 f32 to rank 2 and 100 from it on rank 1 [dp=0 tp=1]; all_to_all_v of "
            "f32, 250 f32 to rank 1 and 250 from it on rank 2 [dp=1 tp=0]; 'dp,tp' of mesh dp=2 tp=2 cannot");
    }
}

TEST(GlooFailures, AnyRank_WhenNobodySends_TimeoutNamesAllOthers) {
    for (const auto* checked : {"0", "1"}) {
        const auto outcome = job("timeout-any", 4, -1, {}, {{"RANKMESH_CHECK", checked}});
        expect_says(outcome, 0, ", recv: Timeout {1..3} after ");
        expect_says(outcome, 0, " from any rank, message number 1 on ");
        expect_says(outcome, 0, ", start: Timeout {1..3} after ");
        expect_says(outcome, 0, ", probe: Timeout {1..3} after ");
    }
}

TEST(GlooFailures, AnyRank_WhenOneIsKilled_LosesItAtOnce) {
    for (const auto* checked : {"0", "1"}) {
        const auto outcome = job("kill-any", 4, -1, {}, {{"RANKMESH_CHECK", checked}});
        expect_says(outcome, 0, ", recv: PeerLost {1} after ");
        expect_took(outcome, 0, "recv", 0, 1500);
    }
}

TEST(GlooFailures, AnyRank_WhenOthersLeave_WaitsForTheLast) {
    for (const auto* checked : {"0", "1"}) {
        const auto outcome = job("leave-any", 4, -1, {}, {{"RANKMESH_CHECK", checked}});
        expect_says(outcome, 0, ", recv: went well");
        expect_says(outcome, 0, ", start: PeerLost {1..3} after ");
    }
}

TEST(GlooFailures, CallsThatAreTheSameAreNoDisagreementHoweverLateARankIs) {
    const auto outcome = job("differ-late");
    for (std::size_t rank = 0; rank < 4; ++rank) expect_says(outcome, rank, ", all: went well");
}

TEST(GlooFailures, InCheckedModeCallsThatDifferAreHeardByAllAndTheGroupGoesOn) {
    const auto outcome = job("mismatch", 4, -1, {}, {{"RANKMESH_CHECK", "1"}});
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(outcome.exit_codes[rank], 0);
        expect_says(outcome, rank, ", all: Disagreement {1} after ");
        expect_says(
            outcome, rank,
            "call number 2 on 'dp,tp' of mesh dp=2 tp=2, group {0..3}, is not the same on all its ranks; "
            "nothing was sent:\n"
            "  ranks 0 [dp=0 tp=0], 2 [dp=1 tp=0], 3 [dp=1 tp=1]: all_reduce of 100000 f32 by sum\n"
            "  rank 1 [dp=0 tp=1]: all_reduce of 200000 f32 by sum\n");
        expect_says(outcome, rank, ", all again: went well");
    }
}

TEST(GlooFailures, CheckedCallsThatDifferReachAllThoughTheFirstToHearLeaves) {
    for ([[maybe_unused]] auto turn : turns(20)) {
        const auto outcome = job("differ-and-leave", 6, -1, {}, {{"RANKMESH_CHECK", "1"}});
        for (std::size_t rank = 0; rank < 6; ++rank) {
            expect_says(outcome, rank, ", program: Disagreement {1} after ");
            expect_says(outcome, rank, "]: all_reduce of 1 i32 by max\n");
        }
    }
}

TEST(GlooFailures, AProcessThatGlooEndsSaysWhatItWasIn) {
    const auto outcome = job("gloo-throws");
    EXPECT_NE(outcome.exit_codes[1], 0);
    expect_says(outcome, 1,
                "rankmesh: Gloo ends this process on a thread of its own: a test\n"
                "  rank 1 [dp=0 tp=1] was in barrier, call number 2 on 'dp,tp' of mesh dp=2 tp=2, group "
                "{0..3}, for ");
    for (auto rank : {0U, 2U, 3U}) expect_says(outcome, rank, ", all: PeerLost {1} after ");
}

TEST(GlooFailures, InCheckedModeMemoryOfAPendingCallIsRefusedAndTheGroupGoesOn) {
    const auto outcome = job("overlap", 4, -1, {}, {{"RANKMESH_CHECK", "1"}});
    const auto* pending = "a pending all_reduce of 1000 f32 by sum on 'dp,tp' of mesh dp=2 tp=2 writes";
    expect_says(outcome, 1,
                std::string(": all_reduce of 1000 f32 by sum on 'dp,tp' of mesh dp=2 tp=2 would write memory "
                            "that ") +
                    pending);
    expect_says(
        outcome, 1,
        std::string(": send of 1 f32 to 0 on 'tp' of mesh dp=2 tp=2 would read memory that ") + pending);
    for (std::size_t rank = 0; rank < 4; ++rank) expect_says(outcome, rank, ", all again: went well");
}

TEST(GlooFailures, AFolderThatOthersCanWriteIsRefused) {
    const auto folder = support::Folder();
    chmod(folder.path().c_str(), 0777);
    const auto outcome = job("well", 2, -1, folder.path());
    for (std::size_t rank = 0; rank < 2; ++rank)
        expect_says(
            outcome, rank,
            "main caught: the store '" + folder.path() +
                "' can be written by others (mode 0777); chmod 700 it, or name a folder that does not exist "
                "yet");
}

TEST(GlooFailures, AFolderOfAnotherUserIsRefused) {
    const auto folder = support::Folder();
    // Who is no root cannot give a folder away, but knows one of root's.
    const auto root = geteuid() == 0;
    const auto other = root ? folder.path() : std::string("/usr");
    const auto owner = root ? 12345U : 0U;
    ASSERT_EQ(root ? chown(other.c_str(), owner, owner) : 0, 0);
    const auto outcome = job("well", 2, -1, other);
    for (std::size_t rank = 0; rank < 2; ++rank)
        expect_says(outcome, rank,
                    "main caught: the store '" + other + "' belongs to user " + std::to_string(owner) +
                        ", but this process runs as " + std::to_string(geteuid()));
}

TEST(GlooFailures, ALinkInsteadOfAFolderIsRefused) {
    const auto folder = support::Folder();
    const auto link = folder.path() + "/link";
    ASSERT_EQ(symlink("/tmp", link.c_str()), 0);
    expect_says(job("well", 2, -1, link), 0, "main caught: the store '" + link + "' is no folder");
}

TEST(GlooFailures, TheFolderIsMadeForThisUserOnly) {
    const auto folder = support::Folder();
    const auto store = folder.path() + "/new";
    job("well", 2, -1, store);
    struct stat status {};
    ASSERT_EQ(stat(store.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700U);
    ASSERT_EQ(stat((store + "/a%032job").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700U);
}

TEST(GlooFailures, WhatAnEarlierJobLeftIsNeverRead) {
    const auto folder = support::Folder();
    const auto store = folder.path() + "/store";
    EXPECT_EQ(job("well", 2, -1, store).exit_codes, (std::vector{0, 0}));
    const auto again = job("well", 2, -1, store);
    for (std::size_t rank = 0; rank < 2; ++rank)
        expect_says(again, rank,
                    "main caught: rank " + std::to_string(rank) + " of the job 'a job' is in the store '" +
                        store + "' already, of process ");
    expect_says(again, 0, ": two processes have that rank, or an earlier job had that id");
    EXPECT_EQ(job("well", 2, -1, store, {}, "another job").exit_codes, (std::vector{0, 0}));
    // One that was killed leaves its entries as well.
    job("kill", 4, -1, store, {}, "killed");
    EXPECT_EQ(job("well", 4, -1, store, {}, "after it").exit_codes, (std::vector{0, 0, 0, 0}));
}

TEST(GlooFailures, HowTheProcessesMeetIsSaidWhenAskedFor) {
    const auto outcome = job("log", 2);
    expect_says(outcome, 1, "[rank 1] rendezvous: rank 1 (RANK) of 2 (WORLD_SIZE), store '");
    expect_says(outcome, 1, "/store' (RANKMESH_STORE), job 'a job' (RANKMESH_JOB), on 127.0.0.1\n");
}

TEST(GlooFailures, WhatIsMissingToMeetIsSaid) {
    const auto run = [](const std::map<std::string, std::string>& variables) {
        const auto folder = support::Folder();
        const auto output = folder.path() + "/output";
        support::end_of(
            support::start({"/bin/sh", "-c", RANKMESH_GLOO_PROGRAM " > " + output + " 2>&1"}, variables));
        auto text = std::stringstream{};
        text << std::ifstream(output).rdbuf();
        return text.str();
    };
    const auto gloo = std::pair<const std::string, std::string>("RANKMESH_ENGINE", "gloo");
    const auto has = [](const std::string& text, const std::string& part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(run({gloo}),
        "the engine 'gloo' does not know how many processes there are: none of RANKMESH_WORLD_SIZE, ");
    has(run({gloo, {"WORLD_SIZE", "4"}}),
        "does not know which of 4 processes (WORLD_SIZE) this is: none of ");
    has(run({gloo, {"WORLD_SIZE", "4"}, {"RANK", "4"}}),
        "rank 4 (RANK) of a world of 4 (WORLD_SIZE); ranks are 0..3");
    has(run({gloo, {"WORLD_SIZE", "4"}, {"RANK", "1"}}),
        "has no store in which 4 processes (WORLD_SIZE) meet; set MASTER_ADDR and MASTER_PORT to the host of "
        "rank 0 and a port of it, or RANKMESH_STORE to a folder that all of them see, to tcp://HOST:PORT or "
        "to "
        "redis://HOST:PORT, and RANKMESH_JOB to an id of this start");
    has(run({gloo, {"WORLD_SIZE", "4"}, {"RANK", "1"}, {"MASTER_ADDR", "head"}}),
        "4 processes (WORLD_SIZE) meet: MASTER_ADDR is set, and MASTER_PORT is not; set MASTER_ADDR and ");
    for (const auto* port : {"x", "0", "-1"})
        has(run({gloo, {"WORLD_SIZE", "4"}, {"RANK", "1"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", port}}),
            std::string("MASTER_PORT='") + port + "' is not a whole number of 1 or more");
    has(run({gloo, {"WORLD_SIZE", "4"}, {"RANK", "1"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "65536"}}),
        "MASTER_PORT=65536 is no port; set it to a number of 1 to 65535, or unset it");
    has(run({gloo, {"WORLD_SIZE", "4"}, {"RANK", "1"}, {"RANKMESH_STORE", "/nowhere/store"}}),
        "has no job id, so entries of an earlier job in the store '/nowhere/store' could be taken for this "
        "one's; set "
        "RANKMESH_JOB to the same new text for every process");
    has(run({gloo,
             {"WORLD_SIZE", "4"},
             {"RANK", "1"},
             {"RANKMESH_STORE", "/nowhere/store"},
             {"RANKMESH_JOB", std::string(201, 'x')}}),
        "main caught: a job id of 201 characters (RANKMESH_JOB); it must have 1 to 200\n");
    has(run({gloo, {"WORLD_SIZE", "1"}}),
        "main caught: ");  // a mesh of two does not fit, but the world is there
}

TEST(GlooFailures, TooFewDescriptorsEveryRankRefusesBeforeConnecting) {
    const auto folder = support::Folder();
    auto processes = std::vector<pid_t>{};
    for (int rank = 0; rank < 4; ++rank)
        processes.push_back(
            support::start({"/bin/sh", "-c",
                            "ulimit -n 20; exec timeout -k 5 30 " RANKMESH_GLOO_PROGRAM " well > " +
                                folder.path() + "/" + std::to_string(rank) + " 2>&1"},
                           {{"RANKMESH_ENGINE", "gloo"},
                            {"RANKMESH_STORE", folder.path() + "/store"},
                            {"RANKMESH_JOB", "few"},
                            {"WORLD_SIZE", "4"},
                            {"RANK", std::to_string(rank)}}));
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(support::end_of(processes[rank]), 1);
        auto text = std::stringstream{};
        text << std::ifstream(folder.path() + "/" + std::to_string(rank)).rdbuf();
        EXPECT_TRUE(std::regex_search(
            text.str(),
            std::regex("the groups of a rank need 5 connections, most of them 'dp,tp' of mesh dp=2 tp=2 "
                       "with 3; with [0-9]+ other descriptors that is beyond the limit of 20; raise it to "
                       "[0-9]+ \\(ulimit -n\\), or declare fewer or smaller groups")))
            << text.str();
    }
}
