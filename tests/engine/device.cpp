// SPDX-License-Identifier: Apache-2.0
// That the interface has room for an engine of devices, proved by one that is fake.
#include <rankmesh/engine/device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <numeric>
#include <thread>

#include <rankmesh/engine/threads.hpp>

#include "device_operations.hpp"
#include "support/fake_device.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using device_operations::length;
using device_operations::numbers;
using device_operations::operations;
using namespace std::chrono_literals;
using fake::Array;
using fake::Queue;

namespace {

const auto patient = WorldOptions{.timeout = 20s};

/// Runs `program` on ranks that have a device each, and holds it to have used it well.
void on_devices(int size, const std::function<void(fake::World&)>& program,
                const WorldOptions& options = patient) {
    threads::run(
        size,
        [&](World& host) {
            auto world = fake::World(host);
            program(world);
        },
        options);
    EXPECT_EQ(fake::take_faults(), std::vector<std::string>{});
}
void on_devices(const std::function<void(fake::World&)>& program) {
    for (auto size : {1, 2, 4}) {
        SCOPED_TRACE(size);
        on_devices(size, program);
    }
}

}  // namespace

TEST(Device, EveryOperationGivesThereWhatItGivesOnTheHost) {
    on_devices([](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto host = on.host();
        for (const auto& operation : operations()) {
            SCOPED_TRACE(operation.name);
            auto in = numbers(world.rank(), 0);
            auto out = numbers(world.rank(), 100);
            const auto there_in = Array<float>(in);
            const auto there_out = Array<float>(out);
            operation.run(on, {*there_in, *there_out});
            operation.run(host, {{in.data(), length, Space::host}, {out.data(), length, Space::host}});
            world.queue().synchronize();
            EXPECT_EQ(there_in.values(), in);
            EXPECT_EQ(there_out.values(), out);
        }
    });
}

TEST(Device, ItsMemoryCannotBeReadByTheHost) {
    const auto x = Array<float>(1, 1.0f);
    EXPECT_DEATH((void)*static_cast<volatile float*>((*x).data()), "");
}

TEST(Device, MemoryOfTheOtherSpaceIsAUsageError) {
    on_devices([](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto host = on.host();
        auto here = std::vector<float>(3);
        const auto there = Array<float>(3);
        EXPECT_EQ(on.space(), Space::device);
        EXPECT_EQ(host.space(), Space::host);
        EXPECT_EQ(host.host().space(), Space::host);
        EXPECT_EQ(on.world_ranks(), host.world_ranks());
        const auto label = detail::cat("'dp' of mesh dp=", world.size());
        const auto on_the_host = detail::cat(
            "all_reduce on ", label,
            " was given host memory; this communicator works on device memory, its host() on the host's");
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(here); }), on_the_host);
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(*there, here); }), on_the_host);
        EXPECT_EQ(text_of<UsageError>([&] { (void)on.start().all_reduce(here); }), on_the_host);
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(rankmesh::Buffers(here)); }),
                  "buffer 0 of a list: " + on_the_host);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.send(here, 0); }); }).substr(0, 8), "send on ");
        EXPECT_EQ(text_of<UsageError>([&] { host.all_reduce(*there); }),
                  detail::cat("all_reduce on ", label,
                              " was given device memory; this communicator works on host memory: copy it "
                              "there, or join a world with a device"));
        EXPECT_EQ(
            text_of<UsageError>([&] { host.on(world.queue().stream()); }),
            detail::cat(label, " works on host memory, where no streams are; join a world with a device"));
        here = {1, 2, 3};
        host.all_reduce(here, rankmesh::max);
        EXPECT_EQ(here, (std::vector<float>{1, 2, 3}));
    });
}

TEST(Device, AListIsHandedOverAsOneStartOfItsBuffersAsTheyAre) {
    on_devices([](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto a = Array<float>(3, 1.0f);
        const auto b = Array<std::int32_t>(1, 2);
        const auto c = Array<float>(5, 3.0f);
        on.all_reduce(rankmesh::Buffers(*a, *b, *c));
        on.start().broadcast(rankmesh::Buffers(*a, *b), 0, {.bucket_bytes = 1}).synchronize();
        on.all_reduce(*c);
        on.all_reduce(rankmesh::Buffers());
        EXPECT_EQ(world.counts().handed_over, (std::vector<std::size_t>{3, 2, 1}));
        world.queue().synchronize();
        const auto n = world.size();
        EXPECT_EQ(a.values(), std::vector<float>(3, static_cast<float>(n)));
        EXPECT_EQ(b.values(), std::vector<std::int32_t>{2 * n});
        EXPECT_EQ(c.values(), std::vector<float>(5, static_cast<float>(3 * n * n)));
    });
}

TEST(Device, ABatchIsHandedOverAsOneStart) {
    on_devices(2, [](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto in = Array<float>(1, static_cast<float>(world.rank()));
        const auto out = Array<float>(1);
        auto pending = on.start().batch([&] {
            on.send(*in, 1 - world.rank());
            on.recv(*out, 1 - world.rank());
        });
        pending.synchronize();
        EXPECT_EQ(world.counts().handed_over, std::vector<std::size_t>{2});
        EXPECT_EQ(out.values(), std::vector<float>{static_cast<float>(1 - world.rank())});
    });
}

TEST(Device, ACallComesAfterWhatItsStreamHoldsAndBeforeWhatItGetsLater) {
    on_devices([](fake::World& world) {
        auto gate = std::latch(1);
        auto queue = Queue();
        auto on = world.join({{"dp", rest}}).on("dp").on(queue.stream());
        const auto x = Array<float>(3);
        queue.put([&] { gate.wait(); });
        queue.put(x.each([&](float) { return static_cast<float>(world.rank() + 1); }));
        on.all_reduce(*x);
        queue.put(x.each([](float each) { return 10 * each; }));
        on.all_reduce(*x, rankmesh::max);
        gate.count_down();  // that it is reached is the proof that no call blocks the host
        queue.synchronize();
        const auto n = world.size();
        EXPECT_EQ(x.values(), std::vector<float>(3, static_cast<float>(10 * n * (n + 1) / 2)));
    });
}

TEST(Device, TwoStreamsAreOrderedEachByItself) {
    on_devices([](fake::World& world) {
        auto gate = std::latch(1);
        auto slow = Queue();
        auto quick = Queue();
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto on_slow = me.on("dp").on(slow.stream());
        auto on_quick = me.on("other").on(quick.stream());
        const auto x = Array<float>(1, 1.0f);
        const auto y = Array<float>(1, 1.0f);
        slow.put([&] { gate.wait(); });
        auto pending = on_slow.start().all_reduce(*x);
        on_quick.all_reduce(*y);
        quick.synchronize();
        EXPECT_EQ(y.values(), std::vector<float>{static_cast<float>(world.size())});
        EXPECT_FALSE(pending.done());
        EXPECT_EQ(x.values(), std::vector<float>{1});
        // A stream is ordered after another's work only where it waits for it.
        quick.wait(slow.record());
        pending.wait();
        gate.count_down();
        slow.synchronize();
        EXPECT_EQ(x.values(), std::vector<float>{static_cast<float>(world.size())});
    });
}

TEST(Device, WaitOrdersTheStreamAndSynchronizeBlocksTheHost) {
    on_devices([](fake::World& world) {
        auto gate = std::latch(1);
        auto opened = std::atomic<bool>{false};
        auto queue = Queue();
        auto on = world.join({{"dp", rest}}).on("dp").on(queue.stream());
        const auto x = Array<float>(2, 1.0f);
        queue.put([&] { gate.wait(); });
        auto pending = on.start().all_reduce(*x);
        EXPECT_FALSE(pending.done());
        pending.wait();
        pending.wait();
        EXPECT_FALSE(pending.done()) << "it is ordered, not complete";
        queue.put(x.each([](float each) { return each + 100; }));
        auto later = on.start().all_reduce(*x);
        auto opener = std::thread([&] {
            std::this_thread::sleep_for(20ms);  // in which synchronize() could return too early
            opened = true;
            gate.count_down();
        });
        pending.synchronize();
        EXPECT_TRUE(opened);
        EXPECT_TRUE(pending.done());
        pending.synchronize();
        later.synchronize();
        const auto n = static_cast<float>(world.size());
        EXPECT_EQ(x.values(), std::vector<float>(2, n * (n + 100)));
        opener.join();
    });
}

TEST(Device, APendingCanBeMovedAndOneThatIsDroppedIsOrderedOnItsStream) {
    on_devices([](fake::World& world) {
        auto gate = std::latch(1);
        auto queue = Queue();
        auto on = world.join({{"dp", rest}}).on("dp").on(queue.stream());
        const auto x = Array<float>(2, 1.0f);
        const auto y = Array<float>(2, 2.0f);
        queue.put([&] { gate.wait(); });
        { const auto dropped = on.start().all_reduce(*x); }
        queue.put(x.each([](float each) { return 10 * each; }));
        auto first = on.start().all_reduce(*y);
        first.wait();
        auto moved = std::move(first);
        EXPECT_FALSE(moved.done());
        auto other = on.start().all_reduce(*y);
        other = std::move(moved);  // drops what it had
        gate.count_down();
        other.synchronize();
        EXPECT_TRUE(other.done());
        queue.synchronize();
        const auto n = static_cast<float>(world.size());
        EXPECT_EQ(x.values(), std::vector<float>(2, 10 * n));
        EXPECT_EQ(y.values(), std::vector<float>(2, 2 * n * n));
    });
}

TEST(Device, APendingLeftByAnExceptionFreesItsBuffersAndTellsItsPeers) {
    for (const auto blocked : {false, true}) {
        SCOPED_TRACE(blocked);
        auto lost = std::atomic<int>{0};
        auto left = std::atomic<bool>{false};
        on_devices(4, [&](fake::World& world) {
            auto gate = std::latch(1);
            auto queue = Queue();
            auto on = world.join({{"dp", rest}}).on("dp").on(queue.stream());
            const auto x = Array<float>(1000, 1.0f);
            if (world.rank() == 0) {
                if (blocked) queue.put([&] { gate.wait(); });
                EXPECT_THROW(
                    {
                        const auto pending = on.start().all_reduce(*x);
                        throw std::runtime_error("boom");
                    },
                    std::runtime_error);
                left = true;
            }
            while (world.rank() == 2 && !left) std::this_thread::yield();
            try {
                on.start().all_reduce(*x).synchronize();
            } catch (const PeerLost& error) {
                EXPECT_EQ(error.ranks, std::vector<int>{0});
                ++lost;
            }
            gate.count_down();
            queue.synchronize();
            EXPECT_EQ(x.values(), std::vector<float>(1000, 1));
        });
        EXPECT_EQ(lost, 4);
    }
}

TEST(Device, AnExceptionThatLeavesItsBuffersWithAPendingIsNoFault) {
    on_devices(2, [&](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        EXPECT_THROW(
            {
                const auto short_lived = Array<float>(1000, 1.0f);
                const auto pending = on.start().all_reduce(*short_lived);
                if (world.rank() == 0) throw std::runtime_error("boom");
                while (!const_cast<Pending&>(pending).done()) std::this_thread::yield();
                throw std::runtime_error("boom");
            },
            std::runtime_error);
    });
}

TEST(Device, WhereverARankThrowsNobodyHangs) {
    for (int victim = 0; victim < 2; ++victim)
        for (int step = 0; step < 6; ++step) {
            SCOPED_TRACE(detail::cat("rank ", victim, " throws at step ", step));
            const auto program = [&](fake::World& world) {
                const auto x = Array<float>(100, 1.0f);  // outlives what its streams do
                const auto at = [&](int now) {
                    if (world.rank() == victim && step == now) throw std::runtime_error("boom");
                };
                at(0);
                auto me = world.join({{"dp", 2}, {"tp", rest}});
                at(1);
                me.on("dp").all_reduce(*x);
                at(2);
                auto pending = me.on("dp").start().all_reduce(*x);
                at(3);
                pending.wait();
                at(4);
                me.on("dp").start().barrier().synchronize();
                at(5);
                me.on("tp").all_reduce(*x);
                me.on("dp").start().barrier().synchronize();
            };
            EXPECT_EQ(text_of<std::runtime_error>([&] { on_devices(2, program); }), "boom");
            EXPECT_EQ(fake::take_faults(), std::vector<std::string>{});
        }
}

TEST(Device, AMemberLeftByAnExceptionIsHeardOfByThoseThatSynchronize) {
    auto lost = std::atomic<int>{0};
    on_devices(2, [&](fake::World& world) {
        const auto x = Array<float>(10, 1.0f);
        try {
            auto me = world.join({{"dp", rest}});
            if (world.rank() == 1) throw std::runtime_error("boom");
            me.on("dp").all_reduce(*x);
            EXPECT_THROW(me.on("dp").start().barrier().synchronize(), PeerLost);
            EXPECT_THROW(me.on("dp").all_reduce(*x), PeerLost);
            me.on("dp").host().barrier();
        } catch (const PeerLost& error) {
            EXPECT_EQ(error.ranks, std::vector<int>{1});
            ++lost;
        } catch (const std::runtime_error&) {
        }
    });
    EXPECT_EQ(lost, 1);
}

TEST(Device, ATimeoutThatExpiresInSynchronizeNamesWhoIsMissing) {
    on_devices(2, [](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = Array<float>(1, 1.0f);
        if (world.rank() == 0) {
            auto pending = on.within(200ms).start().all_reduce(*x);
            try {
                pending.synchronize();
                ADD_FAILURE() << "rank 1 never called it";
            } catch (const Timeout& error) {
                EXPECT_EQ(error.arrived, std::vector<int>{0});
                EXPECT_EQ(error.missing, std::vector<int>{1});
                EXPECT_EQ(without_seen(error.what()),
                          "the timeout of 200 ms expired on rank 0 in all_reduce of 1 f32 by sum, call "
                          "number 1 on 'dp' of mesh dp=2, group {0, 1}: arrived rank 0, missing rank 1 "
                          "[dp=1]; 'dp' of "
                          "mesh dp=2 cannot be used any more");
            }
            EXPECT_TRUE(pending.done());
            EXPECT_THROW(on.all_reduce(*x), Timeout) << "the channel stays unusable";
        }
        on.host().barrier();  // its host's is another
        if (world.rank() == 1) {
            EXPECT_THROW(on.start().all_reduce(*x).synchronize(), Timeout);
        }
        EXPECT_EQ(x.values(), std::vector<float>{1});
    });
}

TEST(Device, ATimeoutOfACallThatDoesNotBlockIsThrownByALaterOne) {
    on_devices(2, [](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = Array<float>(1, 1.0f);
        if (world.rank() == 0) {
            on.within(100ms).all_reduce(*x);
            world.queue().synchronize();
            EXPECT_THROW(on.all_reduce(*x), Timeout);
        }
        on.host().barrier();
    });
}

TEST(Device, ATimeoutThatExpiresBeforeTheStreamComesToACallNamesThisRank) {
    on_devices(2, [](fake::World& world) {
        auto gate = std::latch(1);
        auto queue = Queue();
        auto on = world.join({{"dp", rest}}).on("dp").on(queue.stream());
        const auto x = Array<float>(1, 1.0f);
        if (world.rank() == 0) {
            queue.put([&] { gate.wait(); });
            try {
                on.within(100ms).start().all_reduce(*x).synchronize();
                ADD_FAILURE() << "its stream never came to it";
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, std::vector<int>{0});
            }
            gate.count_down();
        } else {
            EXPECT_THROW(on.start().all_reduce(*x).synchronize(), PeerLost);
        }
        queue.synchronize();
        EXPECT_EQ(x.values(), std::vector<float>{1});
    });
}

TEST(Device, CallsThatDoNotMatchAreHeardOfWhereTheyAreSynchronized) {
    on_devices(2, [](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto x = Array<float>(static_cast<std::size_t>(world.rank() + 1));
        EXPECT_THROW(on.start().all_reduce(*x).synchronize(), Disagreement);
    });
}

TEST(Device, AllRanksTakePartInCreationAndEqualGroupsShareOneChannel) {
    on_devices(4, [](fake::World& world) {
        auto me = world.join(
            {{.name = "all",
              .mesh = {{"dp", 2}, {"tp", 2}, {"pp", 1}},
              .over = {{"dp", "tp"}, {"dp", "tp", "pp"}, Axes("dp").separate("own")},
              .picks = {{.of = "dp", .at = {0}, .as = "one"}}},
             {.name = "flat", .mesh = {{"x", rest}}, .picks = {{.of = "x", .at = {0, -1}, .as = "ends"}}},
             {.name = "some", .mesh = {{"y", 3}}, .partial = true},
             {.name = "lazy", .mesh = {{"z", 2}, {"w", 2}}, .lazy = true}});
        const auto at_an_end = world.rank() == 0 || world.rank() == 3;
        const auto counts = world.counts();
        // All are asked for dp, tp, (dp,tp) and what shares its channel, own, x, the ends and y, whoever has
        // a part; for groups of one, nobody is.
        EXPECT_EQ(counts.creations, 8);
        EXPECT_EQ(counts.channels, 4 + (at_an_end ? 1 : 0) + (world.rank() < 3 ? 1 : 0));
        EXPECT_EQ(me.channel_count(), counts.channels) << "a group counts once, in both spaces";

        auto communicators = std::vector<Communicator>{};
        for (auto* name : {"dp", "tp", "pp", "own"}) communicators.push_back(me["all"].on(name));
        communicators.push_back(me["all"].on("dp", "tp"));
        communicators.push_back(me["all"].on("dp", "tp", "pp"));
        communicators.push_back(me["flat"].on("x"));
        for (auto* name : {"one", "ends", "y"})
            for (auto* mesh : {"all", "flat", "some"}) try {
                    if (auto found = me[mesh].find(name)) communicators.push_back(std::move(*found));
                } catch (const UsageError&) {  // of another mesh
                }
        me["lazy"].prepare("z");
        me["lazy"].prepare("w");
        me["lazy"].prepare("z");
        EXPECT_EQ(world.counts().creations, 8) << "the lazy groups are those of dp and tp";
        communicators.push_back(me["lazy"].on("z"));
        communicators.push_back(me["lazy"].on("w"));
        for (auto& on : communicators) {
            const auto x = Array<float>(1, 1.0f);
            EXPECT_EQ(on.space(), Space::device);
            on.start().all_reduce(*x).synchronize();
            EXPECT_EQ(x.values(), std::vector<float>{static_cast<float>(on.size())}) << on.label();
        }
    });
}

TEST(Device, ALazyMeshIsCreatedByTheMembersOfItsGroups) {
    on_devices([](fake::World& world) {
        const auto n = world.size();
        auto me = world.join({{.name = "lazy", .mesh = {{"a", rest}, {"b", n == 4 ? 2 : 1}}, .lazy = true},
                              {.name = "half", .mesh = {{"c", (n + 1) / 2}}, .partial = true, .lazy = true}});
        EXPECT_EQ(world.counts().creations, 0);
        for (auto* axis : {"a", "b"}) me["lazy"].prepare(axis);
        if (me["half"].inside()) me["half"].prepare("c");
        const auto channels = (n > 1 ? 1 : 0) + (n == 4 ? 1 : 0);
        EXPECT_EQ(world.counts().creations, channels) << "half has the groups of b";
        for (auto* axis : {"a", "b"}) {
            auto on = me["lazy"].on(axis);
            const auto x = Array<float>(1, 1.0f);
            on.start().all_reduce(*x).synchronize();
            EXPECT_EQ(x.values(), std::vector<float>{static_cast<float>(on.size())});
        }
    });
}

TEST(Device, WorldsOfSomeRanksHaveTheDeviceToo) {
    on_devices(4, [](fake::World& world) {
        const auto odd = world.rank() % 2;
        auto half = world.sub({odd, odd + 2});
        auto on = half.join({{"dp", rest}}).on("dp");
        const auto x = Array<float>(1, static_cast<float>(world.rank()));
        on.start().all_reduce(*x).synchronize();
        EXPECT_EQ(x.values(), std::vector<float>{static_cast<float>(2 * odd + 2)});
    });
}

TEST(Device, ObjectsAndMonitoredBarriersGoOverTheHost) {
    on_devices([](fake::World& world) {
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("end")}});
        auto on = me.on("dp");
        auto text = std::string(world.rank() == 0 ? "a plan of the day" : "");
        on.broadcast_object(text);
        EXPECT_EQ(text, "a plan of the day");
        on.monitored_barrier();
        on.start().monitored_barrier().wait();
        EXPECT_EQ(world.counts().handed_over.size(), 0U);
        if (world.size() > 1 && world.rank() > 0) try {
                on.within(100ms).monitored_barrier();
                ADD_FAILURE() << "rank 0 never came";
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, std::vector<int>{0});
            }
        me.on("end").host().barrier();  // until which rank 0 has not returned
    });
}

TEST(Device, ItsChannelsAndTheHostsAreUsedByOneThreadEachAtATime) {
    on_devices(2, [](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto host = on.host();
        const auto x = Array<float>(1, 1.0f);
        // A call of the host's that blocks does not keep the device's from being made.
        auto waiting = std::thread([&] {
            if (world.rank() == 0) host.barrier();
        });
        on.start().all_reduce(*x).synchronize();
        if (world.rank() == 1) host.barrier();
        waiting.join();
        EXPECT_EQ(x.values(), std::vector<float>{2});
    });
}

TEST(Device, EveryOrderOfDestructionIsWellWithCallsUnderWay) {
    for (int order = 0; order < 6; ++order)
        threads::run(2, [&](World& given) {
            const auto x = Array<float>(1, 1.0f);
            auto queue = Queue();
            {
                auto world = std::make_unique<fake::World>(given);
                auto me = std::make_unique<Member>(world->join({{"dp", rest}}));
                auto on = std::make_unique<Communicator>(me->on("dp").on(queue.stream()));
                const std::function<void()> drop[] = {[&] { world.reset(); }, [&] { me.reset(); },
                                                      [&] { on.reset(); }};
                const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
                on->all_reduce(*x);
                for (auto which : orders[order]) drop[which]();
            }
            queue.synchronize();
            EXPECT_EQ(x.values(), std::vector<float>{2});
        });
    EXPECT_EQ(fake::take_faults(), std::vector<std::string>{});
}

TEST(Device, WhatIsNoMemoryOfTheDeviceNorAStreamIsNoticed) {
    on_devices(1, [](fake::World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto here = 1.0f;
        const auto x = Array<float>(2);
        EXPECT_THROW(on.all_reduce(Memory(&here, 1)), std::logic_error);
        EXPECT_THROW(on.all_reduce(Memory((*x).data() + 1, 2)), std::logic_error) << "beyond its end";
        EXPECT_THROW(on.on(Stream{&here}).all_reduce(*x), std::logic_error);
        const auto freed = [] { return *Array<float>(2); }();
        EXPECT_THROW(on.all_reduce(freed), std::logic_error);
    });
    threads::run(1, [](World& host) {
        auto world = fake::World(host);
        auto on = world.join({{"dp", rest}}).on("dp");
        auto gate = std::latch(1);
        world.queue().put([&] { gate.wait(); });
        on.all_reduce(*Array<float>(2));
        gate.count_down();
        world.queue().synchronize();
    });
    EXPECT_FALSE(fake::take_faults().empty()) << "it was freed before its stream came to it";
}
