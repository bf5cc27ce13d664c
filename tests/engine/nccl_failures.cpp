// SPDX-License-Identifier: Apache-2.0
// What becomes of ranks on NCCL when a library, a device or a peer is missing.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <latch>
#include <optional>
#include <thread>

#include "nccl_ranks.hpp"
#include "support/command.hpp"
#include "support/device_array.hpp"
#include "support/processes.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using detail::cat;
using support::DeviceArray;
using support::DeviceStream;

namespace {

/// The error of a program that makes a world on devices with the libraries in `folder`.
std::string heard(const std::string& folder, const std::string& variables = "") {
    return support::run(variables + " LD_LIBRARY_PATH=" + folder + " " RANKMESH_NCCL_PROGRAM).output;
}

/// Checked mode would wait for all members in each call.
const auto unchecked = WorldOptions{.timeout = 20s, .checked = false};

}  // namespace

TEST(NcclFailures, WhatIsMissingIsSaidInASentence) {
    const auto fake = std::string(RANKMESH_FAKE_NCCL);
    EXPECT_EQ(heard(fake), "device 0\n");
    EXPECT_EQ(heard(fake, "FAKE_NCCL_VERSION=22703"),
              "libnccl.so.2 is NCCL 2.27.3; 2.28.0 or later is needed\n");
    EXPECT_EQ(heard(fake, "FAKE_DRIVER=0"),
              "no NVIDIA driver, or one too old for this CUDA runtime, which reports: CUDA driver version is "
              "insufficient for CUDA runtime version\n");
    EXPECT_EQ(heard(fake, "FAKE_DEVICES=0"),
              "no NVIDIA GPU that this process can use; see nvidia-smi and CUDA_VISIBLE_DEVICES\n");
    // One that cannot be loaded stands before any that this machine may have.
    const auto folder = support::Folder();
    std::ofstream(folder.path() + "/libnccl.so.2") << "no library";
    const auto text = std::string(
        "libnccl.so.2 not found; install NCCL 2.28 or later, or put its folder into LD_LIBRARY_PATH (");
    EXPECT_EQ(heard(folder.path()).substr(0, text.size()), text);
}

TEST(NcclFailures, ADeviceThatIsNotThereIsAUsageErrorOnEveryRank) {
    setenv("FAKE_DEVICES", "4", 1);
    auto count = std::atomic<int>{0};
    threads::run(4, [&](World& host) {
        const auto device = host.rank() == 3 ? std::optional(5) : std::nullopt;
        EXPECT_EQ(text_of<UsageError>([&] { nccl::World(host, {.device = device}); }),
                  "rank 3 asks for device 5; this host has 4");
        ++count;
    });
    EXPECT_EQ(count, 4);
    EXPECT_EQ(
        text_of<UsageError>([] { on_devices(5, [](nccl::World&) {}); }),
        "rank 4 would take device 4; this host has 4, and its local rank says which: start fewer ranks, or "
        "name devices");
    unsetenv("FAKE_DEVICES");
}

TEST(NcclFailures, TwoRanksOnOneDeviceAreNamedBeforeNcclRefusesThem) {
    auto count = std::atomic<int>{0};
    threads::run(3, [&](World& host) {
        EXPECT_EQ(
            text_of<UsageError>([&] { nccl::World(host, {.device = host.rank() == 1 ? 5 : 3}); }),
            "ranks 0 and 2 have the same GPU, 0000:03:00.0 of one host, but NCCL needs a GPU of its own for "
            "each rank; start fewer ranks on that host, or make other GPUs visible to them "
            "(CUDA_VISIBLE_DEVICES)");
        ++count;
    });
    EXPECT_EQ(count, 3);
}

TEST(NcclFailures, ThreadsOnOneDevice_WhenNcclAllowsThem_AreRefused) {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    threads::run(2, [](World& host) {
        EXPECT_EQ(
            text_of<UsageError>([&] { nccl::World(host, {.device = 3}); }),
            "ranks 0 and 1 have the same GPU, 0000:03:00.0, and are threads of one process, whose calls on "
            "one GPU would wait for each other; start a process for each rank");
    });
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST(NcclFailures, ATimeoutInSynchronizeIsThrownThereAndByEveryLaterCall) {
    const auto program = [](nccl::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = DeviceArray<float>(1, 1.0f);
        on.start().all_reduce(*x).synchronize();
        if (world.rank() == 0) {
            auto pending = on.within(200ms).start().all_reduce(*x);
            const auto text = std::string(
                "the timeout of 200 ms expired on rank 0 in all_reduce of 1 f32 by sum, call number 2 on "
                "'dp' of "
                "mesh dp=2, group {0, 1}: arrived rank 0, missing rank 1 [dp=1]; 'dp' of mesh dp=2 cannot be "
                "used "
                "any "
                "more; rank 1 [dp=1] is in barrier, call number 1 on 'dp' of mesh dp=2, for 0.");
            const auto said = text_of<Timeout>([&] { pending.synchronize(); });
            EXPECT_EQ(said.substr(0, text.size()), text);
            EXPECT_TRUE(pending.done());
            EXPECT_EQ(text_of<Timeout>([&] { on.all_reduce(*x); }), said);
        }
        on.host().barrier();  // its host's is another
    };
    on_devices(2, program, unchecked);
}

TEST(NcclFailures, ATimeoutOfACallThatDoesNotBlockIsThrownByALaterOne) {
    const auto program = [](nccl::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = DeviceArray<float>(1, 1.0f);
        on.start().all_reduce(*x).synchronize();
        if (world.rank() == 0) {
            on.within(100ms).all_reduce(*x);
            support::check(cudaStreamSynchronize(nullptr));  // which ends, since the call is ended
            EXPECT_THROW(on.all_reduce(*x), Timeout);
        }
        on.host().barrier();
    };
    on_devices(2, program, unchecked);
}

TEST(NcclFailures, InCheckedModeTheCallItselfThrowsWhoIsMissing) {
    const auto program = [](nccl::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = DeviceArray<float>(1, 1.0f);
        if (world.rank() == 0) {
            EXPECT_EQ(
                without_seen(text_of<Timeout>([&] { on.within(100ms).all_reduce(*x); })),
                "the timeout of 100 ms expired on rank 0 in all_reduce of 1 f32 by sum, call number 1 on "
                "'dp' of mesh dp=2, group {0, 1}: arrived rank 0, missing rank 1 [dp=1]; 'dp' of mesh dp=2 "
                "cannot be used any more");
        }
        on.host().barrier();
    };
    on_devices(2, program, {.timeout = 20s, .checked = true});
}

TEST(NcclFailures, DroppingACommunicatorAfterATimeoutIsNamedByThoseThatWait) {
    const auto program = [](nccl::World& world) {
        auto me = std::make_optional(world.join({{"dp", rest}}));
        auto on = std::make_optional(me->on("dp"));
        auto host = on->host();
        const auto x = DeviceArray<float>(1, 1.0f);
        on->start().all_reduce(*x).synchronize();
        host.barrier();
        if (world.rank() == 0) {
            EXPECT_THROW(on->within(200ms).start().all_reduce(*x).synchronize(), Timeout);
            on.reset();
            me.reset();
        }
        if (world.rank() == 1) {
            try {
                on->start().all_reduce(*x).synchronize();
                ADD_FAILURE();
            } catch (const PeerLost& error) {
                EXPECT_EQ(error.ranks, std::vector{0});
                const auto text =
                    std::string("; ended by rank 0 [dp=0]; 'dp' of mesh dp=3, group {0..2}, has lost");
                EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
            }
        }
        host.barrier();
    };
    on_devices(3, program, unchecked);
}

TEST(NcclFailures, InCheckedModeAnExpiredTimeoutKnowsWhoHasCalled) {
    auto gate = std::latch(1);
    const auto program = [&](nccl::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = DeviceArray<float>(1, 1.0f);
        const auto stream = DeviceStream();
        on.start().all_reduce(*x).synchronize();
        if (world.rank() == 1) {  // it calls, but its device does not come to it
            stream.wait(gate);
            on.on(stream.stream()).all_reduce(*x);
        } else {
            const auto said =
                text_of<Timeout>([&] { on.within(200ms).start().all_reduce(*x).synchronize(); });
            EXPECT_NE(said.find(": all of {0, 1} have arrived, but the call is not complete"),
                      std::string::npos)
                << said;
            gate.count_down();
        }
        on.host().barrier();
    };
    on_devices(2, program, {.timeout = 20s, .checked = true});
}

TEST(NcclFailures, ACallThatConnectsEndsAtTheTimeoutOfTheWorld) {
    setenv("FAKE_CONNECT", "1", 1);
    on_devices(2,
               [](nccl::World& world) {
                   auto on = world.join({{"dp", rest}}).on("dp");
                   const auto x = DeviceArray<float>(1, 1.0f);
                   if (world.rank() == 0) {
                       EXPECT_EQ(
                           without_seen(text_of<Timeout>([&] { on.all_reduce(*x); })),
                           "the timeout of 1 s expired on rank 0 in all_reduce of 1 f32 by sum, call "
                           "number 1 on 'dp' of mesh dp=2, group {0, 1}: arrived rank 0, missing rank 1 "
                           "[dp=1]; 'dp' of mesh dp=2 cannot be used any more");
                   }
                   on.host().within(10s).barrier();
               },
               {.timeout = 1s});
    unsetenv("FAKE_CONNECT");
}

TEST(NcclFailures, APendingLeftByAnExceptionFreesItsBuffersAndTellsItsPeers) {
    auto lost = std::atomic<int>{0};
    auto left = std::atomic<bool>{false};
    const auto program = [&](nccl::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = DeviceArray<float>(1000, 1.0f);
        on.start().all_reduce(*x).synchronize();
        on.host().barrier();
        if (world.rank() == 0) {
            EXPECT_THROW(
                {
                    const auto pending = on.start().all_reduce(*x);
                    throw std::runtime_error("boom");
                },
                std::runtime_error);
            left = true;
            EXPECT_THROW(on.all_reduce(*x), PeerLost);
        } else {
            // Else it may be complete before it is left.
            while (world.rank() == 2 && !left) std::this_thread::yield();
            try {
                on.start().all_reduce(*x).synchronize();  // what rank 0 had sent may be enough for it
                on.start().all_reduce(*x).synchronize();
            } catch (const PeerLost& error) {
                EXPECT_EQ(error.ranks, std::vector{0});
                ++lost;
            }
        }
    };
    on_devices(4, program, unchecked);
    EXPECT_EQ(lost, 3);
}

TEST(NcclFailures, ARankThatLeavesBecauseOfAnotherNamesItUntilItsNextCall) {
    for (const auto goes_on : {false, true}) {
        auto lost = std::vector<int>{};
        auto called = std::latch(4);
        const auto program = [&](nccl::World& world) {
            auto me = world.join({{"dp", 2}, {"tp", 2}});
            const auto x = DeviceArray<float>(1, 1.0f);
            const auto call = [&](Member& of, const char* axis) {
                of.on(axis).start().all_reduce(*x).synchronize();
            };
            call(me, "dp");
            call(me, "tp");
            called.arrive_and_wait();  // the device of a peer may need rank 3 until then
            // Of its member only: a world that is left fails all groups of threads at once.
            const auto leave = [&](auto&& because) {
                auto left = std::move(me);
                because(left);
                throw std::runtime_error("boom");
            };
            if (world.rank() == 3) {
                EXPECT_THROW(leave([](Member&) {}), std::runtime_error);
            } else if (world.rank() == 2 && goes_on) {
                EXPECT_THROW(leave([&](Member& left) {
                                 EXPECT_THROW(call(left, "tp"), PeerLost);
                                 call(left, "dp");
                             }),
                             std::runtime_error);
            } else if (world.rank() == 2) {
                EXPECT_THROW(leave([&](Member& left) { call(left, "tp"); }), PeerLost);
            } else if (world.rank() == 0) {
                try {
                    if (goes_on) call(me, "dp");
                    call(me, "dp");
                } catch (const PeerLost& error) {
                    lost = error.ranks;
                }
            }
        };
        on_devices(4, program, unchecked);
        EXPECT_EQ(lost, std::vector{goes_on ? 2 : 3});
    }
}

TEST(NcclFailures, WhereverARankThrowsNobodyHangs) {
    for (int victim = 0; victim < 2; ++victim)
        for (int step = 0; step < 5; ++step) {
            SCOPED_TRACE(cat("rank ", victim, " throws at step ", step));
            const auto program = [&](nccl::World& world) {
                const auto x = DeviceArray<float>(100, 1.0f);  // outlives what its streams do
                const auto at = [&](int now) {
                    if (world.rank() == victim && step == now) throw std::runtime_error("boom");
                };
                at(0);
                auto me = world.join({{"dp", 2}, {"tp", rest}});
                at(1);
                me.on("dp").all_reduce(*x);
                auto pending = me.on("dp").start().all_reduce(*x);
                at(2);
                pending.wait();
                at(3);
                me.on("dp").start().barrier().synchronize();
                at(4);
                me.on("tp").all_reduce(*x);
                me.on("dp").start().barrier().synchronize();
            };
            EXPECT_EQ(text_of<std::runtime_error>([&] { on_devices(2, program, {.timeout = 5s}); }), "boom");
        }
}

TEST(NcclFailures, EveryOrderOfDestructionIsWellWithCallsUnderWay) {
    for (int order = 0; order < 4; ++order)
        on_devices(2, [&](nccl::World& world) {
            const auto x = DeviceArray<float>(1, 1.0f);
            const auto stream = DeviceStream();
            {
                auto me = std::make_unique<Member>(
                    world.join({{"dp", rest}}, {.over = {Axes("dp").separate("own")}}));
                auto on = std::make_unique<Communicator>(me->on("dp").on(stream.stream()));
                auto own = std::make_unique<Communicator>(me->on("own").on(stream.stream()));
                on->all_reduce(*x);
                own->all_reduce(*x);
                me.reset();
                // Ranks need not agree on the order.
                if ((order + world.rank()) % 2 == 0) on.reset();
                if (order < 2) own.reset();
            }
            stream.synchronize();
            EXPECT_EQ(x.values(), std::vector<float>{4});
        });
}
