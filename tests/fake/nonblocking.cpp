// SPDX-License-Identifier: Apache-2.0
// Communicators that do not block, as the real library was measured and read: README.md.
#include <atomic>
#include <cstdlib>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "fake/violations.hpp"

namespace {

using namespace ranks;

ncclResult_t state(ncclComm_t communicator) {
    auto now = ncclSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(communicator, &now));
    return now;
}

ncclResult_t settled(ncclComm_t communicator) {
    auto now = ncclInProgress;
    while ((now = state(communicator)) == ncclInProgress)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    return now;
}

/// Ranks with a communicator that does not block beside the one that does.
void as_free_threads(int size, const std::function<void(Rank&, ncclComm_t)>& program) {
    auto id = ncclUniqueId{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    as_threads(size, [&](Rank& rank) {
        auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
        config.blocking = 0;
        auto free = ncclComm_t{};
        EXPECT_EQ(ncclCommInitRankConfig(&free, size, id, rank.rank, &config), ncclInProgress);
        EXPECT_NE(free, nullptr);
        EXPECT_EQ(settled(free), ncclSuccess);
        program(rank, free);
    });
}

void end(ncclComm_t communicator) {
    EXPECT_EQ(ncclCommFinalize(communicator), ncclInProgress);
    EXPECT_EQ(settled(communicator), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(communicator));
}

/// True for as long as two threads need to meet, even on a busy machine.
bool in_time() {
    static const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    return std::chrono::steady_clock::now() < until;
}

/// Makes what jobs do late enough to look at their communicators before.
struct Slow {
    Slow() { setenv("FAKE_LAG", "200000", 1); }
    ~Slow() { unsetenv("FAKE_LAG"); }
};

}  // namespace

TEST(FakeNcclNonblocking, ASplitIsASuccessWhileItsParentIsInProgressAndItHasNoChild) {
    const auto slow = Slow();
    as_free_threads(3, [](Rank& rank, ncclComm_t parent) {
        auto child = parent;
        const auto colour = rank.rank == 2 ? NCCL_SPLIT_NOCOLOR : 0;
        EXPECT_NCCL(ncclCommSplit(parent, colour, 0, &child, nullptr));
        EXPECT_EQ(child, nullptr);
        EXPECT_EQ(state(parent), ncclInProgress);
        EXPECT_EQ(ncclCommSplit(parent, colour, 0, &child, nullptr), ncclInvalidArgument);
        EXPECT_NE(std::string(ncclGetLastError(nullptr))
                      .find("Attempt to use communicator before the previous operation returned ncclSuccess"),
                  std::string::npos);
        EXPECT_EQ(settled(parent), ncclSuccess) << "what was refused has left nothing";
        EXPECT_EQ(child != nullptr, rank.rank < 2);
        if (child) {
            EXPECT_EQ(state(child), ncclSuccess);
            end(child);
        }
        end(parent);
    });
}

TEST(FakeNcclNonblocking, SoIsAShrink) {
    const auto slow = Slow();
    for (const auto flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT})
        as_free_threads(3, [&, done = std::make_shared<std::latch>(3)](Rank& rank, ncclComm_t parent) {
            if (rank.rank < 2) {
                auto child = ncclComm_t{};
                auto without = 2;
                EXPECT_NCCL(ncclCommShrink(parent, &without, 1, &child, nullptr, flags));
                EXPECT_EQ(child, nullptr);
                EXPECT_EQ(state(parent), ncclInProgress);
                EXPECT_EQ(settled(parent), ncclSuccess);
                EXPECT_NE(child, nullptr);
                end(child);
            }
            done->arrive_and_wait();
            EXPECT_NCCL(ncclCommAbort(parent));
        });
}

TEST(FakeNcclNonblocking, ACollectiveBeforeTheEndOfASplitIsAnErrorThatStays) {
    const auto slow = Slow();
    as_free_threads(2, [](Rank& rank, ncclComm_t parent) {
        const auto one = Array<float>(1, 1);
        auto child = ncclComm_t{};
        EXPECT_NCCL(ncclCommSplit(parent, 0, 0, &child, nullptr));
        EXPECT_EQ(sum(one, parent, rank.stream), ncclInvalidArgument);
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        EXPECT_EQ(state(parent), ncclInvalidArgument);
        EXPECT_EQ(child, nullptr);
        EXPECT_EQ(ncclCommDestroy(parent), ncclInvalidArgument);
        EXPECT_NCCL(ncclCommAbort(parent));
    });
}

TEST(FakeNcclNonblocking, SoIsAWrongArgument) {
    as_free_threads(1, [](Rank& rank, ncclComm_t free) {
        const auto one = Array<float>(1, 1);
        EXPECT_EQ(ncclBroadcast(*one, *one, 1, ncclFloat32, 7, free, rank.stream), ncclInvalidArgument);
        EXPECT_EQ(sum(one, free, rank.stream), ncclInvalidArgument);
        EXPECT_NCCL(ncclCommAbort(free));
    });
}

TEST(FakeNcclNonblocking, TheChildIsWrittenAfterAFailureToo) {
    as_free_threads(2, [](Rank& rank, ncclComm_t parent) {
        if (rank.rank == 0) {
            auto child = ncclComm_t{};
            EXPECT_NCCL(ncclCommSplit(parent, 0, 0, &child, nullptr));
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            EXPECT_EQ(child, nullptr);
            EXPECT_NCCL(ncclCommAbort(parent));  // which ends the job
            EXPECT_NE(child, nullptr);
            EXPECT_NCCL(ncclCommAbort(child));
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            EXPECT_NCCL(ncclCommAbort(parent));
        }
    });
    const auto use_the_place = [] {
        auto used = std::latch(1);  // the job cannot end before the other rank has called it
        as_free_threads(2, [&](Rank& rank, ncclComm_t parent) {
            auto place = ncclComm_t{};
            if (rank.rank == 1) used.wait();
            ncclCommSplit(parent, 0, 0, &place, nullptr);
            if (rank.rank == 0) {
                place = reinterpret_cast<ncclComm_t>(16);
                used.count_down();
            }
            settled(parent);
        });
    };
    EXPECT_DEATH(use_the_place(),
                 "the place of the new communicator was used for something else before the job ended");
}

TEST(FakeNcclNonblocking, ARevokedCommunicatorCanBeSplitAndAborted) {
    as_free_threads(2, [](Rank& rank, ncclComm_t free) {
        const auto one = Array<float>(1, 1);
        EXPECT_EQ(ncclCommRevoke(free, NCCL_REVOKE_DEFAULT), ncclInProgress);
        EXPECT_EQ(settled(free), ncclSuccess);
        EXPECT_EQ(sum(one, free, rank.stream), ncclInvalidUsage);
        EXPECT_EQ(state(free), ncclSuccess);
        EXPECT_EQ(ncclCommRevoke(free, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
        auto child = ncclComm_t{};
        EXPECT_NCCL(ncclCommSplit(free, 0, 0, &child, nullptr));
        EXPECT_EQ(settled(free), ncclSuccess);
        end(child);
        EXPECT_EQ(ncclCommFinalize(free), ncclInvalidArgument);
        EXPECT_EQ(ncclCommDestroy(free), ncclInvalidArgument);
        EXPECT_NCCL(ncclCommAbort(free));
    });
}

TEST(FakeNcclNonblocking, SuspendAndResumeAreCollective) {
#ifdef NCCL_SUSPEND_MEM
    const auto slow = Slow();
    as_free_threads(2, [](Rank&, ncclComm_t free) {
        EXPECT_EQ(ncclCommSuspend(free, NCCL_SUSPEND_MEM), ncclInProgress);
        EXPECT_EQ(settled(free), ncclSuccess);
        EXPECT_EQ(ncclCommResume(free), ncclInProgress);
        EXPECT_EQ(settled(free), ncclSuccess);
        end(free);
    });
    EXPECT_DEATH(as_free_threads(2,
                                 [](Rank& rank, ncclComm_t free) {
                                     setenv("FAKE_PATIENCE", "300", 1);
                                     if (rank.rank == 0) ncclCommSuspend(free, NCCL_SUSPEND_MEM);
                                     std::this_thread::sleep_for(std::chrono::seconds(5));
                                 }),
                 "ncclCommSuspend on communicator #[0-9]+: rank 0 waits in vain for rank 1");
#endif
}

TEST(FakeNcclNonblocking, PointersAreCheckedOnlyWhereThatIsAskedFor) {
    setenv("NCCL_CHECK_POINTERS", "1", 1);
    as_threads(1, [](Rank& rank) {
        auto here = 1.0f;
        EXPECT_EQ(ncclAllReduce(&here, &here, 1, ncclFloat32, ncclSum, rank.world, rank.stream),
                  ncclInvalidArgument);
        EXPECT_NCCL(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, rank.world, rank.stream));
    });
    unsetenv("NCCL_CHECK_POINTERS");
}

TEST(FakeNcclNonblocking, TwoThreadsInsideCallsOnOneCommunicatorAreAViolation) {
    EXPECT_DEATH(as_free_threads(1,
                                 [](Rank&, ncclComm_t free) {
                                     auto meet = std::latch(2);
                                     const auto poll = [&] {
                                         meet.arrive_and_wait();
                                         while (in_time()) state(free);
                                     };
                                     auto other = std::thread(poll);
                                     poll();
                                     other.join();
                                 }),
                 "while another thread is inside ncclCommGetAsyncError; hold one lock around every call");
}

TEST(FakeNcclNonblocking, TwoThreadsThatEnqueueOnOneDeviceAreAViolation) {
    EXPECT_DEATH(as_threads(1,
                            [](Rank& rank) {
                                const auto other = split(rank, 0);
                                auto meet = std::latch(2);
                                const auto enqueue = [&](ncclComm_t on) {
                                    const auto one = Array<float>(1, 1);
                                    cudaSetDevice(0);
                                    meet.arrive_and_wait();
                                    while (in_time()) sum(one, on, rank.stream);
                                };
                                auto thread = std::thread([&] { enqueue(other); });
                                enqueue(rank.world);
                                thread.join();
                            }),
                 "ncclAllReduce on device 0 while another thread is inside ncclAllReduce");
}

TEST(FakeNcclNonblocking, ARevokeBeforeTheEndOfAJobIsAViolation) {
    EXPECT_DEATH(as_free_threads(1,
                                 [](Rank&, ncclComm_t free) {
                                     auto child = ncclComm_t{};
                                     ncclCommSplit(free, 0, 0, &child, nullptr);
                                     ncclCommRevoke(free, NCCL_REVOKE_DEFAULT);
                                 }),
                 "ncclCommRevoke of communicator #[0-9]+ with a job that has not ended");
}

TEST(FakeNcclNonblocking, AnAbortWaitsForOtherWorkOfTheDevice) {
    EXPECT_DEATH(
        as_free_threads(2,
                        [](Rank& rank, ncclComm_t free) {
                            const auto one = Array<float>(1, 1);
                            if (rank.rank == 0) {
                                sum(one, rank.world, rank.stream);  // which rank 1 does not call
                                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                setenv("FAKE_PATIENCE", "500", 1);
                                ncclCommAbort(free);
                            }
                            std::this_thread::sleep_for(std::chrono::seconds(5));
                        }),
        "ncclCommAbort of communicator #[0-9]+ waits in vain for work of communicator #[0-9]+ on the "
        "same device");
    auto begun = std::atomic<bool>{false};
    auto aborted = std::atomic<bool>{false};
    auto here = std::latch(2);
    as_free_threads(2, [&](Rank& rank, ncclComm_t free) {
        const auto one = Array<float>(1, 1);
        here.arrive_and_wait();
        if (rank.rank == 0) {
            EXPECT_NCCL(sum(one, rank.world, rank.stream));
            begun = true;
            EXPECT_NCCL(ncclCommAbort(free));
            aborted = true;
        } else {
            EXPECT_NCCL(ncclCommAbort(free));
            while (!begun) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            EXPECT_FALSE(aborted);
            EXPECT_NCCL(sum(one, rank.world, rank.stream));
        }
    });
}
