// SPDX-License-Identifier: Apache-2.0
// Each demand of the real library on communicators is planted a breach of, which must be seen.
#include <thread>

#include "fake/violations.hpp"

using namespace ranks;

TEST(FakeNcclViolations, ACommunicatorIsUsedAfterItsEnd) {
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            const auto array = Array<float>(4);
            ncclCommDestroy(rank.world);
            sum(array, rank.world, rank.stream);
        },
        "ncclAllReduce was given a communicator that was destroyed or aborted before");
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            ncclCommAbort(rank.world);
            ncclCommDestroy(rank.world);
        },
        "ncclCommDestroy was given a communicator that was destroyed or aborted before");
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            const auto array = Array<float>(4);
            ncclCommFinalize(rank.world);
            sum(array, rank.world, rank.stream);
        },
        "after ncclCommFinalize");
    EXPECT_VIOLATION(
        1, [](Rank&) { ncclCommAbort(reinterpret_cast<ncclComm_t>(16)); }, "what is no communicator");
}

TEST(FakeNcclViolations, WorkIsPending) {
    const auto pending = [](const Rank& rank, const Array<float>& array) {
        setenv("FAKE_LAG", "300000", 1);
        sum(array, rank.world, rank.stream);
    };
    EXPECT_VIOLATION(
        1,
        [&](Rank& rank) {
            const auto array = Array<float>(4);
            pending(rank, array);
            ncclCommDestroy(rank.world);
        },
        "ncclCommDestroy: operations of communicator #[0-9]+ have not ended");
    EXPECT_VIOLATION(
        1,
        [&](Rank& rank) {
            const auto array = Array<float>(4);
            pending(rank, array);
            split(rank, 0);
        },
        "ncclCommSplit: operations of communicator #[0-9]+ have not ended");
}

TEST(FakeNcclViolations, NotAllRanksSplit) {
    EXPECT_WAIT_IN_VAIN(
        2,
        [](Rank& rank) {
            if (rank.rank == 0) split(rank, 0);
            std::this_thread::sleep_for(std::chrono::seconds(5));
        },
        "ncclCommSplit on communicator #[0-9]+: rank 0 waits in vain for rank 1; all of its ranks must call "
        "it");
    EXPECT_VIOLATION(
        2,
        [](Rank& rank) {
            if (rank.rank == 0) split(rank, 0);
        },
        "rank (0 calls ncclCommSplit, rank 1 ncclCommFinalize|1 calls ncclCommFinalize or ncclCommDestroy, "
        "rank 0)");
    EXPECT_VIOLATION(
        2,
        [](Rank& rank) {
            auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
            config.splitShare = rank.rank;
            split(rank, 0, &config);
        },
        "ncclCommSplit makes communicator #[0-9]+/0.0 with splitShare=., on rank . with splitShare=.; all of "
        "its ranks must configure it alike");
    EXPECT_VIOLATION(
        2,
        [](Rank& rank) {
            auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
            if (rank.rank == 0) config.maxCTAs = 8;
            auto id = rank.id;
            id.internal[100] = 'x';  // another one, of the same making
            ncclCommInitRankConfig(&rank.world, 2, id, rank.rank, &config);
        },
        "ncclCommInitRankConfig makes communicator .* with (maxCTAs=8, on rank 1 with nothing|nothing, on "
        "rank "
        "0 with maxCTAs=8); all");
}

TEST(FakeNcclViolations, ShrinkIsToldWhatIsNotSo) {
    const auto shrink = [](const Rank& rank, std::vector<int> without) {
        auto fewer = ncclComm_t{};
        const auto count = static_cast<int>(without.size());
        ncclCommShrink(rank.world, without.data(), count, &fewer, nullptr, NCCL_SHRINK_DEFAULT);
    };
    EXPECT_VIOLATION(
        4,
        [&](Rank& rank) {
            if (rank.rank < 2) shrink(rank, {2 + rank.rank});
            std::this_thread::sleep_for(std::chrono::seconds(5));
        },
        "rank . calls ncclCommShrink without ., rank . ncclCommShrink without .");
    EXPECT_WAIT_IN_VAIN(
        3,
        [&](Rank& rank) {
            if (rank.rank == 0) shrink(rank, {1});
            std::this_thread::sleep_for(std::chrono::seconds(5));
        },
        "ncclCommShrink without 1 on communicator #[0-9]+: rank 0 waits in vain for rank 2");
    for (const auto& without : {std::vector{1, 1}, std::vector{2}, std::vector{-1}})
        EXPECT_VIOLATION(
            2,
            [&](Rank& rank) {
                if (rank.rank == 0) shrink(rank, without);
                std::this_thread::sleep_for(std::chrono::seconds(5));
            },
            "ncclCommShrink of communicator #[0-9]+: those to exclude are not different ranks of it");
    EXPECT_VIOLATION(
        2,
        [&](Rank& rank) {
            const auto array = Array<float>(4);
            setenv("FAKE_LAG", "300000", 1);
            sum(array, rank.world, rank.stream);
            shrink(rank, {1 - rank.rank});
        },
        "ncclCommShrink: operations of communicator #[0-9]+ have not ended");
}

TEST(FakeNcclViolations, AGroupHasNoEnd) {
    EXPECT_VIOLATION(
        1, [](Rank&) { ncclGroupStart(); }, "a thread has ended after ncclGroupStart without ncclGroupEnd");
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            const auto array = Array<float>(4);
            ncclGroupStart();
            sum(array, rank.world, rank.stream);
            split(rank, 0);
            ncclGroupEnd();
        },
        "a group has both operations and calls that make or end communicators");
}

TEST(FakeNcclViolations, AUniqueIdIsUsedTwice) {
    EXPECT_VIOLATION(
        1, [](Rank& rank) { ncclCommInitRank(&rank.world, 1, rank.id, 0); },
        "rank 0 is given twice with one unique id, which is good for one communicator");
    EXPECT_VIOLATION(
        1, [](Rank& rank) { ncclCommInitRank(&rank.world, 1, {}, 0); },
        "a unique id that ncclGetUniqueId has not made");
}

TEST(FakeNcclViolations, RanksDoNotAgreeHowManyTheyAre) {
    const auto init = [](Rank& rank) {
        auto id = rank.id;
        id.internal[100] = 'x';  // another one, of the same making
        ncclCommInitRank(&rank.world, 2 + rank.rank, id, rank.rank);
    };
    EXPECT_VIOLATION(2, init, "makes a communicator of . ranks, rank . with the same unique id one of .");
    EXPECT_WAIT_IN_VAIN(
        1,
        [](Rank& rank) {
            auto id = rank.id;
            id.internal[100] = 'x';
            ncclCommInitRank(&rank.world, 2, id, 0);
        },
        "ncclCommInitRank waits in vain: one of 1 ranks after rank 0 of 2 did not come");
}

TEST(FakeNcclViolations, ALostRankIsWaitedForWithoutAbort) {
    EXPECT_WAIT_IN_VAIN(
        2,
        [](Rank& rank) {
            const auto one = Array<float>(1);
            const auto other = Array<float>(1);
            const auto part = split(rank, 0);
            auto aside = cudaStream_t{};
            cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
            if (rank.rank == 0) sum(one, rank.world, rank.stream);
            sum(other, part, aside);
            cudaStreamSynchronize(aside);
            if (rank.rank == 1) ncclCommAbort(rank.world);
            std::this_thread::sleep_for(std::chrono::seconds(5));
        },
        "rank 1 of communicator #[0-9]+ has aborted it, and neither ncclCommAbort nor ncclCommRevoke was "
        "called");
}

TEST(FakeNcclViolations, SomethingIsLeftAtExit) {
    const auto leaving = [](const Program& program, bool destroyed) {
        setenv("FAKE_LEAKS", "1", 1);
        as_threads(2, program, destroyed);
        std::exit(0);
    };
    EXPECT_EXIT(leaving([](Rank&) {}, true), testing::ExitedWithCode(0), "");
    EXPECT_DEATH(leaving([](Rank&) {}, false),
                 "2 communicators were neither destroyed nor aborted: #[0-9]+ .rank [01].");
    EXPECT_DEATH(leaving(
                     [](Rank& rank) {
                         void* handle = nullptr;
                         const auto array = Array<float>(1);
                         ncclCommRegister(rank.world, *array, 4, &handle);
                     },
                     true),
                 "communicator #[0-9]+ ends with 1 buffers registered");
    EXPECT_DEATH(leaving(
                     [](Rank& rank) {
                         auto reduction = ncclRedOp_t{};
                         auto factor = 2.0f;
                         ncclRedOpCreatePreMulSum(&reduction, &factor, ncclFloat32, ncclScalarHostImmediate,
                                                  rank.world);
                     },
                     true),
                 "communicator #[0-9]+ ends with a reduction that was not destroyed");
}
