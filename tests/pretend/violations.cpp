// SPDX-License-Identifier: Apache-2.0
// Each demand of the real library is planted a breach of, which must be seen.
#include <barrier>
#include <cstdlib>
#include <thread>

#include "pretend/ranks.hpp"

namespace {

using namespace ranks;

/// Runs a program on ranks that soon lose patience, once they have met.
void on_impatient_threads(int size, const Program& program) {
    auto all = std::barrier(size, []() noexcept { setenv("PRETEND_PATIENCE", "800", 1); });
    as_threads(size, [&](Rank& rank) {
        all.arrive_and_wait();
        program(rank);
    });
}

/// What a program says that breaks a demand, and one that breaks it by letting others wait.
#define EXPECT_VIOLATION(size, program, sentence) \
    EXPECT_DEATH(as_threads(size, program), "pretend nccl: violation: .*" sentence)
#define EXPECT_WAIT_IN_VAIN(size, program, sentence) \
    EXPECT_DEATH(on_impatient_threads(size, program), "pretend nccl: violation: .*" sentence)

ncclResult_t sum(const Array<float>& array, ncclComm_t communicator, cudaStream_t stream) {
    return ncclAllReduce(*array, *array, array.size(), ncclFloat32, ncclSum, communicator, stream);
}

ncclComm_t split(const Rank& rank, int color, ncclConfig_t* config = nullptr) {
    auto part = ncclComm_t{};
    EXPECT_NCCL(ncclCommSplit(rank.world, color, rank.rank, &part, config));
    return part;
}

void reduce_as(const Rank& rank, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction, int root) {
    const auto array = Array<double>(8);
    ncclReduce(*array, *array, count, type, reduction, root, rank.world, rank.stream);
    rank.synchronize();
}

}  // namespace

TEST(PretendNcclViolations, RanksCallOtherOperations) {
    EXPECT_VIOLATION(
        2,
        [](Rank& rank) {
            const auto array = Array<float>(4);
            rank.rank == 0 ? sum(array, rank.world, rank.stream)
                           : ncclBroadcast(*array, *array, 4, ncclFloat32, 0, rank.world, rank.stream);
            rank.synchronize();
        },
        "collective 0 of communicator #[0-9]+: rank . calls nccl(AllReduce of 4 ncclFloat32 by ncclSum, rank "
        "1 "
        "ncclBroadcast of 4 ncclFloat32 with root 0|Broadcast .*, rank 0 ncclAllReduce)");
}

TEST(PretendNcclViolations, RanksPassOtherArguments) {
    EXPECT_VIOLATION(
        3, [](Rank& rank) { reduce_as(rank, rank.rank == 1 ? 3 : 4, ncclFloat32, ncclSum, 0); },
        "of 3 ncclFloat32");
    EXPECT_VIOLATION(
        3, [](Rank& rank) { reduce_as(rank, 4, rank.rank == 1 ? ncclInt32 : ncclFloat32, ncclSum, 0); },
        "of 4 ncclInt32");
    EXPECT_VIOLATION(
        3, [](Rank& rank) { reduce_as(rank, 4, ncclFloat32, rank.rank == 1 ? ncclMax : ncclSum, 0); },
        "by ncclMax");
    EXPECT_VIOLATION(
        3, [](Rank& rank) { reduce_as(rank, 4, ncclFloat32, ncclSum, rank.rank == 1 ? 2 : 0); },
        "with root 2");
}

TEST(PretendNcclViolations, ARankDoesNotCome) {
    EXPECT_WAIT_IN_VAIN(
        2,
        [](Rank& rank) {
            const auto array = Array<float>(1);
            if (rank.rank == 0) sum(array, rank.world, rank.stream);
            if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(5));
            rank.synchronize();
        },
        "ncclAllReduce of 1 ncclFloat32 by ncclSum on communicator #[0-9]+, rank 0 waits in vain for rank 1");
    EXPECT_VIOLATION(
        2,
        [](Rank& rank) {
            const auto array = Array<float>(1);
            if (rank.rank == 0) sum(array, rank.world, rank.stream);
            if (rank.rank == 0) rank.synchronize();
        },
        "ncclAllReduce .*, rank 0: rank 1 calls ncclCommFinalize or ncclCommDestroy instead");
}

TEST(PretendNcclViolations, MessagesInBothDirectionsAreInNoGroup) {
    EXPECT_WAIT_IN_VAIN(
        2,
        [](Rank& rank) {
            const auto array = Array<float>(1);
            ncclSend(*array, 1, ncclFloat32, 1 - rank.rank, rank.world, rank.stream);
            ncclRecv(*array, 1, ncclFloat32, 1 - rank.rank, rank.world, rank.stream);
            rank.synchronize();
        },
        "sends to it too; messages in both directions belong in one group");
}

TEST(PretendNcclViolations, AMessageIsReceivedAsAnother) {
    EXPECT_VIOLATION(
        2,
        [](Rank& rank) {
            const auto array = Array<float>(2);
            rank.rank == 0 ? ncclSend(*array, 2, ncclFloat32, 1, rank.world, rank.stream)
                           : ncclRecv(*array, 1, ncclFloat32, 0, rank.world, rank.stream);
            rank.synchronize();
        },
        "ncclRecv of 1 ncclFloat32 from rank 0 on communicator .*, rank 1: rank 0 sends 2 ncclFloat32");
}

TEST(PretendNcclViolations, BuffersAreNotMemoryOfTheDevice) {
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            float host[4] = {};
            ncclAllReduce(host, host, 4, ncclFloat32, ncclSum, rank.world, rank.stream);
        },
        "the 16 bytes of sendbuff do not lie in memory of a device");
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            const auto array = Array<float>(4);
            ncclAllReduce(*array, *array + 2, 4, ncclFloat32, ncclSum, rank.world, rank.stream);
        },
        "the 16 bytes of recvbuff do not lie in memory of a device");
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            cudaSetDevice(1);
            const auto array = Array<float>(4);
            cudaSetDevice(0);
            sum(array, rank.world, rank.stream);
        },
        "sendbuff lies in memory of device 1, the communicator is on 0");
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            const auto array = Array<float>(8);
            ncclAllReduce(*array, *array + 2, 4, ncclFloat32, ncclSum, rank.world, rank.stream);
        },
        "the buffers overlap in another way than in place");
}

TEST(PretendNcclViolations, AnotherDeviceIsCurrent) {
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            const auto array = Array<float>(4);
            cudaSetDevice(1);
            sum(array, rank.world, rank.stream);
        },
        "of device 0 while device 1 is current");
    EXPECT_VIOLATION(
        1,
        [](Rank& rank) {
            const auto array = Array<float>(4);
            auto stream = cudaStream_t{};
            cudaSetDevice(1);
            cudaStreamCreate(&stream);
            cudaSetDevice(0);
            sum(array, rank.world, stream);
        },
        "of device 0 on a stream of device 1");
}

TEST(PretendNcclViolations, ACommunicatorIsUsedAfterItsEnd) {
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

TEST(PretendNcclViolations, WorkIsPending) {
    const auto pending = [](const Rank& rank, const Array<float>& array) {
        setenv("PRETEND_LAG", "300000", 1);
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

TEST(PretendNcclViolations, NotAllRanksSplit) {
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
        "ncclCommSplit of communicator #[0-9]+ with colour 0: ranks . and . do not agree on splitShare");
}

TEST(PretendNcclViolations, AGroupHasNoEnd) {
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

TEST(PretendNcclViolations, AUniqueIdIsUsedTwice) {
    EXPECT_VIOLATION(
        1, [](Rank& rank) { ncclCommInitRank(&rank.world, 1, rank.id, 0); },
        "rank 0 is given twice with one unique id, which is good for one communicator");
    EXPECT_VIOLATION(
        1, [](Rank& rank) { ncclCommInitRank(&rank.world, 1, {}, 0); },
        "a unique id that ncclGetUniqueId has not made");
}

TEST(PretendNcclViolations, RanksDoNotAgreeHowManyTheyAre) {
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

TEST(PretendNcclViolations, TwoCommunicatorsAreUsedInTwoOrders) {
    const auto two_orders = [](bool one_stream) {
        return [=](Rank& rank) {
            const auto one = Array<float>(1), other = Array<float>(1);
            const auto part = split(rank, 0);
            auto stream = rank.stream;
            if (!one_stream) cudaStreamCreate(&stream);
            if (rank.rank == 0) sum(one, rank.world, rank.stream);
            sum(other, part, stream);
            if (rank.rank == 1) sum(one, rank.world, rank.stream);
            rank.synchronize();
            cudaStreamSynchronize(stream);
            EXPECT_NCCL(ncclCommDestroy(part));
        };
    };
    as_threads(2, two_orders(false));  // which goes well, by luck
    EXPECT_WAIT_IN_VAIN(2, two_orders(true), "waits in vain");
    setenv("PRETEND_ORDER", "1", 1);
    EXPECT_VIOLATION(
        2, two_orders(false),
        "rank . calls it after . collectives of communicator #[0-9/.]+, rank . after .; different "
        "orders on two communicators can deadlock");
    unsetenv("PRETEND_ORDER");
}

TEST(PretendNcclViolations, ALostRankIsWaitedForWithoutAbort) {
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

TEST(PretendNcclViolations, SomethingIsLeftAtExit) {
    const auto leaving = [](const Program& program, bool destroyed) {
        setenv("PRETEND_LEAKS", "1", 1);
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
