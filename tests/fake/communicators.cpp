// SPDX-License-Identifier: Apache-2.0
// How communicators are made, and what the real library answers to calls that are wrong.
#include <array>
#include <cstdlib>
#include <string>
#include <thread>

#include "fake/ranks.hpp"

namespace {

using namespace ranks;

ncclConfig_t nonblocking() {
    auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
    config.blocking = 0;
    return config;
}

/// Asks until the communicator is no longer in progress.
ncclResult_t settled(ncclComm_t communicator) {
    auto state = ncclInProgress;
    while (true) {
        EXPECT_NCCL(ncclCommGetAsyncError(communicator, &state));
        if (state != ncclInProgress) return state;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

int rank_in(ncclComm_t communicator) {
    auto rank = -1;
    EXPECT_NCCL(ncclCommUserRank(communicator, &rank));
    return rank;
}
int size_of(ncclComm_t communicator) {
    auto size = -1;
    EXPECT_NCCL(ncclCommCount(communicator, &size));
    return size;
}

/// The ranks of the world that a communicator has, by asking them.
std::vector<int> members(const Rank& rank, ncclComm_t communicator) {
    const auto mine = Array<int>(1, rank.rank),
               all = Array<int>(static_cast<std::size_t>(size_of(communicator)));
    EXPECT_NCCL(ncclAllGather(*mine, *all, 1, ncclInt32, communicator, rank.stream));
    rank.synchronize();
    return all.values();
}

}  // namespace

TEST(FakeNcclCommunicators, AreSplitByColourAndOrderedByKey) {
    as_threads(5, [](Rank& rank) {
        EXPECT_EQ(size_of(rank.world), 5);
        EXPECT_EQ(rank_in(rank.world), rank.rank);
        auto part = ncclComm_t{};
        EXPECT_NCCL(ncclCommSplit(rank.world, rank.rank % 2, -rank.rank, &part, nullptr));
        EXPECT_EQ(members(rank, part), (rank.rank % 2 == 0 ? std::vector{4, 2, 0} : std::vector{3, 1}));
        auto device = -1;
        EXPECT_NCCL(ncclCommCuDevice(part, &device));
        EXPECT_EQ(device, rank.rank);
        auto part_of_part = ncclComm_t{};
        EXPECT_NCCL(ncclCommSplit(part, 0, 0, &part_of_part, nullptr));  // equal keys: by rank
        EXPECT_EQ(members(rank, part_of_part), members(rank, part));
        EXPECT_NCCL(ncclCommDestroy(part));
        EXPECT_EQ(size_of(part_of_part), rank.rank % 2 == 0 ? 3 : 2);  // and lives on
        EXPECT_NCCL(ncclCommDestroy(part_of_part));
    });
}

TEST(FakeNcclCommunicators, AreNullForRanksWithoutColour) {
    as_threads(3, [](Rank& rank) {
        auto part = rank.world;
        EXPECT_NCCL(ncclCommSplit(rank.world, rank.rank == 1 ? NCCL_SPLIT_NOCOLOR : 7, 0, &part, nullptr));
        EXPECT_EQ(part == nullptr, rank.rank == 1);
        if (part) {
            EXPECT_EQ(members(rank, part), (std::vector{0, 2}));
        }
        EXPECT_NCCL(ncclCommDestroy(part));
    });
}

TEST(FakeNcclCommunicators, AreMadeOfSeveralUniqueIds) {
    auto ids = std::array<ncclUniqueId, 2>{};
    for (auto& each : ids) EXPECT_NCCL(ncclGetUniqueId(&each));
    as_threads(3, [&](Rank& rank) {
        auto own = ids;
        auto other = ncclComm_t{};
        EXPECT_NCCL(ncclCommInitRankScalable(&other, rank.size, rank.rank, 2, own.data(), nullptr));
        EXPECT_EQ(members(rank, other), (std::vector{0, 1, 2}));
        EXPECT_NCCL(ncclCommDestroy(other));
    });
}

TEST(FakeNcclCommunicators, AreMadeByOneThreadInAGroup) {
    auto id = ncclUniqueId{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    auto all = std::array<ncclComm_t, 3>{};
    EXPECT_NCCL(ncclGroupStart());
    for (int rank = 0; rank < 3; ++rank) {
        EXPECT_CUDA(cudaSetDevice(rank));
        EXPECT_NCCL(ncclCommInitRank(&all[static_cast<std::size_t>(rank)], 3, id, rank));
    }
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_NCCL(ncclGroupStart());
    for (const auto each : all) EXPECT_NCCL(ncclCommDestroy(each));
    EXPECT_NCCL(ncclGroupEnd());
}

TEST(FakeNcclCommunicators, AreInProgressWhereTheyDoNotBlock) {
    setenv("FAKE_LAG", "50000", 1);
    auto id = ncclUniqueId{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    as_threads(2, [&](Rank& rank) {
        auto config = nonblocking();
        auto free = ncclComm_t{}, part = ncclComm_t{};
        EXPECT_EQ(ncclCommInitRankConfig(&free, 2, id, rank.rank, &config), ncclInProgress);
        EXPECT_EQ(settled(free), ncclSuccess);
        EXPECT_NCCL(ncclCommSplit(free, 0, 0, &part, nullptr));
        EXPECT_EQ(settled(free), ncclSuccess);
        EXPECT_EQ(settled(part), ncclSuccess);

        const auto one = Array<int>(1, 1);
        EXPECT_EQ(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, part, rank.stream), ncclInProgress);
        const auto on_stream = cudaStreamQuery(rank.stream);
        auto size = 0;
        const auto another_call = ncclCommCount(part, &size);
        auto state = ncclSuccess;
        EXPECT_NCCL(ncclCommGetAsyncError(part, &state));
        if (state == ncclInProgress) {  // else this thread was slow
            EXPECT_CUDA(on_stream);     // there is nothing as yet
            EXPECT_EQ(another_call, ncclInvalidArgument);
        }
        EXPECT_EQ(settled(part), ncclSuccess);
        rank.synchronize();
        EXPECT_EQ(one.values(), std::vector{2});
        EXPECT_EQ(ncclCommFinalize(part), ncclInProgress);
        EXPECT_EQ(settled(part), ncclSuccess);
        EXPECT_NCCL(ncclCommDestroy(part));
        EXPECT_NCCL(ncclCommDestroy(free));
    });
    unsetenv("FAKE_LAG");
}

TEST(FakeNcclCommunicators, ShareNoDevice) {
    auto id = ncclUniqueId{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    as_threads(3, [&](Rank& rank) {
        if (rank.rank == 2) {
            EXPECT_CUDA(cudaSetDevice(0));
        }
        auto other = rank.world;
        EXPECT_EQ(ncclCommInitRank(&other, 3, id, rank.rank), ncclInvalidUsage);
        EXPECT_EQ(other, nullptr);
        EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU detected: ranks 0 and 2"),
                  std::string::npos)
            << ncclGetLastError(nullptr);
        EXPECT_CUDA(cudaSetDevice(rank.rank));
    });
}

TEST(FakeNcclCommunicators, RefuseWrongArguments) {
    as_threads(1, [](Rank& rank) {
        const auto one = Array<int>(1, 5);
        const auto reduce = [&](ncclDataType_t type, ncclRedOp_t reduction, int root,
                                ncclComm_t communicator) {
            return ncclReduce(*one, *one, 1, type, reduction, root, communicator, rank.stream);
        };
        EXPECT_EQ(reduce(ncclInt32, ncclSum, 0, nullptr), ncclInvalidArgument);
        EXPECT_EQ(reduce(ncclNumTypes, ncclSum, 0, rank.world), ncclInvalidArgument);
        EXPECT_EQ(reduce(ncclInt32, ncclNumOps, 0, rank.world), ncclInvalidArgument);
        EXPECT_EQ(reduce(ncclInt32, ncclSum, 1, rank.world), ncclInvalidArgument);
        EXPECT_EQ(reduce(ncclInt32, ncclSum, -1, rank.world), ncclInvalidArgument);
        EXPECT_STREQ(ncclGetLastError(rank.world), "ncclReduce: there is no rank -1 among 1");
        EXPECT_NCCL(reduce(ncclInt32, ncclSum, 0, rank.world));
        rank.synchronize();
        EXPECT_EQ(ncclCommSplit(rank.world, -2, 0, &rank.world, nullptr), ncclInvalidArgument);
        auto config = ncclConfig_t{};
        auto part = ncclComm_t{};
        EXPECT_EQ(ncclCommSplit(rank.world, 0, 0, &part, &config), ncclInvalidArgument);
        config = NCCL_CONFIG_INITIALIZER;
        config.minCTAs = 8;
        for (const auto most : {4, NCCL_CONFIG_UNDEF_INT}) {  // the second is below all
            config.maxCTAs = most;
            EXPECT_EQ(ncclCommSplit(rank.world, 0, 0, &part, &config), ncclInvalidArgument);
        }
        EXPECT_EQ(ncclSend(*one, 1, ncclInt32, 0, rank.world, rank.stream), ncclInvalidUsage);
        EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    });
}

TEST(FakeNcclCommunicators, StartNothingOfAGroupThatHasAnError) {
    as_threads(2, [](Rank& rank) {
        const auto one = Array<int>(1, 1);
        EXPECT_NCCL(ncclGroupStart());
        EXPECT_NCCL(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, rank.world, rank.stream));
        EXPECT_EQ(ncclBroadcast(*one, *one, 1, ncclInt32, 2, rank.world, rank.stream), ncclInvalidArgument);
        EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
        rank.synchronize();
        EXPECT_EQ(one.values(), std::vector{1});
    });
}

TEST(FakeNcclCommunicators, DeferWhatIsInAGroupUntilItsEnd) {
    as_threads(2, [](Rank& rank) {
        const auto one = Array<int>(1, 1), other = Array<int>(1, 1);
        EXPECT_NCCL(ncclGroupStart());
        EXPECT_NCCL(ncclGroupStart());
        EXPECT_NCCL(ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, rank.world, rank.stream));
        EXPECT_NCCL(ncclAllReduce(*other, *other, 1, ncclInt32, ncclMax, rank.world, rank.stream));
        EXPECT_NCCL(ncclGroupEnd());
        EXPECT_CUDA(cudaStreamQuery(rank.stream));
        rank.synchronize();
        EXPECT_EQ(one.values(), std::vector{1});
        EXPECT_NCCL(ncclGroupEnd());
        rank.synchronize();
        EXPECT_EQ(one.values(), std::vector{2});
        EXPECT_EQ(other.values(), std::vector{1});
    });
}

TEST(FakeNcclCommunicators, OrderTheirWorkAcrossStreams) {
    as_threads(2, [](Rank& rank) {
        auto other = cudaStream_t{};
        EXPECT_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        const auto one = Array<int>(1, 1);
        for (int i = 0; i < 10; ++i)
            EXPECT_NCCL(
                ncclAllReduce(*one, *one, 1, ncclInt32, ncclSum, rank.world, i % 2 ? other : rank.stream));
        rank.synchronize();
        EXPECT_CUDA(cudaStreamSynchronize(other));
        EXPECT_EQ(one.values(), std::vector{1 << 10});
        EXPECT_CUDA(cudaStreamDestroy(other));
    });
}

TEST(FakeNcclCommunicators, TakeMemoryOfTheirOwnForWindows) {
    as_threads(2, [](Rank& rank) {
        void* memory = nullptr;
        auto window = ncclWindow_t{};
        EXPECT_NCCL(ncclMemAlloc(&memory, 64));
        EXPECT_EQ(ncclCommWindowRegister(rank.world, static_cast<char*>(memory) + 1, 8, &window, 0),
                  ncclInvalidArgument);
        EXPECT_NCCL(ncclCommWindowRegister(rank.world, memory, 64, &window, NCCL_WIN_COLL_SYMMETRIC));
        EXPECT_NCCL(ncclCommWindowDeregister(rank.world, window));
        EXPECT_EQ(ncclCommWindowDeregister(rank.world, window), ncclInvalidArgument);
        EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
        EXPECT_NCCL(ncclMemFree(memory));
    });
}

TEST(FakeNcclCommunicators, ThatAreNoneCanBeEnded) {
    EXPECT_NCCL(ncclCommFinalize(nullptr));
    EXPECT_NCCL(ncclCommDestroy(nullptr));
    EXPECT_NCCL(ncclCommAbort(nullptr));
    EXPECT_NCCL(ncclCommRevoke(nullptr, NCCL_REVOKE_DEFAULT));
}

TEST(FakeNcclCommunicators, HaveAVersionThatCanBeSet) {
    auto version = 0;
    EXPECT_NCCL(ncclGetVersion(&version));
    EXPECT_EQ(version, NCCL_VERSION_CODE);
    setenv("FAKE_NCCL_VERSION", "21805", 1);
    EXPECT_NCCL(ncclGetVersion(&version));
    EXPECT_EQ(version, 21805);
    unsetenv("FAKE_NCCL_VERSION");
}
