// SPDX-License-Identifier: Apache-2.0
// Gloo under mpirun, whose rendezvous is PMIx: what that costs, and how its processes learn of failures.
#include <gtest/gtest.h>

#include <regex>

#include "support/command.hpp"
#include "support/processes.hpp"

namespace {

const auto own = std::string(RANKMESH_PMIX_PROGRAM " ");
const auto common = std::string(RANKMESH_GLOO_PROGRAM " ");

/// Runs a program on ranks that go on when one of them dies.
support::Outcome job(const std::string& words, int size = 4,
                     const std::string& settings = "RANKMESH_ENGINE=gloo") {
    return support::run("unset RANKMESH_STORE RANKMESH_JOB; export " RANKMESH_ENVIRONMENT " " + settings +
                        "; timeout -k 5 60 " RANKMESH_MPIRUN " --oversubscribe --enable-recovery -n " +
                        std::to_string(size) + " " + words);
}

/// The lines that `pattern` describes, one a rank; `#` in it stands for that.
void expect_says(const support::Outcome& outcome, std::initializer_list<int> ranks,
                 const std::string& pattern) {
    for (auto rank : ranks) {
        const auto own = std::regex_replace(pattern, std::regex("#"), std::to_string(rank));
        EXPECT_TRUE(std::regex_search(outcome.output, std::regex(own))) << own << "\n" << outcome.output;
    }
}

/// The milliseconds that a rank says something took.
int took(const support::Outcome& outcome, int rank, const std::string& what) {
    auto found = std::smatch{};
    const auto pattern =
        std::regex("rank " + std::to_string(rank) + ", " + what + ": [^\n]*after ([0-9]+) ms");
    return std::regex_search(outcome.output, found, pattern) ? std::stoi(found[1]) : -1;
}

}  // namespace

TEST(Pmix, AJoinIsOneFenceHoweverManyMeshesAndGroupsItHas) {
    const auto outcome = job(own + "well");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const auto all = {0, 1, 2, 3};
    expect_says(outcome, all, "rank #, join: 1 fences, 2 entries,");
    expect_says(outcome, all, "rank #, join of other plans: Disagreement \\{1\\},");
    expect_says(outcome, all, "rank #, lazy join: 1 fences, 1 entries,");
    expect_says(outcome, all, "rank #, prepare: 1 fences, 1 entries,");
    expect_says(outcome, all, "rank #, sub: 1 fences, 1 entries,");
    expect_says(outcome, all, "rank #, join of half: 1 fences, 2 entries,");
    expect_says(outcome, all, "rank #, another world: 1 fences, 1 entries,");
    expect_says(outcome, all, "rank #, its join: 1 fences, 2 entries,");
    expect_says(outcome, all, "rank #, join again: 1 fences, 2 entries,");
    EXPECT_EQ(outcome.output.find("PMIX ERROR"), std::string::npos) << outcome.output;
}

TEST(Pmix, ItServesAProcessThatUsesMpiAsWell) {
    const auto outcome = job(own + "after-mpi");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    expect_says(outcome, {0, 1, 2, 3}, "rank #, join: 1 fences, 2 entries,");
}

TEST(Pmix, ARankThatIsKilledBeforeAJoinIsNamedInIt) {
    const auto outcome = job(own + "kill");
    // The servers of Open MPI 4.1 do not always tell: then it is the timeout that names the rank.
    expect_says(
        outcome, {0, 2, 3},
        "rank #, join: (PeerLost \\{1\\}: rank 1 ended, or took part in another world of the same ranks "
        "meanwhile; join cannot be completed on rank #|Timeout \\{1\\}: .*missing rank 1); "
        "in mesh dp=2 tp=2 that is rank 1 .dp=0 tp=1.,");
}

TEST(Pmix, ARankThatThrowsBeforeAJoinIsLostInIt) {
    expect_says(job(common + "throw-before-join"), {0, 2, 3},
                "rank #, join: PeerLost \\{1\\} after [0-9]+ ms: rank 1 of 4 left its world by an exception; "
                "join cannot be completed on rank #");
}

TEST(Pmix, AProcessMakesSeveralWorldsAtOnceAndOneAfterTheOther) {
    const auto outcome = job(common + "worlds");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    expect_says(outcome, {0, 1, 2, 3}, "rank #, at once: went well");
    EXPECT_EQ(outcome.output.find(" ms: "), std::string::npos) << outcome.output;
    expect_says(
        job(common + "timeout-worlds"), {0, 2, 3},
        "rank #, one more: (Timeout|PeerLost) \\{1\\} after .* the start of world 3 of this process ");
}

TEST(Pmix, ARankThatNeverJoinsIsNamedAtTheTimeout) {
    const auto outcome = job(common + "timeout-join");
    expect_says(
        outcome, {0, 2, 3},
        "rank #, join: Timeout \\{1\\} after [12][0-9][0-9][0-9] ms: the timeout of 1 s expired in join on "
        "rank #: arrived ranks \\{0, 2, 3\\}, missing rank 1");
}

TEST(Pmix, ARankThatDoesNotPrepareALazyMeshIsNamedAtTheTimeout) {
    const auto outcome = job(own + "timeout-prepare");
    expect_says(
        outcome, {0},
        "rank 0, prepare: Timeout \\{1\\}: the timeout of 1 s expired in join, connecting 'tp' of mesh dp=2 "
        "tp=2 on rank 0: arrived rank 0, missing rank 1 .dp=0 tp=1.,");
    EXPECT_GE(took(outcome, 0, "prepare"), 1000);
    EXPECT_LE(took(outcome, 0, "prepare"), 1900);
    expect_says(outcome, {2, 3}, "rank #, prepare: 1 fences, 1 entries,");
}

TEST(Pmix, ARankThatComesAfterTheTimeoutDoesNotMixUpTheNextJoin) {
    const auto outcome = job(own + "timeout-late");
    expect_says(outcome, {0, 2, 3}, "rank #, first: Timeout \\{1\\}: ");
    expect_says(outcome, {1}, "rank 1, first: 1 fences, 1 entries,");
    expect_says(outcome, {0, 1, 2, 3}, "rank #, second: 1 fences, 1 entries,");
}

TEST(Pmix, HowTheProcessesMeetIsSaidWhenAskedFor) {
    expect_says(job(common + "log", 2), {0, 1},
                "\\[rank #\\] rendezvous: rank # of 2 by PMIx, namespace '[^']+', on 127.0.0.1\n");
}

TEST(Pmix, WhereItIsAskedForAndCannotServeThatIsSaid) {
    const auto run = [](const std::string& settings) {
        return support::run("export " RANKMESH_ENVIRONMENT " RANKMESH_ENGINE=gloo RANKMESH_STORE=pmix " +
                            settings + "; timeout 30 " + common + "well");
    };
    EXPECT_EQ(run("WORLD_SIZE=2 RANK=0").output,
              "main caught: the engine 'gloo' is to find its peers by PMIx (RANKMESH_STORE=pmix), but no "
              "PMIx server has "
              "started this process; start under mpirun of Open MPI or srun --mpi=pmix\n");
    // The environment of a launcher that has ended.
    EXPECT_EQ(run("PMIX_NAMESPACE=17 PMIX_RANK=0 PMIX_SERVER_TMPDIR=/nowhere").output,
              "main caught: the engine 'gloo' is to find its peers by PMIx (RANKMESH_STORE=pmix), but the "
              "PMIx server "
              "of '17', "
              "which started this process, does not answer; start under mpirun of Open MPI or srun "
              "--mpi=pmix\n");
    EXPECT_EQ(run("PMIX_NAMESPACE=17 PMIX_RANK=0").output,
              run("PMIX_NAMESPACE=17 PMIX_SERVER_TMPDIR=/nowhere").output);
}

TEST(Pmix, AFolderThatIsNamedServesInstead) {
    const auto folder = support::Folder();
    expect_says(
        job(common + "log", 2, "RANKMESH_ENGINE=gloo RANKMESH_STORE=" + folder.path() + "/store"), {0, 1},
        "\\[rank #\\] rendezvous: rank # \\(OMPI_COMM_WORLD_RANK\\) of 2 \\(OMPI_COMM_WORLD_SIZE\\), store ");
}
