// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>

#include <rankmesh/engine/threads.hpp>

#include "engine/threads/world.hpp"
#include "steps.hpp"
#include "support/absent.hpp"
#include "support/eventually.hpp"
#include "support/is_seen.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using support::Absent;
using support::eventually;
using support::is_seen;

namespace {

const auto soon = WorldOptions{.timeout = 200ms};

/// The error that a world of `size` threads ends with.
template <class E>
E error_of(int size, const std::function<void(World&)>& program,
           const WorldOptions& options = {.timeout = 20s}) {
    try {
        threads::run(size, program, options);
    } catch (const E& error) {
        return error;
    }
    throw std::logic_error("the world ended without that error");
}

}  // namespace

TEST(Threads, AWorldOfNoRanksIsAUsageError) {
    EXPECT_STREQ(error_of<UsageError>(0, [](World&) {}).what(),
                 "threads::run was asked for 0 ranks; a world has 1 or more");
}

TEST(Threads, RanksAreNumberedAndKnowTheirWorld) {
    auto seen = std::vector<std::atomic<int>>(5);
    threads::run(5, [&](World& world) {
        EXPECT_EQ(world.size(), 5);
        EXPECT_EQ(world.engine(), "threads");
        ++seen[static_cast<std::size_t>(world.rank())];
    });
    for (auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(Threads, TheFirstErrorIsRethrownWhereverARankThrowsAndNobodyHangs) {
    // Throw on each rank at each step of a program; every other rank may be anywhere.
    for (int victim = 0; victim < 4; ++victim)
        for (int step = 0; step < 8; ++step) {
            SCOPED_TRACE("rank " + std::to_string(victim) + " throws at step " + std::to_string(step));
            const auto error = error_of<std::runtime_error>(4, [&](World& world) {
                run_steps(world, [&](int now) {
                    if (world.rank() == victim && step == now) throw std::runtime_error("boom");
                });
            });
            EXPECT_STREQ(error.what(), "boom");
        }
}

TEST(Threads, AnExpiredTimeoutNamesTheOperationTheGroupAndWhoIsMissing) {
    auto absent = Absent();
    const auto error = error_of<Timeout>(
        4,
        [&](World& world) {
            auto me = world.join({{"dp", 2}, {"tp", 2}});
            auto x = 1.0f;
            me.on("tp").all_reduce(x);
            if (world.rank() == 1) absent.outlast([&] { me.on("dp").all_reduce(x, rankmesh::max); });
            absent.stay();
        },
        soon);
    EXPECT_EQ(
        without_seen(error.what()),
        "the timeout of 200 ms expired on rank 1 in all_reduce of 1 f32 by max, call number 1 on 'dp' of "
        "mesh "
        "dp=2 tp=2, group {1, 3}: arrived rank 1, missing rank 3 [dp=1 tp=1]; 'dp' of mesh dp=2 tp=2 cannot "
        "be used "
        "any more");
    EXPECT_EQ(error.arrived, std::vector<int>{1});
    EXPECT_EQ(error.missing, std::vector<int>{3});
}

TEST(Threads, ARankThatNeverJoinsIsNamed) {
    auto absent = Absent();
    const auto error = error_of<Timeout>(
        3,
        [&](World& world) {
            if (world.rank() == 1) return absent.stay();
            absent.outlast([&] { world.join({{"dp", rest}}); });
        },
        soon);
    EXPECT_EQ(error.missing, std::vector<int>{1});
    EXPECT_NE(std::string(error.what()).find("expired in join"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("; in mesh dp=3 that is rank 1 [dp=1]"), std::string::npos)
        << error.what();
}

TEST(Threads, EveryRankHearsThatPlansDifferHoweverSoonTheFirstLeaves) {
    for (int size = 2; size <= 7; ++size)
        for (int round = 0; round < 50; ++round) {
            const auto odd = round % size;
            auto heard = std::atomic<int>{0};
            error_of<Disagreement>(size, [&](World& world) {
                try {
                    world.join({{world.rank() == odd ? "ep" : "dp", rest}});
                } catch (const Disagreement& error) {
                    ++heard;
                    throw;
                }
            });
            ASSERT_EQ(heard, size) << "in round " << round;
        }
}

TEST(Threads, ARankThatHasReturnedIsLostAtOnceToThoseThatNeedIt) {
    // The timeout is that of the world, much longer than this test may take.
    const auto lost_to = [](int rank, std::string_view what, const std::function<void(Communicator&)>& call) {
        for (auto waits : {false, true}) {  // rank 0 for it already when it returns
            const auto error = error_of<PeerLost>(3, [&](World& world) {
                auto on = world.join({{"dp", rest}}).on("dp");
                if (world.rank() == 0) call(on);
                if (world.rank() == rank && waits) {
                    EXPECT_TRUE(is_seen(world, 0, what));
                }
            });
            EXPECT_EQ(error.what(), detail::cat("rank ", rank, " has returned, and is missing in ", what,
                                                "; 'dp' of mesh dp=3, group {0..2}, has lost rank ", rank,
                                                " [dp=", rank, "] and cannot be used any more"));
            EXPECT_EQ(error.ranks, std::vector{rank});
        }
    };
    auto x = std::vector<float>(3);
    lost_to(2, "recv of 3 f32 from 2, message number 1", [&](auto& on) { on.recv(x, 2); });
    lost_to(1, "send of 3 f32 to 1, message number 1", [&](auto& on) { on.start().send(x, 1).wait(); });
    lost_to(1, "recv of 3 f32 from 1, message number 1", [&](auto& on) {
        auto pending = on.start().recv(x, 1);
        while (!pending.done()) std::this_thread::yield();
        pending.wait();
    });
    auto heard = std::atomic<int>{0};
    threads::run(3, [&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (world.rank() == 1) return;
        auto y = 1.0f;
        for (int again = 0; again < 2; ++again) try {
                on.all_reduce(y);
            } catch (const PeerLost& error) {
                EXPECT_EQ(error.ranks, std::vector<int>{1});
                EXPECT_STREQ(
                    error.what(),
                    "rank 1 has returned, and is missing in all_reduce of 1 f32 by sum, call number "
                    "1; 'dp' of mesh dp=3, group {0..2}, has lost rank 1 [dp=1] and cannot be used any "
                    "more");
                ++heard;
            }
    });
    EXPECT_EQ(heard, 4);
}

TEST(Threads, ARankThatReturnsBeforeAJoinIsLostToTheOthersAtOnce) {
    const auto error = error_of<PeerLost>(3, [](World& world) {
        if (world.rank() != 1) world.join({{"dp", rest}});
    });
    EXPECT_STREQ(error.what(),
                 "rank 1 has returned, and is missing in join; 'join' of mesh world, group {0..2}, has lost "
                 "rank 1 and cannot be used any more; in mesh dp=3 that is rank 1 [dp=1]");
    EXPECT_EQ(error.ranks, std::vector<int>{1});
}

TEST(Threads, WhoWaitsForAMessageHearsThatItsSenderHasLeftWhenever) {
    for (auto pause = 0us; pause < 1ms; pause += 50us) {
        auto left = detail::Departures();
        auto box = detail::Mailbox();
        auto heard = std::async(std::launch::async, [&] {
            try {
                return box.take(left, 1, 20s);
            } catch (const PeerLost& lost) {
                return std::string(lost.what());
            }
        });
        std::this_thread::sleep_for(pause);  // the law: it may come at any moment of the other's wait
        left.add(1, {.kind = detail::Failure::Kind::left, .why = "rank 1 is gone", .lost = {1}});
        box.look();
        EXPECT_TRUE(heard.get().starts_with("rank 1 is gone"));
    }
}

TEST(Threads, ARankThatHasReturnedIsMissedOnlyWhereItIsNeeded) {
    // A pipeline of messages on one communicator: each stage returns as soon as it has passed them on.
    for (auto lazy : {false, true})
        threads::run(4, [&](World& world) {
            auto me = world.join({{"pp", 2}, {"tp", 2}}, {.over = {{"pp", "tp"}}, .lazy = lazy});
            for (const auto* axis : {"pp", "tp"}) me.prepare(axis);
            me.prepare("pp", "tp");
            auto all = me.on("pp", "tp");
            auto x = world.rank();
            if (world.rank() > 0) all.recv(x, world.rank() - 1);
            if (world.rank() < 3) all.send(x, world.rank() + 1);
            if (world.rank() < 2) return;
            for (auto returned : {0, 1}) EXPECT_TRUE(is_seen(world, returned, "is gone"));
            me.on("tp").all_reduce(x);
            EXPECT_EQ(x, 0);
        });
}

TEST(Threads, AWorldOfSomeRanksOutlivesTheWorldItWasMadeOf) {
    auto lost = std::atomic<int>{0};
    threads::run(3, [&](World& given) {
        auto sub = given.rank() == 2 ? std::optional<World>() : given.sub({0, 1});
        auto late = given.rank() == 1;
        { const auto ends = std::move(given); }
        if (!sub) return;
        sub->join({{"dp", rest}}).on("dp").barrier();
        if (late) return;
        try {
            sub->join({{"dp", rest}});
        } catch (const PeerLost& error) {
            EXPECT_EQ(error.ranks, std::vector<int>{1});
            ++lost;
        }
    });
    EXPECT_EQ(lost, 1);
    // A rank that returns before it makes the world of some ranks is lost there, however late the others do.
    const auto error = error_of<PeerLost>(2, [](World& world) {
        if (world.rank() == 0) return;
        EXPECT_TRUE(is_seen(world, 0, "is gone"));
        world.sub({1, 0}).join({{"dp", rest}});
    });
    EXPECT_EQ(error.ranks, std::vector<int>{1});
}

TEST(Threads, EveryMemberOfAGroupHearsOfAnExpiredTimeoutAndSoDoesALateOne) {
    auto heard = std::atomic<int>{0};
    threads::run(
        3,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            if (world.rank() == 2) {
                EXPECT_TRUE(eventually([&] { return heard == 2; }));
            }
            try {
                on.barrier();
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, std::vector<int>{2});
                ++heard;
            }
            EXPECT_THROW(on.barrier(), Timeout) << "a channel stays unusable";
        },
        soon);
    EXPECT_EQ(heard, 3);
}

TEST(Threads, ATimeoutCanBeSetForAMeshAndForACall) {
    const auto begin = std::chrono::steady_clock::now();
    auto absent = Absent();
    threads::run(2, [&](World& world) {
        auto me = world.join({{"dp", rest}}, {.timeout = 100ms});
        auto on = me.on("dp");
        if (world.rank() == 0) {
            EXPECT_THROW(on.barrier(), Timeout);
        }
        auto other = world.join({{"dp", rest}}).on("dp").within(100ms);
        if (world.rank() == 1) return absent.stay();
        absent.outlast([&] { EXPECT_THROW(other.barrier(), Timeout); });
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(Threads, MembersThatCallDifferentOperationsAllHearIt) {
    auto heard = std::atomic<int>{0};
    threads::run(3, [&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<float>(world.rank() == 1 ? 2 : 3);
        try {
            on.all_reduce(x);
        } catch (const Disagreement& error) {
            EXPECT_STREQ(
                error.what(),
                "call number 1 on 'dp' of mesh dp=3, group {0..2}, is not the same on all its ranks: "
                "all_reduce of 3 f32 by sum on ranks 0 [dp=0], 2 [dp=2]; all_reduce of 2 f32 by "
                "sum on rank 1 [dp=1]");
            EXPECT_EQ(error.ranks, std::vector<int>{1});
            ++heard;
        }
        on.barrier();  // nothing was moved, so the channel goes on
    });
    EXPECT_EQ(heard, 3);
}

TEST(Threads, ARankThatCatchesItsOwnExceptionHasFailedTheMemberItLeft) {
    auto lost = std::atomic<int>{0};
    threads::run(3, [&](World& world) {
        try {
            auto me = world.join({{"dp", rest}});
            if (world.rank() == 1) throw std::runtime_error("boom");
            me.on("dp").barrier();
        } catch (const PeerLost& error) {
            EXPECT_EQ(error.ranks, std::vector<int>{1});
            ++lost;
        } catch (const std::runtime_error&) {
        }
        world.join({{"dp", rest}}).on("dp").barrier();  // the world itself is well
    });
    EXPECT_EQ(lost, 2);
}

TEST(Threads, RanksThatThrow_BreakTheirOwnGroups_AndNoOthers) {
    // Every set of ranks throws that leaves others; each of those calls on every communicator that it has.
    // A member that outlives its program tells nobody that its rank leaves; the end of the program does.
    for (unsigned i = 2; i < 30; ++i) {
        const auto outlives = i % 2 == 1;
        const auto throws = [&](int rank) { return (i / 2 >> rank & 1U) != 0; };
        SCOPED_TRACE(i);
        auto left = std::vector<int>{};
        for (int rank = 0; rank < 4; ++rank)
            if (!throws(rank)) left.push_back(rank);
        auto members = std::array<std::optional<Member>, 4>{};
        const auto error = error_of<std::runtime_error>(4, [&](World& world) {
            auto me = world.join({{"dp", 2}, {"tp", 2}});
            if (throws(world.rank())) {
                if (outlives) members[static_cast<std::size_t>(world.rank())] = std::move(me);
                throw std::runtime_error("boom");
            }
            EXPECT_THROW(world.join({{"dp", rest}}), PeerLost);  // returns once a rank has left
            for (const auto* axis : {"dp", "tp"}) {
                auto on = me.on(axis);
                if (std::ranges::any_of(on.world_ranks(), throws))
                    EXPECT_THROW(on.barrier(), PeerLost);
                else
                    EXPECT_NO_THROW(on.barrier());
            }
            EXPECT_NO_THROW(me.group(left).barrier());
            EXPECT_NO_THROW(world.sub(left).join({{"dp", rest}}).on("dp").barrier());
        });
        EXPECT_STREQ(error.what(), "boom");
    }
}

TEST(Threads, ARankThatEndsBecauseOfAnotherNamesItToThoseThatWait) {
    // Rank 3 ends, rank 2 waits for it, 0 for 2, and 1 for all.
    for (const auto* how : {"returns", "throws", "does not call"}) {
        auto heard = std::atomic<int>{0};
        auto absent = Absent();
        const auto hears = [&](auto&& call) {
            try {
                call();
                ADD_FAILURE() << how;
            } catch (const PeerLost& error) {
                EXPECT_EQ(error.ranks, std::vector{3}) << error.what();
                EXPECT_NE(std::string(how), "does not call");
                ++heard;
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, std::vector{3}) << error.what();
                EXPECT_EQ(std::string(how), "does not call");
                ++heard;
            }
        };
        try {
            threads::run(4,
                         [&](World& world) {
                             auto me = world.join({{"dp", 2}, {"tp", 2}}, {.timeout = 20s});
                             if (world.rank() == 3 && *how == 'r') return;
                             if (world.rank() == 3 && *how == 't') throw std::runtime_error("boom");
                             if (world.rank() == 3) return absent.stay();
                             if (world.rank() == 2) me.on("tp").within(100ms).barrier();
                             if (world.rank() == 0) {
                                 hears([&] { me.on("dp").barrier(); });
                                 hears([&] { world.join({{"dp", rest}}); });
                             }
                             if (world.rank() == 1) hears([&] { world.join({{"dp", rest}}); });
                             absent.outlast([&] { EXPECT_TRUE(eventually([&] { return heard == 3; })); });
                         },
                         {.timeout = 20s});
        } catch (const std::exception&) {
        }
        EXPECT_EQ(heard, 3) << how;
    }
}

TEST(Threads, InAWorldOfSomeRanksALostRankIsNamedByItsNumberThere) {
    for (auto comes : {true, false}) {  // the one that is lost
        auto lost = std::atomic<int>{0};
        const auto error = error_of<std::runtime_error>(4, [&](World& world) {
            if (world.rank() == 0) return;
            if (world.rank() == 3 && !comes) throw std::runtime_error("boom");
            auto some = world.sub({2, 3, 1});
            if (world.rank() == 3) throw std::runtime_error("boom");
            try {
                some.join({{"dp", rest}}).on("dp").barrier();
            } catch (const PeerLost& left) {
                EXPECT_EQ(left.ranks, std::vector<int>{1});
                ++lost;
            }
        });
        EXPECT_STREQ(error.what(), "boom");
        EXPECT_EQ(lost, 2);
    }
}

TEST(Threads, APendingLeftByAnExceptionNeverWaitsAndItsBufferIsNotTouched) {
    auto lost = std::atomic<int>{0};
    auto left = std::atomic<bool>{false};
    threads::run(3, [&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<float>(1000, 1);
        if (world.rank() == 0) {
            try {
                auto short_lived = std::vector<float>(1000, 1);
                auto pending = on.start().all_reduce(short_lived);
                throw std::runtime_error("boom");
            } catch (const std::runtime_error&) {
                left = true;
            }
        }
        while (world.rank() == 2 && !left) std::this_thread::yield();
        try {
            on.all_reduce(x);  // rank 1 may be waiting in it, rank 2 is not
        } catch (const PeerLost& error) {
            EXPECT_STREQ(
                error.what(),
                "rank 0 left by an exception with a pending all_reduce of 1000 f32 by sum on 'dp' "
                "of mesh dp=3; "
                "'dp' of mesh dp=3, group {0..2}, has lost rank 0 [dp=0] and cannot be used any more");
            EXPECT_EQ(error.ranks, std::vector<int>{0});
            ++lost;
        }
        EXPECT_EQ(x, std::vector<float>(1000, 1));
    });
    EXPECT_EQ(lost, 3);
}

TEST(Threads, Pending_LeftByAnException_FailsTheGroupAlsoIfComplete) {
    threads::run(3, [&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        try {
            auto x = std::vector<float>(3, 1);
            auto pending = on.start().all_reduce(x);
            while (!pending.done()) std::this_thread::yield();
            if (world.rank() == 0) throw std::runtime_error("boom");
            pending.wait();
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "boom");
        }
        try {
            on.barrier();
            ADD_FAILURE() << "the group went on";
        } catch (const PeerLost& error) {
            EXPECT_EQ(error.ranks, std::vector<int>{0});
        }
    });
}

TEST(Threads, AViewOfAMemberThatEndsWhileAnExceptionUnwindsFailsNothing) {
    threads::run(2, [](World& world) {
        auto me = world.join({{.name = "a", .mesh = {{"dp", rest}}}, {.name = "b", .mesh = {{"ep", rest}}}});
        auto three = std::vector<float>(3);
        auto four = std::vector<float>(4);
        EXPECT_THROW(me["a"].on("dp").all_to_all(three, four), UsageError);
        me["a"].on("dp").barrier();
    });
}

TEST(Threads, TwoThreadsOnOneCommunicatorAreRefusedAndOnTwoAreNot) {
    auto refused = std::latch(1);
    threads::run(2, [&](World& world) {
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto on = me.on("dp");
        auto other = me.on("other");
        if (world.rank() == 1) {
            refused.wait();
            on.barrier();
            other.barrier();
            return;
        }
        auto waiting = std::thread([&] { on.barrier(); });
        EXPECT_TRUE(is_seen(world, 0, "in barrier"));
        auto same = me.on("dp");
        EXPECT_THROW(
            try { same.barrier(); } catch (const UsageError& error) {
                EXPECT_STREQ(error.what(),
                             "two threads use 'dp' of mesh dp=2 at once; one thread at a time may, declare "
                             "another channel "
                             "with .separate(\"name\") to overlap");
                throw;
            },
            UsageError);
        refused.count_down();
        other.barrier();
        waiting.join();
    });
}

TEST(Threads, ABatchThatAnotherThreadCollectsIsInUse) {
    threads::run(1, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto expect_refused = [&] {
            EXPECT_EQ(text_of<UsageError>([&] { on.barrier(); }),
                      "two threads use 'dp' of mesh dp=1 at once; one thread at a time may, declare another "
                      "channel with .separate(\"name\") to overlap");
        };
        on.batch([&] { std::thread(expect_refused).join(); });
        auto collects = std::promise<void>();
        auto tried = std::promise<void>();
        auto other = std::thread([&] {
            on.batch([&] {
                collects.set_value();
                tried.get_future().wait();
            });
        });
        collects.get_future().wait();
        expect_refused();
        tried.set_value();
        other.join();
    });
}

TEST(Threads, AMovedFromWorldAndMemberSaySo) {
    threads::run(1, [](World& world) {
        auto me = world.join({{"dp", rest}});
        auto moved = std::move(me);
        EXPECT_THROW(me.on("dp"), UsageError);
        EXPECT_THROW(me.rank(), UsageError);
        auto taken = std::move(world);
        EXPECT_THROW(world.join({{"dp", rest}}), UsageError);
        moved.on("dp").barrier();
    });
}

TEST(Threads, EveryOrderOfDestructionIsWell) {
    for (int order = 0; order < 6; ++order)
        threads::run(2, [&](World& given) {
            auto world = std::make_unique<World>(std::move(given));
            auto me = std::make_unique<Member>(world->join({{"dp", rest}}));
            auto on = std::make_unique<Communicator>(me->on("dp"));
            auto x = 1.0f;
            auto sum = 2.0f;  // doubled by each
            on->all_reduce(x);
            const std::function<void()> drop[] = {[&] { world.reset(); }, [&] { me.reset(); },
                                                  [&] { on.reset(); }};
            const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
            for (auto which : orders[order]) {
                drop[which]();
                if (!on) continue;
                on->all_reduce(x);
                sum *= 2;
            }
            EXPECT_EQ(x, sum);
        });
}

TEST(Threads, APendingThatMayNotBeWaitedForIsStillPending) {
    auto refused = std::latch(1);
    threads::run(2, [&](World& world) {
        auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        if (world.rank() == 1) {
            refused.wait();
            on.barrier();
            auto x = 1.0f;
            on.all_reduce(x);
            return;
        }
        auto waiting = std::thread([&] { on.barrier(); });
        EXPECT_TRUE(is_seen(world, 0, "in barrier"));
        auto again = me.on("dp");
        auto x = 1.0f;
        EXPECT_THROW(again.start().all_reduce(x).wait(), UsageError) << "another thread is in the channel";
        refused.count_down();
        waiting.join();
        auto pending = again.start().all_reduce(x);
        pending.wait();
        EXPECT_EQ(x, 2.0f);
    });
}

TEST(Threads, ALazyMemberLeftByAnExceptionDoesNotLeaveItsPeersInPrepare) {
    auto lost = std::atomic<int>{0};
    threads::run(2, [&](World& world) {
        try {
            auto me = world.join({{"dp", rest}}, {.lazy = true});
            if (world.rank() == 1) throw std::runtime_error("boom");
            me.prepare("dp");
            me.on("dp").barrier();
        } catch (const PeerLost&) {
            ++lost;
        } catch (const std::runtime_error&) {
        }
    });
    EXPECT_EQ(lost, 1);
}

TEST(Threads, AMeshTakenFromATemporaryMemberFailsLikeTheMember) {
    auto lost = std::atomic<int>{0};
    threads::run(2, [&](World& world) {
        try {
            auto a = world.join(
                {{.name = "a", .mesh = {{"dp", rest}}}, {.name = "b", .mesh = {{"ep", rest}}}})["a"];
            if (world.rank() == 1) throw std::runtime_error("boom");
            a.on("dp").barrier();
        } catch (const PeerLost&) {
            ++lost;
        } catch (const std::runtime_error&) {
        }
    });
    EXPECT_EQ(lost, 1);
}

TEST(Threads, TheRankThatLeftFirstIsTheCauseHoweverLongItUnwinds) {
    struct Slow {
        ~Slow() { std::this_thread::sleep_for(100ms); }  // the law is about such a rank
    };
    const auto error = error_of<std::runtime_error>(2, [](World& world) {
        const auto slow = Slow{};
        auto me = world.join({{"dp", rest}});
        if (world.rank() == 1) throw std::runtime_error("disk full");
        try {
            me.on("dp").barrier();
        } catch (const PeerLost&) {
            throw std::runtime_error("step 7 failed");
        }
    });
    EXPECT_STREQ(error.what(), "disk full");
}

TEST(Threads, TimeoutsArePositiveAndMayBeForEver) {
    EXPECT_STREQ(error_of<UsageError>(1, [](World&) {}, {.timeout = 0s}).what(),
                 "a timeout of 0 s; it must be positive");
    threads::run(2,
                 [](World& world) {
                     auto on = world.join({{"dp", rest}}).on("dp");
                     EXPECT_THROW(on.within(-5ms), UsageError);
                     on.within(std::chrono::nanoseconds::max()).barrier();
                 },
                 {.timeout = std::chrono::nanoseconds::max()});
}

TEST(Threads, TheLargestClassOfManyPlansIsNamedFirst) {
    const auto error = error_of<Disagreement>(20, [](World& world) {
        const auto odd = world.rank() < 12;
        world.join(MeshSpec{{odd ? detail::cat("axis", world.rank()) : std::string("dp"), rest}});
    });
    EXPECT_NE(std::string(error.what()).find("the same:\n  ranks {12..19}: dp=20, over dp\n"),
              std::string::npos)
        << error.what();
    EXPECT_EQ(error.ranks, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(Threads, AMemberSurvivesBeingMovedOntoItself) {
    threads::run(1, [](World& world) {
        auto me = world.join({{"dp", rest}});
        auto& same = me;
        me = std::move(same);
        EXPECT_EQ(me.at("dp"), 0);
    });
}

TEST(Threads, APlacedPickNamesRanks) {
    threads::run(3, [](World& world) {
        auto me = world.join({{"pp", rest}},
                             {.picks = {{.of = "pp", .at = {0, 1}, .as = "front"}}, .placed = {2, 1, 0}});
        if (world.rank() != 0) return;
        try {
            me.on("front");
            ADD_FAILURE() << "rank 0 stands last";
        } catch (const UsageError& error) {
            EXPECT_STREQ(error.what(),
                         "rank 0 is not in pick 'front', which is {2, 1} here; use find(\"front\")");
        }
    });
}

TEST(Threads, AMessageThatDoesNotFitIsHeardAtBothEnds) {
    auto heard = std::atomic<int>{0};
    threads::run(3, [&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto three = std::vector<float>(3, 1);
        auto two = std::vector<float>(2, 7);
        auto whole = std::vector<int>(3, 7);
        const auto hears = [&](const std::function<void()>& call, const char* text) {
            try {
                call();
                ADD_FAILURE() << "it fitted";
            } catch (const Disagreement& error) {
                EXPECT_STREQ(error.what(), text);
                EXPECT_EQ(error.ranks, (std::vector<int>{0, 2}));
                ++heard;
            }
        };
        const auto* length = "on 'dp' of mesh dp=3 rank 0 sends 3 f32 to rank 2, which receives 2 f32";
        const auto* type = "on 'dp' of mesh dp=3 rank 0 sends 3 f32 to rank 2, which receives 3 i32";
        if (world.rank() == 0) {
            hears([&] { on.send(three, 2); }, length);
            hears([&] { on.start().send(three, 2).wait(); }, type);
            // In a batch, what fits arrives all the same.
            hears([&] { on.batch([&] { on.send(three, 1), on.send(three, 2); }); }, length);
        } else if (world.rank() == 2) {
            hears([&] { on.recv(two, 0); }, length);
            hears([&] { on.start().recv(whole, 0).wait(); }, type);
            hears([&] { on.recv(two, 0); }, length);
        } else {
            auto got = std::vector<float>(3);
            on.recv(got, 0);
            EXPECT_EQ(got, three);
        }
        EXPECT_EQ(two, std::vector<float>(2, 7));
        EXPECT_EQ(whole, std::vector<int>(3, 7));
        on.barrier();  // the channel goes on
    });
    EXPECT_EQ(heard, 6);
}

TEST(Threads, CountsThatDifferBetweenGiverAndTakerAreHeardByAll) {
    auto heard = std::atomic<int>{0};
    threads::run(3, [&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto hears = [&](const std::function<void()>& call, const char* text) {
            try {
                call();
                ADD_FAILURE() << "the counts agreed";
            } catch (const Disagreement& error) {
                EXPECT_STREQ(error.what(), text);
                ++heard;
            }
        };
        // Rank 2 believes that rank 1 gives one more.
        const auto r = static_cast<std::size_t>(world.rank());
        auto counts = std::vector<std::size_t>{1, 2, 3};
        if (world.rank() == 2) counts[1] = 3;
        const auto in = std::vector<float>(counts[r], 1);
        auto out = std::vector<float>(counts[0] + counts[1] + counts[2], 7);
        hears([&] { on.all_gather_v(in, out, counts); },
              "in all_gather_v on 'dp' of mesh dp=3 rank 1 sends 2 elements to rank 2, which expects 3");
        const auto given = std::vector<std::size_t>{1, 1, 1};
        auto taken = given;
        if (world.rank() == 2) taken[1] = 3;
        const auto three = std::vector<float>(3, 1);
        auto some = std::vector<float>(world.rank() == 2 ? 5 : 3, 7);
        hears([&] { on.start().all_to_all_v(three, given, some, taken).wait(); },
              "in all_to_all_v on 'dp' of mesh dp=3 rank 1 sends 1 element to rank 2, which expects 3");
        for (const auto& each : {out, some}) EXPECT_EQ(each, std::vector<float>(each.size(), 7));
        on.barrier();
    });
    EXPECT_EQ(heard, 6);
}

TEST(Threads, DifferingCalls_OfEquallyManyRanks_AreInTheOrderOfTheirRanks) {
    const auto error = error_of<Disagreement>(2, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<float>(world.rank() == 0 ? 3 : 2);
        on.all_reduce(x);
    });
    EXPECT_STREQ(
        error.what(),
        "call number 1 on 'dp' of mesh dp=2, group {0, 1}, is not the same on all its ranks: all_reduce of 3 "
        "f32 by sum on rank 0 [dp=0]; all_reduce of 2 f32 by sum on rank 1 [dp=1]");
    EXPECT_EQ(error.ranks, std::vector<int>{1});
}

TEST(Threads, MembersThatNameDifferentRootsAllHearIt) {
    auto heard = std::atomic<int>{0};
    threads::run(3, [&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<float>(2, 1);
        auto all = std::vector<float>(6, 7);
        const auto odd = world.rank() == 1 ? 1 : 0;
        auto number = 0;
        const auto hears = [&](const std::function<void()>& call, const std::string& most,
                               const std::string& of_1) {
            const auto text =
                "call number " + std::to_string(++number) +
                " on 'dp' of mesh dp=3, group {0..2}, is not the same on all its ranks: " + most +
                " on ranks 0 [dp=0], 2 [dp=2]; " + of_1 + " on rank 1 [dp=1]";
            try {
                call();
                ADD_FAILURE() << "the roots agreed";
            } catch (const Disagreement& error) {
                EXPECT_EQ(error.what(), text);
                EXPECT_EQ(error.ranks, std::vector<int>{1});
                ++heard;
            }
        };
        hears([&] { on.reduce(x, sum, odd); }, "reduce of 2 f32 by sum to 0", "reduce of 2 f32 by sum to 1");
        hears([&] { on.gather(x, all, odd); }, "gather of 2 f32 to 0", "gather of 2 f32 to 1");
        hears([&] { on.scatter(all, x, odd); }, "scatter of 2 f32 from 0", "scatter of 2 f32 from 1");
        // Ranks may give different numbers of elements to a gather_v.
        const auto counts = std::vector<std::size_t>{0, 1, 2};
        const auto own = std::span(x).first(static_cast<std::size_t>(world.rank()));
        hears([&] { on.gather_v(own, std::span(all).first(3), counts, odd); }, "gather_v of f32 to 0",
              "gather_v of f32 to 1");
        hears([&] { on.scan(std::span(x).first(world.rank() == 1 ? 1 : 2)); }, "scan of 2 f32 by sum",
              "scan of 1 f32 by sum");
        hears([&] { world.rank() == 1 ? on.barrier() : on.monitored_barrier(); }, "monitored_barrier",
              "barrier");
        EXPECT_EQ(x, std::vector<float>(2, 1));
        EXPECT_EQ(all, std::vector<float>(6, 7));
        on.barrier();
    });
    EXPECT_EQ(heard, 18);
}

TEST(Threads, AnExpiredTimeoutOfAMessageNamesThePeerThatIsMissing) {
    const auto of_rank_0 = [](const std::function<void(Communicator&, std::vector<float>&)>& call) {
        auto absent = Absent();
        return error_of<Timeout>(
            3,
            [&](World& world) {
                auto on = world.join({{"dp", rest}}).on("dp");
                auto x = std::vector<float>(3);
                if (world.rank() != 0) return absent.stay();
                absent.outlast([&] { call(on, x); });
            },
            soon);
    };
    const auto text = [](std::string_view operation, std::string_view missing) {
        return detail::cat("the timeout of 200 ms expired on rank 0 in ", operation,
                           ", message number 1 on 'dp' of mesh dp=3, group {0..2}: arrived rank 0, missing ",
                           missing, "; 'dp' of mesh dp=3 cannot be used any more");
    };
    auto error = of_rank_0([](auto& on, auto& x) { on.send(x, 2); });
    EXPECT_EQ(without_seen(error.what()), text("send of 3 f32 to 2", "rank 2 [dp=2]"));
    EXPECT_EQ(error.missing, std::vector<int>{2});
    EXPECT_EQ(error.arrived, std::vector<int>{0});
    error = of_rank_0([](auto& on, auto& x) { on.start().recv(x, 1).wait(); });
    EXPECT_EQ(without_seen(error.what()), text("recv of 3 f32 from 1", "rank 1 [dp=1]"));
    error = of_rank_0([](auto& on, auto& x) {
        auto y = x;
        on.send_recv(x, 1, y, 2);
    });
    EXPECT_EQ(without_seen(error.what()),
              text("send_recv of 3 f32 to 1 and 3 from 2", "ranks 1 [dp=1], 2 [dp=2]"));
    EXPECT_EQ(error.missing, (std::vector<int>{1, 2}));
    error = of_rank_0([](auto& on, auto& x) {
        auto y = x;
        on.batch([&] {
            on.send(x, 0);
            on.recv(y, 0);
            on.recv(x, 2);
        });
    });
    EXPECT_EQ(without_seen(error.what()), text("recv of 3 f32 from 2", "rank 2 [dp=2]"));
}

TEST(Threads, ErrorsOfMessages_NameTheWorldRankBesideTheGroupRank) {
    auto absent = Absent();
    const auto error = error_of<Timeout>(4, [&](World& world) {
        auto pp = world.join({{"pp", 2}, {"tp", 2}}).on("pp").within(200ms);
        auto x = std::vector<float>(3);
        if (world.rank() != 1) return absent.stay();
        absent.outlast([&] { pp.send(x, 1); });
    });
    EXPECT_EQ(
        without_seen(error.what()),
        "the timeout of 200 ms expired on rank 1 in send of 3 f32 to 1 (world rank 3), message number 1 on "
        "'pp' of mesh pp=2 tp=2, group {1, 3}: arrived rank 1, missing rank 3 [pp=1 tp=1]; 'pp' of mesh "
        "pp=2 tp=2 cannot be used any more");
}

TEST(Threads, AMessageWithoutItsOtherHalfDoesNotHoldUpCollectives) {
    threads::run(2, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto early = std::vector<int>{1, 2, 3};
        auto got = std::vector<int>(3);
        auto pending = world.rank() == 0 ? on.start().send(early, 1) : Pending();
        for (int step = 0; step < 3; ++step) on.barrier();
        EXPECT_EQ(pending.done(), world.rank() == 1);
        on.barrier();
        if (world.rank() == 1) {
            on.recv(got, 0);
            EXPECT_EQ(got, early);
        }
        pending.wait();
    });
}

TEST(Threads, AMessageLeftByAnExceptionFreesItsBufferAndTellsItsPeer) {
    for (auto sends : {false, true}) {
        auto lost = std::atomic<int>{0};
        auto left = std::atomic<bool>{false};
        threads::run(2, [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            auto x = std::vector<float>(100, 1);
            if (world.rank() == 0) {
                try {
                    auto short_lived = std::vector<float>(100, 2);
                    auto pending = sends ? on.start().send(short_lived, 1) : on.start().recv(short_lived, 1);
                    throw std::runtime_error("boom");
                } catch (const std::runtime_error&) {
                    left = true;
                }
            }
            while (!left) std::this_thread::yield();
            try {
                if (world.rank() == 0)
                    on.barrier();
                else if (sends)
                    on.recv(x, 0);
                else
                    on.send(x, 0);
            } catch (const PeerLost& error) {
                EXPECT_EQ(
                    error.what(),
                    detail::cat("rank 0 left by an exception with a pending ",
                                sends ? "send of 100 f32 to 1" : "recv of 100 f32 from 1",
                                " on 'dp' of mesh dp=2; 'dp' of mesh dp=2, group {0, 1}, has lost rank 0 "
                                "[dp=0] and cannot be used any more"));
                ++lost;
            }
            EXPECT_EQ(x, std::vector<float>(100, 1));
        });
        EXPECT_EQ(lost, 2);
    }
}

TEST(Threads, AStartedMessageThatHasArrivedIsNotMissedWhenItsSenderLeaves) {
    threads::run(2, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<float>(100, static_cast<float>(world.rank()));
        if (world.rank() == 1) {
            on.recv(x, 0);
            on.barrier();
        } else {
            try {
                auto pending = on.start().send(x, 1);
                on.barrier();
                throw std::runtime_error("boom");
            } catch (const std::runtime_error&) {
            }
        }
        EXPECT_EQ(x, std::vector<float>(100, 0));
        on.barrier();
    });
}

TEST(Threads, AListOrABatchLeftByAnExceptionLetsGoOfItsBuffers) {
    for (auto batch : {false, true}) {
        auto lost = std::atomic<int>{0};
        auto left = std::atomic<bool>{false};
        threads::run(2, [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            auto x = std::vector<float>(100, 1);
            auto y = std::vector<int>(100, 1);
            if (world.rank() == 0) {
                try {
                    auto short_lived = x;
                    auto also = y;
                    const auto both = [&] {
                        on.send(short_lived, 1);
                        on.recv(also, 1);
                    };
                    auto pending =
                        batch ? on.start().batch(both) : on.start().all_reduce(Buffers(short_lived, also));
                    throw std::runtime_error("boom");
                } catch (const std::runtime_error&) {
                    left = true;
                }
                return;
            }
            while (!left) std::this_thread::yield();
            try {
                if (batch)
                    on.recv(x, 0);
                else
                    on.all_reduce(Buffers(x, y));
            } catch (const PeerLost& error) {
                EXPECT_EQ(error.ranks, std::vector<int>{0});
                ++lost;
            }
        });
        EXPECT_EQ(lost, 1);
    }
}

TEST(Threads, ATimeoutOfASetOfAxesIsThatOfItsCallsOnly) {
    const auto begin = std::chrono::steady_clock::now();
    threads::run(2, [](World& world) {
        auto me = world.join({{"dp", rest}, {"tp", 1}},
                             {.over = {Axes("dp").within(100ms), Axes("dp").separate("patient")}});
        if (world.rank() == 0) {
            try {
                me.on("dp").barrier();
                ADD_FAILURE() << "rank 1 has not come";
            } catch (const Timeout& error) {
                EXPECT_EQ(std::string(error.what()).find("the timeout of 100 ms expired"), 0U)
                    << error.what();
            }
        }
        me.on("patient").barrier();
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

namespace {

/// What a program says to the log, line by line, sorted.
std::vector<std::string> logged(int size, const std::function<void(World&)>& program) {
    auto lines = std::vector<std::string>{};
    auto mutex = std::mutex{};
    threads::run(size, program, {.log = [&](std::string_view line) {
                     const auto lock = std::lock_guard(mutex);
                     lines.emplace_back(line);
                 }});
    std::ranges::sort(lines);
    return lines;
}

bool has(const std::vector<std::string>& lines, const std::string& begin) {
    return std::ranges::any_of(lines, [&](const auto& line) { return line.starts_with(begin); });
}

}  // namespace

TEST(Threads, TheLogSaysWhatHappensWithWhoSaysIt) {
    const auto lines = logged(3, [](World& world) {
        world.join({{"pp", 1}, {"dp", rest}}).on("dp").barrier();
        world.join({{"tp", 2}}, {.partial = true});
        auto lazy = world.join({{"dp", rest}}, {.lazy = true});
        lazy.prepare("dp");
        world.sub({2, 0, 1}).join({{"ep", rest}});
    });
    EXPECT_EQ(lines.size(), 3U * 8) << testing::PrintToString(lines);
    for (int r = 0; r < 3; ++r) {
        for (const auto& begin :
             {detail::cat("[rank ", r, "] of 3 on threads, on host "),
              detail::cat("[pp=0 dp=", r, "] joined pp=1 dp=3 as rank ", r,
                          " of 3 on threads: 1 channels in "),
              detail::cat(r < 2 ? "[tp=" : "[rank ", r, "] joined tp=2 as rank ", r, " of 3 on threads: "),
              detail::cat("[dp=", r, "] joined dp=3 as rank ", r, " of 3 on threads: 0 channels in "),
              detail::cat("[dp=", r, "] prepared 'dp' of mesh dp=3"),
              detail::cat("[rank ", r, "] is rank ", (r + 1) % 3, " of a world of the ranks {2, 0, 1}"),
              detail::cat("[ep=", r, "] joined ep=3 as rank ", r, " of 3 on threads: 1 channels in ")})
            EXPECT_TRUE(has(lines, begin)) << begin << " is not in " << testing::PrintToString(lines);
    }
}

TEST(Threads, ALogThatThrowsChangesNothingAndCallsSayNothing) {
    threads::run(2,
                 [](World& world) {
                     world.join({{"dp", rest}}).on("dp").barrier();
                 },
                 {.log = [](std::string_view) { throw std::runtime_error("the disk is full"); }});
    auto calls = std::atomic<int>{0};
    threads::run(1,
                 [&](World& world) {
                     auto on = world.join({{"dp", rest}}).on("dp");
                     const auto before = calls.load();
                     auto x = 1.0f;
                     on.all_reduce(x);
                     on.all_reduce(Buffers(x));
                     EXPECT_EQ(calls, before);
                 },
                 {.log = [&](std::string_view) { ++calls; }});
    EXPECT_GE(calls, 2);
}

TEST(Threads, AMemberLeftByAnExceptionIsSaidToTheLog) {
    const auto lines = logged(2, [](World& world) {
        try {
            auto me = world.join({{"dp", rest}});
            throw std::runtime_error("boom");
        } catch (const std::runtime_error&) {
        }
    });
    EXPECT_TRUE(has(lines, "[rank 1] left its member by an exception")) << testing::PrintToString(lines);
}

TEST(Threads, MemoryThatAPendingCallUsesIsRefusedInAnother) {
    threads::run(2, [](World& world) {
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto on = me.on("dp");
        auto other = me.on("other");
        auto sub = world.sub({0, 1}).join({{"tp", rest}}).on("tp");
        auto x = std::vector<float>(8, 1);
        auto y = std::vector<float>(8, 1);
        const auto first = std::span(x).first(4);
        const auto last = std::span(x).last(5);  // one of `first` among them
        const auto refused = [](const std::function<void()>& call) { return text_of<UsageError>(call); };
        {
            auto writing = on.start().all_reduce(first);
            const auto* text =
                "all_reduce of 5 f32 by sum on 'other' of mesh dp=2 would write memory that a pending "
                "all_reduce "
                "of 4 f32 by sum on 'dp' of mesh dp=2 writes; wait for that first, or use another buffer";
            // On other communicators, in other worlds and on the same: the refused call is none.
            if (world.rank() == 0) {
                EXPECT_EQ(refused([&] { other.all_reduce(last); }), text) << "a call that blocks";
                EXPECT_EQ(refused([&] { static_cast<void>(other.start().all_reduce(last)); }), text);
                EXPECT_NE(refused([&] { sub.all_reduce(last); }).find("on 'tp' of mesh tp=2 would"),
                          std::string::npos);
                EXPECT_NE(
                    refused([&] { on.send(last, 1); })
                        .find("send of 5 f32 to 1 on 'dp' of mesh dp=2 would read memory that a pending "
                              "all_reduce of 4 f32 by sum on 'dp' of mesh dp=2 writes"),
                    std::string::npos);
            }
            on.all_reduce(std::span(x).last(4));  // beside it
            on.barrier();
            writing.wait();
        }
        other.all_reduce(last);  // once it is complete
        // Memory that is only read may be read again, and not written.
        auto reading = world.rank() == 0 ? on.start().send(x, 1) : on.start().recv(x, 0);
        other.all_reduce(y);
        if (world.rank() == 0) {
            auto again = other.start().send(x, 1);
            EXPECT_NE(
                refused([&] { other.recv(x, 1); }).find("would write memory that a pending send of 8 f32"),
                std::string::npos);
            again.wait();
        } else {
            other.recv(y, 0);
        }
        reading.wait();
        // What a rank neither sends nor gets is not used: the root of a broadcast only reads, the others of a
        // gather write nothing.
        auto all = std::vector<float>(16);
        auto broadcast = on.start().broadcast(x, 0);
        if (world.rank() == 0) {
            auto gather = other.start().gather(x, all, 0);
            broadcast.wait();
            gather.wait();
        } else {
            broadcast.wait();
            other.gather(x, all, 0);
        }
    });
}

TEST(Threads, AFailureThatWasThrownIsNotPrintedAgainForEachPendingCall) {
    testing::internal::CaptureStderr();
    auto absent = Absent();
    threads::run(
        2,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            if (world.rank() == 1) return absent.stay();
            auto x = 1.0f;
            auto y = 1.0f;
            auto z = 1.0f;
            absent.outlast([&] {
                auto first = on.start().all_reduce(x);
                auto second = on.start().all_reduce(y);
                EXPECT_THROW(first.wait(), Timeout);
            });
            EXPECT_THROW(on.all_reduce(z), Timeout);
        },
        soon);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    // That nobody has heard is.
    testing::internal::CaptureStderr();
    auto gone = Absent();
    threads::run(
        2,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            if (world.rank() == 1) return gone.stay();
            auto x = 1.0f;
            auto y = 1.0f;
            gone.outlast([&] {
                const auto first = on.start().all_reduce(x);
                const auto second = on.start().all_reduce(y);
            });
        },
        soon);
    const auto printed = testing::internal::GetCapturedStderr();
    EXPECT_EQ(printed.find("rankmesh: an operation that nobody waited for failed: the timeout of 200 ms"),
              0U);
    EXPECT_EQ(printed.find("nobody", 30), std::string::npos) << "it is said once: " << printed;
}

TEST(Threads, AWorldIsJoinedByATextWaitsForAllAndAViewIsHeldByAReference) {
    auto arrived = std::atomic<int>{0};
    threads::run(4, [&](World& world) {
        auto me = world.join("dp=* tp=2", {.name = "dense", .over = {{"dp", "tp"}}});
        auto& dense = me["dense"];
        EXPECT_EQ(dense.mesh(), (Mesh{{"dp", 2}, {"tp", 2}}));
        EXPECT_EQ(dense.on("dp", "tp").size(), 4);
        for (int turn = 1; turn < 20; ++turn) {
            ++arrived;
            world.barrier();
            EXPECT_GE(arrived, 4 * turn);
            auto moved = std::move(world);
            world = std::move(moved);
        }
        EXPECT_THROW(world.join("dp=* tp"), UsageError);
        EXPECT_THROW(world.join(std::string("tp=3")), UsageError);
    });
}

TEST(Threads, CountsAreAlsoGivenInBraces) {
    threads::run(3, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto own = static_cast<std::size_t>(on.rank() == 2 ? 2 : 1);
        const auto in = std::vector<int>(own, on.rank());
        auto all = std::vector<int>(4);
        on.all_gather_v(in, all, {1, 1, 2});
        EXPECT_EQ(all, (std::vector{0, 1, 2, 2}));
        on.gather_v(in, all, {1, 1, 2}, 1);
        auto part = std::vector<int>(own);
        on.scatter_v(all, {1, 1, 2}, part);
        EXPECT_EQ(part, in);
        const auto n = on.rank() + 1;  // to each
        const auto to = std::vector<int>(static_cast<std::size_t>(3 * n), on.rank());
        auto from = std::vector<int>(6);
        on.start().all_to_all_v(to, {n, n, n}, from, {1, 2, 3}).wait();
        EXPECT_EQ(from, (std::vector{0, 1, 1, 2, 2, 2}));
        EXPECT_EQ(text_of<UsageError>([&] {
                      on.all_gather_v(in, all, {1, 1, -2});
                  }),
                  text_of<UsageError>([&] {
                      on.all_gather_v(in, all, std::vector{1, 1, -2});
                  }));
        EXPECT_THROW(on.all_gather_v(in, all, {1, 3}), UsageError);
    });
}
