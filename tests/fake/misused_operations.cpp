// SPDX-License-Identifier: Apache-2.0
// Each demand of the real library on operations is planted a breach of, which must be seen.
#include <thread>

#include "fake/violations.hpp"

using namespace ranks;

namespace {

void reduce_as(const Rank& rank, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction, int root) {
    const auto array = Array<double>(8);
    ncclReduce(*array, *array, count, type, reduction, root, rank.world, rank.stream);
    rank.synchronize();
}

}  // namespace

TEST(FakeNcclViolations, RanksCallOtherOperations) {
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

TEST(FakeNcclViolations, RanksPassOtherArguments) {
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

TEST(FakeNcclViolations, ARankDoesNotCome) {
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

TEST(FakeNcclViolations, MessagesInBothDirectionsAreInNoGroup) {
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

TEST(FakeNcclViolations, AMessageIsReceivedAsAnother) {
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

TEST(FakeNcclViolations, BuffersAreNotMemoryOfTheDevice) {
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

TEST(FakeNcclViolations, AnotherDeviceIsCurrent) {
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

TEST(FakeNcclViolations, TwoCommunicatorsAreUsedInTwoOrders) {
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
    setenv("FAKE_ORDER", "1", 1);
    EXPECT_VIOLATION(
        2, two_orders(false),
        "rank . calls it after . collectives of communicator #[0-9/.]+, rank . after .; different "
        "orders on two communicators can deadlock");
    unsetenv("FAKE_ORDER");
}

TEST(FakeNcclViolations, MemoryWaitsForKernelsOfPeersInTheProcess) {
    const auto late = [](Rank& rank) {
        if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const auto one = Array<float>(1, 1);
        EXPECT_NCCL(sum(one, rank.world, rank.stream));
        rank.synchronize();
    };
    as_threads(2, late);
    setenv("FAKE_PEERS", "1", 1);
    EXPECT_DEATH(
        on_impatient_threads(2, late),
        "fake cuda: violation: cudaMalloc on device 1 waits in vain for a kernel of its peer, device 0");
    unsetenv("FAKE_PEERS");
}
