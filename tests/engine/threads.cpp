// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include <rankmesh/engine/threads.hpp>

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

const auto soon = WorldOptions{.deadline = 200ms};

/// The error that a world of `size` threads ends with.
template <class E>
E error_of(int size, const std::function<void(World&)>& program,
           const WorldOptions& options = {.deadline = 20s}) {
    try {
        threads::run(size, program, options);
    } catch (const E& error) {
        return error;
    }
    throw std::logic_error("the world ended without that error");
}

}  // namespace

TEST(Threads, AWorldOfNoRanksIsMisuse) {
    EXPECT_STREQ(error_of<Misuse>(0, [](World&) {}).what(),
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
                const auto at = [&](int now) {
                    if (world.rank() == victim && step == now) throw std::runtime_error("boom");
                };
                at(0);
                auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
                at(1);
                auto x = std::vector<float>(100, 1);
                me.on("dp").all_reduce(x);
                at(2);
                auto pending = me.on("tp").start_all_reduce(x);
                at(3);
                auto other = me.on("dp", "tp").start_barrier();
                at(4);
                pending.wait();
                at(5);
                me.on("tp").barrier();
                at(6);
                other.wait();
                at(7);
                me.on("dp", "tp").barrier();
            });
            EXPECT_STREQ(error.what(), "boom");
        }
}

TEST(Threads, APassedDeadlineNamesTheOperationTheGroupAndWhoIsMissing) {
    const auto error = error_of<Deadline>(
        4,
        [](World& world) {
            auto me = world.join({{"dp", 2}, {"tp", 2}});
            auto x = 1.0f;
            me.on("tp").all_reduce(x);
            if (world.rank() != 3) me.on("dp").all_reduce(x, rankmesh::max);
        },
        soon);
    EXPECT_STREQ(
        error.what(),
        "the deadline of 200 ms passed on rank 1 in all_reduce of 1 f32 by max, call number 1 on 'dp' of "
        "mesh "
        "dp=2 tp=2, group {1, 3}: arrived {1}, missing {3}; 'dp' of mesh dp=2 tp=2 can not be used any more");
    EXPECT_EQ(error.arrived, std::vector<int>{1});
    EXPECT_EQ(error.missing, std::vector<int>{3});
}

TEST(Threads, ARankThatNeverJoinsIsNamed) {
    const auto error = error_of<Deadline>(
        3,
        [](World& world) {
            if (world.rank() != 1) world.join({{"dp", rest}});
        },
        soon);
    EXPECT_EQ(error.missing, std::vector<int>{1});
    EXPECT_NE(std::string(error.what()).find("passed in join"), std::string::npos) << error.what();
}

TEST(Threads, EveryMemberOfAGroupHearsOfAPassedDeadlineAndSoDoesALateOne) {
    auto heard = std::atomic<int>{0};
    threads::run(
        3,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            if (world.rank() == 2) std::this_thread::sleep_for(600ms);
            try {
                on.barrier();
            } catch (const Deadline& error) {
                EXPECT_EQ(error.missing, std::vector<int>{2});
                ++heard;
            }
            EXPECT_THROW(on.barrier(), Deadline) << "a channel stays unusable";
        },
        soon);
    EXPECT_EQ(heard, 3);
}

TEST(Threads, ADeadlineCanBeSetForAMeshAndForACall) {
    const auto begin = std::chrono::steady_clock::now();
    threads::run(2, [](World& world) {
        auto me = world.join({{"dp", rest}}, {.deadline = 100ms});
        auto on = me.on("dp");
        if (world.rank() == 0) {
            EXPECT_THROW(on.barrier(), Deadline);
        }
        auto other = world.join({{"dp", rest}}).on("dp").within(100ms);
        if (world.rank() == 0) {
            EXPECT_THROW(other.barrier(), Deadline);
        }
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
            EXPECT_STREQ(error.what(),
                         "the ranks of 'dp' of mesh dp=3 call different operations: {0, 2} all_reduce of 3 "
                         "f32 by sum; {1} all_reduce of 2 f32 by sum");
            EXPECT_EQ(error.ranks, std::vector<int>{1});
            ++heard;
        }
        on.barrier();  // nothing was moved, so the channel goes on
    });
    EXPECT_EQ(heard, 3);
}

TEST(Threads, ARankThatCatchesItsOwnExceptionHasPoisonedTheMemberItLeft) {
    auto lost = std::atomic<int>{0};
    threads::run(3, [&](World& world) {
        try {
            auto me = world.join({{"dp", rest}});
            if (world.rank() == 1) throw std::runtime_error("boom");
            me.on("dp").barrier();
        } catch (const Lost& error) {
            EXPECT_EQ(error.ranks, std::vector<int>{1});
            ++lost;
        } catch (const std::runtime_error&) {
        }
        world.join({{"dp", rest}}).on("dp").barrier();  // the world itself is well
    });
    EXPECT_EQ(lost, 2);
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
                auto pending = on.start_all_reduce(short_lived);
                throw std::runtime_error("boom");
            } catch (const std::runtime_error&) {
                left = true;
            }
        }
        while (world.rank() == 2 && !left) std::this_thread::yield();
        try {
            on.all_reduce(x);  // rank 1 may be waiting in it, rank 2 is not
        } catch (const Lost& error) {
            EXPECT_STREQ(error.what(),
                         "rank 0 left by an exception with a pending all_reduce of 1000 f32 by sum on 'dp' "
                         "of mesh dp=3; "
                         "'dp' of mesh dp=3, group {0..2}, can not be used any more");
            EXPECT_EQ(error.ranks, std::vector<int>{0});
            ++lost;
        }
        EXPECT_EQ(x, std::vector<float>(1000, 1));
    });
    EXPECT_EQ(lost, 3);
}

TEST(Threads, AViewOfAMemberThatEndsWhileAnExceptionUnwindsPoisonsNothing) {
    threads::run(2, [](World& world) {
        auto me = world.join({{.name = "a", .mesh = {{"dp", rest}}}, {.name = "b", .mesh = {{"ep", rest}}}});
        auto three = std::vector<float>(3);
        auto four = std::vector<float>(4);
        EXPECT_THROW(me["a"].on("dp").all_to_all(three, four), Misuse);
        me["a"].on("dp").barrier();
    });
}

TEST(Threads, TwoThreadsOnOneCommunicatorAreRefusedAndOnTwoAreNot) {
    threads::run(2, [](World& world) {
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto on = me.on("dp");
        auto other = me.on("other");
        if (world.rank() == 1) {
            std::this_thread::sleep_for(300ms);
            on.barrier();
            other.barrier();
            return;
        }
        auto waiting = std::thread([&] { on.barrier(); });
        std::this_thread::sleep_for(100ms);
        auto same = me.on("dp");
        EXPECT_THROW(
            try { same.barrier(); } catch (const Misuse& error) {
                EXPECT_STREQ(error.what(),
                             "two threads use 'dp' of mesh dp=2 at once; one thread at a time may, declare "
                             "another channel "
                             "with .separate(\"name\") to overlap");
                throw;
            },
            Misuse);
        other.barrier();
        waiting.join();
    });
}

TEST(Threads, AMovedFromWorldAndMemberSaySo) {
    threads::run(1, [](World& world) {
        auto me = world.join({{"dp", rest}});
        auto moved = std::move(me);
        EXPECT_THROW(me.on("dp"), Misuse);
        EXPECT_THROW(me.rank(), Misuse);
        auto taken = std::move(world);
        EXPECT_THROW(world.join({{"dp", rest}}), Misuse);
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
            on->all_reduce(x);
            const std::function<void()> drop[] = {[&] { world.reset(); }, [&] { me.reset(); },
                                                  [&] { on.reset(); }};
            const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
            for (auto which : orders[order]) {
                drop[which]();
                if (on) on->all_reduce(x);
            }
        });
}

TEST(Threads, APendingThatMayNotBeWaitedForIsStillPending) {
    threads::run(2, [](World& world) {
        auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        if (world.rank() == 1) {
            std::this_thread::sleep_for(300ms);
            on.barrier();
            auto x = 1.0f;
            on.all_reduce(x);
            return;
        }
        auto waiting = std::thread([&] { on.barrier(); });
        std::this_thread::sleep_for(100ms);
        auto again = me.on("dp");
        auto x = 1.0f;
        EXPECT_THROW(again.start_all_reduce(x).wait(), Misuse) << "another thread is in the channel";
        waiting.join();
        auto pending = again.start_all_reduce(x);
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
        } catch (const Lost&) {
            ++lost;
        } catch (const std::runtime_error&) {
        }
    });
    EXPECT_EQ(lost, 1);
}

TEST(Threads, AMeshTakenFromATemporaryMemberPoisonsLikeTheMember) {
    auto lost = std::atomic<int>{0};
    threads::run(2, [&](World& world) {
        try {
            auto a = world.join(
                {{.name = "a", .mesh = {{"dp", rest}}}, {.name = "b", .mesh = {{"ep", rest}}}})["a"];
            if (world.rank() == 1) throw std::runtime_error("boom");
            a.on("dp").barrier();
        } catch (const Lost&) {
            ++lost;
        } catch (const std::runtime_error&) {
        }
    });
    EXPECT_EQ(lost, 1);
}

TEST(Threads, TheRankThatLeftFirstIsTheCauseHoweverLongItUnwinds) {
    struct Slow {
        ~Slow() { std::this_thread::sleep_for(100ms); }
    };
    const auto error = error_of<std::runtime_error>(2, [](World& world) {
        const auto slow = Slow{};
        auto me = world.join({{"dp", rest}});
        if (world.rank() == 1) throw std::runtime_error("disk full");
        try {
            me.on("dp").barrier();
        } catch (const Lost&) {
            throw std::runtime_error("step 7 failed");
        }
    });
    EXPECT_STREQ(error.what(), "disk full");
}

TEST(Threads, DeadlinesAreLongerThanNothingAndMayBeForEver) {
    EXPECT_STREQ(error_of<Misuse>(1, [](World&) {}, {.deadline = 0s}).what(),
                 "a deadline of 0 s; it must be longer than nothing");
    threads::run(2,
                 [](World& world) {
                     auto on = world.join({{"dp", rest}}).on("dp");
                     EXPECT_THROW(on.within(-5ms), Misuse);
                     on.within(std::chrono::nanoseconds::max()).barrier();
                 },
                 {.deadline = std::chrono::nanoseconds::max()});
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
        } catch (const Misuse& error) {
            EXPECT_STREQ(error.what(),
                         "rank 0 is not in pick 'front', which is {2, 1} here; use find(\"front\")");
        }
    });
}
