// SPDX-License-Identifier: Apache-2.0
// What ranks see of others that have ended or aborted, and how the remaining ones continue.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <latch>
#include <string>
#include <thread>

#include "fake/ranks.hpp"

namespace {

using namespace ranks;
using namespace std::chrono_literals;

ncclResult_t state(ncclComm_t communicator) {
    auto now = ncclSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(communicator, &now));
    return now;
}

/// Rank 1 goes when the others have begun a sum that waits for it. They see that, and their streams stand
/// still until `freed` has it end.
void lose_rank_1(const Rank& rank, const std::function<void()>& gone, const std::function<void()>& freed) {
    auto other = ncclComm_t{};
    auto aside = cudaStream_t{};
    EXPECT_NCCL(ncclCommSplit(rank.world, 0, 0, &other, nullptr));
    EXPECT_CUDA(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
    const auto one = Array<int>(1, 1), told = Array<int>(1);
    const auto sum = [&] {
        return ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, rank.world, rank.stream);
    };
    if (rank.rank != 1) {
        EXPECT_NCCL(sum());
    }
    EXPECT_NCCL(ncclAllReduce(*told, *told, 1, ncclInt32, ncclSum, other, aside));
    EXPECT_CUDA(cudaStreamSynchronize(aside));
    if (rank.rank == 1) {
        gone();
    } else {
        for (int i = 0; i < 2000 && state(rank.world) == ncclSuccess; ++i) std::this_thread::sleep_for(5ms);
        EXPECT_EQ(state(rank.world), ncclRemoteError);
        std::this_thread::sleep_for(20ms);
        EXPECT_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
        EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
        EXPECT_EQ(sum(), ncclRemoteError);
        freed();
        rank.synchronize();
        EXPECT_NE(one.values(), std::vector{1});  // anything is in what was stopped
    }
    EXPECT_NCCL(ncclCommAbort(other));
    EXPECT_CUDA(cudaStreamDestroy(aside));
}

void one_dies(Rank& rank) {
    lose_rank_1(
        rank, [] { _exit(3); }, [&] { EXPECT_NCCL(ncclCommAbort(rank.world)); });
    _exit(testing::Test::HasFailure() ? 1 : 0);
}

/// The others make a communicator without the rank that died, of one that they have revoked.
void the_others_go_on(Rank& rank) {
    auto fewer = ncclComm_t{};
    auto lost = 1;
    const auto shrink = [&](int flags) {
        return ncclCommShrink(rank.world, &lost, 1, &fewer, nullptr, flags);
    };
    const auto freed = [&] {
        for (const auto flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT})
            EXPECT_EQ(shrink(flags), ncclRemoteError);
        EXPECT_NCCL(ncclCommRevoke(rank.world, NCCL_REVOKE_DEFAULT));
        EXPECT_EQ(state(rank.world), ncclSuccess);
        EXPECT_NCCL(shrink(NCCL_SHRINK_DEFAULT));
    };
    lose_rank_1(
        rank, [] { _exit(3); }, freed);
    const auto mine = Array<int>(1, rank.rank), all = Array<int>(2);
    EXPECT_NCCL(ncclAllGather(*mine, *all, 1, ncclInt32, fewer, rank.stream));
    rank.synchronize();
    EXPECT_EQ(all.values(), (std::vector{0, 2}));
    EXPECT_NCCL(ncclCommDestroy(fewer));
    EXPECT_NCCL(ncclCommAbort(rank.world));
    _exit(testing::Test::HasFailure() ? 1 : 0);
}

/// What was never used has no connections, so nobody sees there that a rank died, and it can be shrunk.
void one_dies_unseen(Rank& rank) {
    auto idle = ncclComm_t{};
    EXPECT_NCCL(ncclCommSplit(rank.world, 0, rank.rank, &idle, nullptr));
    const auto aborted = [&] { EXPECT_NCCL(ncclCommAbort(rank.world)); };
    lose_rank_1(
        rank, [] { _exit(3); }, aborted);
    EXPECT_EQ(state(idle), ncclSuccess);
    auto fewer = ncclComm_t{};
    auto lost = 1;
    EXPECT_NCCL(ncclCommShrink(idle, &lost, 1, &fewer, nullptr, NCCL_SHRINK_ABORT));
    EXPECT_NCCL(ncclCommDestroy(fewer));
    EXPECT_NCCL(ncclCommAbort(idle));
    _exit(testing::Test::HasFailure() ? 1 : 0);
}

/// A rank that is stopped, and so reads nothing, does not delay an abort.
void one_stops(Rank& rank) {
    const auto large = std::size_t{1} << 20;
    const auto pid = Array<int>(1, getpid()), pids = Array<int>(2);
    EXPECT_NCCL(ncclAllGather(*pid, *pids, 1, ncclInt32, rank.world, rank.stream));
    rank.synchronize();
    if (rank.rank == 1) raise(SIGSTOP);
    const auto data = Array<int>(large);
    EXPECT_NCCL(ncclAllReduce(*data, *data, large, ncclInt32, ncclSum, rank.world, rank.stream));
    std::this_thread::sleep_for(100ms);
    EXPECT_NCCL(ncclCommAbort(rank.world));
    rank.synchronize();
    kill(pids.values()[1], SIGKILL);
    _exit(testing::Test::HasFailure() ? 1 : 0);
}

const auto named = {Named("one stops", one_stops), Named("one dies", one_dies),
                    Named("unused", one_dies_unseen), Named("shrink after revoke", the_others_go_on)};

}  // namespace

TEST(FakeNcclFailures, AreSeenByTheOthersWhenARankDies) {
    for (const auto* program : {"one dies", "unused", "shrink after revoke"}) {
        const auto outcome = as_processes(3, program);
        EXPECT_EQ(outcome.exit_codes, (std::vector{0, 3, 0})) << program << "\n"
                                                              << outcome.outputs[0] << outcome.outputs[2];
    }
}

TEST(FakeNcclFailures, DoNotHoldUpAnAbortWhereARankStandsStill) {
    const auto outcome = as_processes(2, "one stops");
    EXPECT_EQ(outcome.exit_codes, (std::vector{0, 128 + SIGKILL})) << outcome.outputs[0];
}

TEST(FakeNcclFailures, AreSeenByTheOthersWhenARankAborts) {
    as_threads(
        3,
        [](Rank& rank) {
            const auto abort = [&] { EXPECT_NCCL(ncclCommAbort(rank.world)); };
            lose_rank_1(rank, abort, abort);
            EXPECT_CUDA(cudaStreamDestroy(rank.stream));
        },
        false);
}

TEST(FakeNcclFailures, AnotherThreadCanAbort) {
    auto begun = std::latch(1);
    as_threads(
        2,
        [&](Rank& rank) {
            const auto one = Array<int>(1, 1);
            if (rank.rank == 0) {
                EXPECT_NCCL(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, rank.world, rank.stream));
                begun.count_down();
            }
            auto watchdog = std::thread([&] {
                begun.wait();
                EXPECT_NCCL(ncclCommAbort(rank.world));
            });
            rank.synchronize();
            watchdog.join();
            EXPECT_CUDA(cudaStreamDestroy(rank.stream));
        },
        false);
}

TEST(FakeNcclFailures, WhatNobodyComesToCanBeAborted) {
    auto id = ncclUniqueId{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
    config.blocking = 0;
    auto alone = ncclComm_t{};
    EXPECT_EQ(ncclCommInitRankConfig(&alone, 2, id, 0, &config), ncclInProgress);
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(state(alone), ncclInProgress);
    EXPECT_NCCL(ncclCommAbort(alone));
}

TEST(FakeNcclFailures, AShrinkIsRefusedThatLeavesNothingOutOrItself) {
    as_threads(2, [](Rank& rank) {
        auto fewer = ncclComm_t{};
        for (const auto flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT}) {
            auto without = rank.rank;
            EXPECT_EQ(ncclCommShrink(rank.world, &without, 1, &fewer, nullptr, flags), ncclInvalidArgument);
            EXPECT_EQ(ncclCommShrink(rank.world, &without, 0, &fewer, nullptr, flags), ncclInvalidArgument);
            EXPECT_EQ(ncclCommShrink(rank.world, nullptr, 1, &fewer, nullptr, flags), ncclInvalidArgument);
        }
        auto other = 1 - rank.rank;
        EXPECT_EQ(ncclCommShrink(rank.world, &other, 1, &fewer, nullptr, 2), ncclInvalidArgument);
    });
}

TEST(FakeNcclFailures, AShrinkIsRefusedWhileAnotherCallIsInProgress) {
    auto refused = std::latch(1);
    as_threads(2, [&](Rank& rank) {
        auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
        config.blocking = 0;
        auto part = ncclComm_t{};
        EXPECT_NCCL(ncclCommSplit(rank.world, 0, rank.rank, &part, &config));
        if (rank.rank == 0) {
            auto half = ncclComm_t{}, fewer = ncclComm_t{};
            auto other = 1;
            EXPECT_NCCL(ncclCommSplit(part, 0, 0, &half, nullptr));
            for (const auto flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT})
                EXPECT_EQ(ncclCommShrink(part, &other, 1, &fewer, nullptr, flags), ncclInvalidArgument);
            refused.count_down();
            EXPECT_NCCL(ncclCommAbort(part));
            EXPECT_NCCL(ncclCommAbort(half));
        } else {
            refused.wait();
            EXPECT_NCCL(ncclCommAbort(part));
        }
    });
}

TEST(FakeNcclFailures, ARevokedCommunicatorIsOnlyGoodForMaking) {
    as_threads(2, [](Rank& rank) {
        EXPECT_NCCL(ncclCommRevoke(rank.world, NCCL_REVOKE_DEFAULT));
        const auto one = Array<int>(1, 1);
        EXPECT_EQ(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, rank.world, rank.stream),
                  ncclInvalidUsage);
        EXPECT_EQ(ncclCommFinalize(rank.world), ncclInvalidArgument);
        EXPECT_EQ(ncclCommRevoke(rank.world, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
        auto again = ncclComm_t{};
        EXPECT_NCCL(ncclCommSplit(rank.world, 0, rank.rank, &again, nullptr));
        EXPECT_NCCL(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, again, rank.stream));
        rank.synchronize();
        EXPECT_EQ(one.values(), std::vector{2});
        EXPECT_NCCL(ncclCommDestroy(again));
    });
}

TEST(FakeNcclFailures, ResourcesThatAreSharedAreAbortedTogether) {
    auto begun = std::latch(1);
    as_threads(
        2,
        [&](Rank& rank) {
            auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
            config.splitShare = 1;
            auto all = ncclComm_t{};
            EXPECT_NCCL(ncclCommSplit(rank.world, 0, rank.rank, &all, &config));
            auto part = ncclComm_t{};
            EXPECT_NCCL(ncclCommSplit(all, 0, rank.rank, &part, nullptr));
            const auto one = Array<int>(1, 1);
            if (rank.rank == 0) {
                EXPECT_NCCL(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, part, rank.stream));
                begun.count_down();
            }
            begun.wait();
            EXPECT_NCCL(ncclCommAbort(all));
            rank.synchronize();
            EXPECT_NCCL(ncclCommAbort(part));
            EXPECT_NCCL(ncclCommDestroy(rank.world));  // which shares nothing: its own splitShare is not set
            EXPECT_CUDA(cudaStreamDestroy(rank.stream));
        },
        false);
}

TEST(FakeNcclFailures, CanBePlanted) {
    as_threads(1, [](Rank& rank) {
        const auto one = Array<int>(1, 1);
        setenv("FAKE_FAIL", "ncclAllReduce", 1);
        EXPECT_EQ(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, rank.world, rank.stream), ncclSystemError);
        EXPECT_STREQ(ncclGetLastError(rank.world), "ncclAllReduce fails, as FAKE_FAIL says");
        unsetenv("FAKE_FAIL");
    });
}
