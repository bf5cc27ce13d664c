// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/nccl.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <mutex>
#include <numeric>
#include <thread>

#include <rankmesh/engine/nccl_array.hpp>
#include <rankmesh/interop/nccl.hpp>

#include "device_operations.hpp"
#include "engine/nccl/engine.hpp"
#include "fake/seen.hpp"
#include "nccl_ranks.hpp"
#include "support/device_array.hpp"

using namespace rankmesh;
using device_operations::length;
using device_operations::numbers;
using device_operations::operations;
using support::DeviceArray;
using support::DeviceStream;

TEST(Nccl, EveryOperationGivesOnTheDeviceWhatItGivesOnTheHost) {
    for (auto size : {1, 2, 4})
        on_devices(size, [](nccl::World& world) {
            const auto stream = DeviceStream();
            auto on = world.join({{"dp", rest}}).on("dp");
            auto host = on.host();
            for (const auto& operation : operations())
                for (const auto which : {Stream{}, stream.stream()}) {
                    SCOPED_TRACE(detail::cat(operation.name, " on ", world.size(), " ranks"));
                    auto in = numbers(world.rank(), 0);
                    auto out = numbers(world.rank(), 100);
                    const auto there_in = DeviceArray<float>(in);
                    const auto there_out = DeviceArray<float>(out);
                    auto device = on.on(which);
                    operation.run(device, {*there_in, *there_out});
                    operation.run(host,
                                  {{in.data(), length, Space::host}, {out.data(), length, Space::host}});
                    support::check(cudaStreamSynchronize(static_cast<cudaStream_t>(which.handle)));
                    EXPECT_EQ(there_in.values(), in);
                    EXPECT_EQ(there_out.values(), out);
                }
        });
}

TEST(Nccl, TheExampleOfTheDocumentsTakesAMean) {
    threads::run(2, [](World& host) {
        support::check(cudaSetDevice(host.rank()));
        const auto of_the_program = DeviceStream();
        const auto stream = of_the_program.stream();
        const auto held = DeviceArray<float>(3, static_cast<float>(host.rank()));
        auto* grads = (*held).data();
        const auto count = std::size_t{3};
        auto world = nccl::World(host);
        auto dp = world.join({{"dp", rest}}).on("dp").on(stream);
        dp.all_reduce(Memory(grads, count), mean);  // on the stream, like all that it gets after this
        of_the_program.synchronize();
        EXPECT_EQ(held.values(), std::vector<float>(3, 0.5f));
    });
}

TEST(Nccl, ACallComesAfterWhatItsStreamHoldsAndBeforeWhatItGetsLater) {
    for (auto size : {1, 2, 4})
        on_devices(size, [](nccl::World& world) {
            const auto stream = DeviceStream();
            auto gate = std::latch(1);
            auto on = world.join({{"dp", rest}}).on("dp").on(stream.stream());
            auto x = DeviceArray<float>(3);
            on.all_reduce(*x);  // the first connects, and waits for peers
            const auto n = static_cast<float>(world.size());
            stream.wait(gate);
            x.fill(*stream, std::vector<float>(3, 1));
            on.all_reduce(*x);
            on.all_reduce(*x, rankmesh::max);
            auto started = on.start().all_reduce(*x);
            EXPECT_FALSE(started.done());
            started.wait();
            on.all_reduce(*x);
            EXPECT_FALSE(started.done());
            gate.count_down();  // that it is reached is the proof that no call blocks the host
            started.synchronize();
            EXPECT_TRUE(started.done());
            stream.synchronize();
            EXPECT_EQ(x.values(), std::vector<float>(3, n * n * n));
        });
}

TEST(Nccl, WhatIsStartedGoesOnBesideItsStreamUntilThatWaits) {
    on_devices(2, [](nccl::World& world) {
        const auto stream = DeviceStream();
        auto gate = std::latch(1);
        auto on = world.join({{"dp", rest}}).on("dp").on(stream.stream());
        auto x = DeviceArray<float>(3, 1.0f);
        on.start().all_reduce(*x).synchronize();
        auto started = on.start().all_reduce(*x);
        stream.wait(gate);
        started.synchronize();  // though its stream has not come further
        EXPECT_EQ(x.values(), std::vector<float>(3, 4));
        x.fill(*stream, std::vector<float>(3, 10));
        auto later = on.start().all_reduce(*x);
        EXPECT_FALSE(later.done());
        gate.count_down();
        later.synchronize();
        EXPECT_EQ(x.values(), std::vector<float>(3, 20));
    });
}

TEST(Nccl, AnArrayHoldsWhatIsCopiedToItAndWhatCollectivesMakeOfIt) {
    for (auto size : {1, 2, 4})
        on_devices(size, [](nccl::World& world) {
            auto dp = world.join({{"dp", rest}}).on("dp");
            for (const auto count : {0u, 1u, 1000u}) {
                auto values = std::vector<double>(count);
                std::iota(values.begin(), values.end(), world.rank());
                auto array = nccl::Array<double>(world, count);
                array.copy_from(values);
                dp.all_reduce(array.memory());
                auto sums = std::vector<double>(count);
                array.copy_to(sums);
                dp.host().all_reduce(values);
                EXPECT_EQ(sums, values);
            }
        });
    on_devices(1, [](nccl::World& world) {
        auto array = nccl::Array<int>(world, 3);
        auto two = std::vector<int>(2);
        const auto text = "an array of 3 elements on device 0 was given 2 on the host; both must be equal";
        EXPECT_EQ(text_of<UsageError>([&] { array.copy_from(two); }), text);
        EXPECT_EQ(text_of<UsageError>([&] { array.copy_to(two); }), text);
        EXPECT_EQ(text_of<EngineFailure>([&] { nccl::Array<char>(world, std::size_t{1} << 50); }),
                  "CUDA reports 'out of memory' in cudaMalloc of 1125899906842624 bytes on device 0");
    });
}

TEST(Nccl, MemoryThatIsNotOfTheDeviceIsAUsageError) {
    on_devices(2, [](nccl::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto here = std::vector<float>(3);
        const auto lies = Memory(here.data(), here.size());
        const auto there = DeviceArray<float>(3, 1.0f);
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(here); }),
                  "all_reduce on 'dp' of mesh dp=2 was given host memory; this communicator works on device "
                  "memory, its host() on the host's");
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_reduce(lies); }),
            "all_reduce of 3 f32 by sum on 'dp' of mesh dp=2 was given host memory as that of a device; "
            "copy it there, or call it on host()");
        support::check(cudaSetDevice(1 - world.rank()));
        const auto other = DeviceArray<float>(3);
        support::check(cudaSetDevice(world.rank()));
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(*there, *other); }),
                  detail::cat("all_reduce of 3 f32 by sum on 'dp' of mesh dp=2 was given memory of device ",
                              1 - world.rank(), "; that of this rank is ", world.rank()));
        on.start().all_reduce(*there).synchronize();
        EXPECT_EQ(there.values(), std::vector<float>(3, 2)) << "nothing was sent before";
    });
}

TEST(Nccl, WhatNcclDoesNotReduceIsRefusedInWords) {
    on_devices(1, [](nccl::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto shorts = DeviceArray<std::int16_t>(2);
        const auto ints = DeviceArray<int>(2);
        const auto truths = DeviceArray<std::uint8_t>(2, 1);
        const auto bools = Memory(reinterpret_cast<bool*>((*truths).data()), 2);
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_reduce(*shorts); }),
            "all_reduce of 2 i16 by sum on 'dp' of mesh dp=1: NCCL reduces no i16, only i8, i32, i64, u8, "
            "u32, u64, f16, bf16, f32 and f64; the same call on host() has all of them");
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_reduce(*ints, rankmesh::bit_or); }),
            "all_reduce of 2 i32 by bit_or on 'dp' of mesh dp=1: NCCL has no bit_or, only sum, prod, min, "
            "max and mean, and logical_and and logical_or of bools; the same call on host() has all of "
            "them");
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_reduce(bools, rankmesh::logical_xor); }),
            "all_reduce of 2 bool by logical_xor on 'dp' of mesh dp=1: NCCL has no logical_xor of bools, "
            "only logical_and and logical_or; the same call on host() has all of them");
        EXPECT_EQ(
            text_of<UsageError>([&] { on.scan(*ints, rankmesh::max); }),
            "scan of 2 i32 by max on 'dp' of mesh dp=1: NCCL has no scan, and one is made for it by sum "
            "only; the same call on host() has all of them");
        on.all_reduce(bools, rankmesh::logical_or);
        on.start().barrier().synchronize();
    });
}

TEST(Nccl, AllRanksSplitOnceForEachDeclaredItemAndTheJoinSaysWhatItMade) {
    auto lines = std::vector<std::string>{};
    auto mutex = std::mutex{};
    const auto log = [&](std::string_view line) {
        const auto lock = std::lock_guard(mutex);
        if (line.find("joined") != line.npos) lines.emplace_back(line);
    };
    on_devices(4,
               [](nccl::World& world) {
                   auto me = world.join({{.name = "all",
                                          .mesh = {{"dp", 2}, {"tp", 2}, {"pp", 1}},
                                          .over = {{"dp", "tp"}, Axes("dp").separate("own")},
                                          .picks = {{.of = "dp", .at = {0}, .as = "one"}}},
                                         {.name = "flat", .mesh = {{"x", rest}}},
                                         {.name = "some", .mesh = {{"y", 3}}, .partial = true},
                                         {.name = "lazy", .mesh = {{"z", 2}, {"w", 2}}, .lazy = true}});
                   me["lazy"].prepare("z");  // which is dp
                   auto communicators = std::vector<Communicator>{};
                   for (auto* name : {"dp", "tp", "pp", "own"}) communicators.push_back(me["all"].on(name));
                   if (world.rank() < 3) communicators.push_back(me["some"].on("y"));
                   communicators.push_back(me["lazy"].on("z"));
                   for (auto& on : communicators) {
                       const auto x = DeviceArray<float>(1, 1.0f);
                       on.start().all_reduce(*x).synchronize();
                       EXPECT_EQ(x.values(), std::vector<float>{static_cast<float>(on.size())}) << on.label();
                       EXPECT_EQ(nccl::native(on) != nullptr, on.size() > 1);
                   }
               },
               {.timeout = std::chrono::seconds(20), .log = log});
    ASSERT_EQ(lines.size(), 4U);
    for (const auto& line : lines) {
        // That of all ranks, dp, tp, both, own, and y on three ranks.
        const auto some = line.find("as rank 3") == line.npos;
        EXPECT_NE(line.find(some ? "; 6 NCCL communicators, " : "; 5 NCCL communicators, "), line.npos)
            << line;
        EXPECT_NE(line.find(" MiB of device "), line.npos) << line;
    }
}

TEST(Nccl, AGroupThatIsPreparedLaterIsMadeByItsMembersAlone) {
    on_devices(4, [](nccl::World& world) {
        auto me = world.join({{"dp", 2}, {"tp", 2}}, {.lazy = true});
        if (world.rank() % 2 == 1) return;
        me.prepare("dp");
        const auto x = DeviceArray<int>(1, world.rank());
        me.on("dp").start().all_reduce(*x).synchronize();
        EXPECT_EQ(x.values(), std::vector{2});
    });
}

TEST(Nccl, WorldsOfSomeRanksHaveTheDevicesToo) {
    on_devices(4, [](nccl::World& world) {
        const auto odd = world.rank() % 2;
        auto half = world.sub({odd + 2, odd});
        const auto x = DeviceArray<int>(1, world.rank());
        auto all = DeviceArray<int>(2);
        half.join({{"dp", rest}}).on("dp").start().all_gather(*x, *all).synchronize();
        EXPECT_EQ(all.values(), (std::vector{odd + 2, odd}));
    });
}

TEST(Nccl, ManyRanksBeginWithSeveralIds) {
    detail::nccl_ranks_per_id = 3;
    on_devices(8, [](nccl::World& world) {
        const auto x = DeviceArray<int>(1, 1);
        world.join({{"dp", rest}}).on("dp").start().all_reduce(*x).synchronize();
        EXPECT_EQ(x.values(), std::vector{8});
    });
    detail::nccl_ranks_per_id = 128;
}

TEST(Nccl, SplitsMayShareTheirResources) {
    for (const auto share : {false, true})
        threads::run(4, [&](World& host) {
            auto world = nccl::World(host, {.device = 7 - host.rank(), .split_share = share});
            EXPECT_EQ(world.device(), 7 - host.rank());
            const auto x = DeviceArray<int>(1, 1);
            auto me = world.join({{"dp", 2}, {"tp", 2}});
            me.on("dp").start().all_reduce(*x).synchronize();
            EXPECT_EQ(x.values(), std::vector{2});
            EXPECT_EQ(fake::share(nccl::native(me.on("dp")), nccl::native(me.on("tp"))), share);
        });
}

TEST(Nccl, ACommunicatorOfTheProgramsIsSplitAndStaysItsOwn) {
    threads::run(2, [](World& host) {
        auto own = nccl::World(host, {.device = host.rank() + 3});
        auto all = own.join({{"dp", rest}}).on("dp");
        const auto theirs = nccl::native(all);
        {
            auto world = nccl::adopt(host, theirs);
            EXPECT_EQ(world.device(), host.rank() + 3);
            const auto x = DeviceArray<int>(1, 1);
            auto on = world.join({{"tp", rest}}).on("tp");
            EXPECT_NE(nccl::native(on), theirs);
            on.start().all_reduce(*x).synchronize();
            EXPECT_EQ(x.values(), std::vector{2});
        }
        EXPECT_EQ(text_of<UsageError>([&] { (void)nccl::adopt(host, host.rank() == 0 ? nullptr : theirs); }),
                  "rank 0 adopts what is no communicator of NCCL");
        EXPECT_EQ(
            text_of<UsageError>([&] { (void)nccl::native(all.host()); }),
            "'dp' of mesh dp=2 works on host memory, without NCCL; take on() of a world on devices, not "
            "its host()");
        const auto y = DeviceArray<int>(1, 1);
        all.start().all_reduce(*y).synchronize();
        EXPECT_EQ(y.values(), std::vector{2});
    });
}

TEST(Nccl, EightRanksJoinSeveralMeshesWithSetsOfAxesAndAxesOfOne) {
    on_devices(8, [](nccl::World& world) {
        auto me = world.join({{.name = "a",
                               .mesh = {{"pp", 1}, {"dp", 2}, {"cp", 1}, {"tp", 4}},
                               .over = {{"dp", "tp"}, {"pp", "cp"}, {"pp", "tp"}}},
                              {.name = "b", .mesh = {{"ep", 4}, {"edp", 2}}, .over = {{"ep", "edp"}}},
                              {.name = "c", .mesh = {{"x", 5}}, .partial = true}});
        auto sets = std::vector<Communicator>{};
        for (auto* axis : {"pp", "dp", "cp", "tp"}) sets.push_back(me["a"].on(axis));
        sets.push_back(me["a"].on("dp", "tp"));
        sets.push_back(me["a"].on("pp", "cp"));
        sets.push_back(me["a"].on("pp", "tp"));
        for (auto* axis : {"ep", "edp"}) sets.push_back(me["b"].on(axis));
        sets.push_back(me["b"].on("ep", "edp"));
        if (world.rank() < 5) sets.push_back(me["c"].on("x"));
        for (auto& on : sets) {
            const auto x = DeviceArray<int>(1, 1);
            on.start().all_reduce(*x).synchronize();
            EXPECT_EQ(x.values(), std::vector{on.size()}) << on.label();
        }
    });
}

TEST(Nccl, ACallOnAStreamThatCapturesIsRefusedAndTheCaptureGoesOn) {
    on_devices(2, [](nccl::World& world) {
        const auto stream = DeviceStream();
        const auto captured = DeviceStream();
        auto gate = std::latch(1);
        auto on = world.join({{"dp", rest}}).on("dp").on(stream.stream());
        auto x = DeviceArray<float>(3, 1);
        on.all_reduce(*x);
        stream.synchronize();
        stream.wait(gate);
        on.all_reduce(*x);  // which the device's thread asks about, again and again
        on.host().barrier();
        support::check(cudaStreamBeginCapture(*captured, cudaStreamCaptureModeGlobal));
        auto there = on.on(captured.stream());
        const auto refused = std::string(
            "all_reduce of 3 f32 by sum on 'dp' of mesh dp=2 was called on a stream that is being captured, "
            "and "
            "rankmesh cannot be captured; call it before the capture begins or after it ends");
        EXPECT_EQ(text_of<UsageError>([&] { there.all_reduce(*x); }), refused);
        EXPECT_EQ(text_of<UsageError>([&] { (void)there.start().all_reduce(*x); }), refused);
        std::this_thread::sleep_for(std::chrono::milliseconds(150));  // in which the device's thread asks
        auto graph = cudaGraph_t{};
        support::check(cudaStreamEndCapture(*captured, &graph));
        on.host().barrier();
        EXPECT_EQ(
            text_of<UsageError>([&] { on.on(Stream{cudaStreamPerThread}).all_reduce(*x); }),
            "all_reduce of 3 f32 by sum on 'dp' of mesh dp=2 was called on cudaStreamPerThread, which is "
            "another "
            "stream on the thread on which NCCL launches; call it on a stream that the program has created");
        gate.count_down();
        there.all_reduce(*x);
        captured.synchronize();
        EXPECT_EQ(x.values(), std::vector<float>(3, 8));
    });
}

TEST(Nccl, LeavesNothingInTheLastErrorOfTheProgram) {
    on_devices(2, [](nccl::World& world) {
        const auto stream = DeviceStream();
        auto gate = std::latch(1);
        auto on = world.join({{"dp", rest}}).on("dp").on(stream.stream());
        auto x = DeviceArray<float>(3, 1);
        stream.wait(gate);
        auto pending = on.start().all_reduce(*x);
        EXPECT_FALSE(pending.done());
        for (int i = 0; i < 100; ++i) on.all_reduce(*x);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess);
        gate.count_down();
        pending.synchronize();
        EXPECT_EQ(cudaGetLastError(), cudaSuccess);
        stream.synchronize();
    });
}

TEST(Nccl, ThreadsOnSeveralCommunicatorsOfADeviceEnqueueInTurn) {
    on_devices(2, [](nccl::World& world) {
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("own")}});
        const auto call = [&](const char* name) {
            support::check(cudaSetDevice(world.device()));
            const auto stream = DeviceStream();
            auto on = me.on(name).on(stream.stream());
            auto x = DeviceArray<std::int64_t>(1, 1);
            for (int i = 0; i < 40; ++i) on.all_reduce(*x);
            stream.synchronize();
            EXPECT_EQ(x.values(), std::vector{std::int64_t{1} << 40});
        };
        auto other = std::thread([&] { call("own"); });
        call("dp");
        other.join();
    });
}

TEST(Nccl, TheProgramCallsNcclItselfUnderTheLock) {
    on_devices(2, [](nccl::World& world) {
        const auto stream = DeviceStream();
        auto gate = std::latch(1);
        auto on = world.join({{"dp", rest}}).on("dp").on(stream.stream());
        auto x = DeviceArray<float>(1, 1);
        on.all_reduce(*x);
        stream.wait(gate);
        on.all_reduce(*x);  // so that the device's thread asks for errors
        auto result = ncclInProgress;
        {
            const auto held = nccl::lock(on);
            result =
                ncclAllReduce((*x).data(), (*x).data(), 1, ncclFloat32, ncclSum, nccl::native(on), *stream);
        }
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
        while (result == ncclInProgress || std::chrono::steady_clock::now() < until) {
            const auto held = nccl::lock(on);
            ASSERT_EQ(ncclCommGetAsyncError(nccl::native(on), &result), ncclSuccess);
        }
        gate.count_down();
        stream.synchronize();
        EXPECT_EQ(x.values(), std::vector<float>(1, 8));
        EXPECT_FALSE(nccl::lock(world.join({{"one", 1}, {"all", rest}}).on("one")).owns_lock());
    });
}
