// SPDX-License-Identifier: Apache-2.0
// How worlds of threads lose ranks, go on, and let others in: what every engine that grows is compared with.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/threads.hpp>

#include "engine/access.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using threads::JobHandle;

namespace {

/// The numbers of the ranks that are here, each of which gives its own.
std::vector<int> here(World& world, int number) {
    auto me = world.join({{"dp", rest}});
    auto sum = 1LL << number;
    me.on("dp").all_reduce(sum);
    auto numbers = std::vector<int>{};
    for (int each = 0; each < 32; ++each)
        if ((sum >> each & 1) != 0) numbers.push_back(each);
    return numbers;
}

/// Threads that enter a job, once its first rank has given a handle of it.
class Late {
public:
    ~Late() { join(); }
    void job(const World& world) { handle_.set_value(JobHandle(world)); }
    void enter(std::optional<int> place, const std::function<void(World&)>& program,
               WorldOptions options = {.timeout = 20s}) {
        threads_.emplace_back([this, place, program, options] {
            const auto handle = future_.get();
            auto world = handle.rejoin(place, options);
            program(world);
        });
    }
    void join() {
        for (auto& thread : threads_) thread.join();
        threads_.clear();
    }

private:
    std::promise<JobHandle> handle_;
    std::shared_future<JobHandle> future_ = handle_.get_future();
    std::vector<std::thread> threads_;
};

}  // namespace

TEST(Grow, ARankIsLostAndAnotherTakesItsPlaceUnderTheSameCoordinate) {
    auto late = Late{};
    auto entered = 0;
    late.enter(std::nullopt, [&](World& world) {
        EXPECT_EQ(world.rank(), 2);
        EXPECT_EQ(world.join({{"dp", 2}, {"tp", 2}}).prefix(), "[dp=1 tp=0]");
        EXPECT_EQ(here(world, 2), (std::vector{0, 1, 2, 3}));
        ++entered;
    });
    threads::run(4, [&](World& world) {
        const auto number = world.rank();
        auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
        if (number == 0) late.job(world);
        if (number == 2) return;
        EXPECT_THROW(while (true) me.on("dp", "tp").barrier(), PeerLost);
        auto smaller = world.survivors(20s);
        EXPECT_EQ(smaller.size(), 3);
        EXPECT_EQ(here(smaller, number), (std::vector{0, 1, 3}));
        auto whole = smaller.grow(1, 20s);
        EXPECT_EQ(whole.size(), 4);
        EXPECT_EQ(whole.rank(), number);
        EXPECT_EQ(whole.engine(), "threads");
        EXPECT_EQ(whole.local_size(), 4);
        EXPECT_EQ(whole.join({{"dp", 2}, {"tp", 2}}).prefix(),
                  detail::cat("[dp=", number / 2, " tp=", number % 2, "]"));
        EXPECT_EQ(here(whole, number), (std::vector{0, 1, 2, 3}));
    });
    late.join();
    EXPECT_EQ(entered, 1);
}

TEST(Grow, WorldsOfSomeRanksOfASmallerWorldBeginAnew) {
    threads::run(3, [](World& world) {
        if (world.rank() < 2) {
            auto two = world.sub({0, 1});
            if (world.rank() == 0) {  // the other one does not come
                EXPECT_EQ(two.survivors(200ms).size(), 1);
            }
        }
        auto rest = world.survivors(20s);
        EXPECT_EQ(rest.size(), 3);
        if (world.rank() < 2) {
            EXPECT_EQ(rest.sub({0, 1}).survivors(20s).size(), 2);
        }
    });
}

TEST(Grow, AWorldOfOneGrowsAndThoseThatEnteredLetOthersIn) {
    auto late = Late{};
    for (int number = 1; number < 3; ++number)
        late.enter(number, [number](World& world) {
            EXPECT_EQ(world.rank(), number);
            EXPECT_EQ(here(world, number), (std::vector{0, 1, 2}));
            auto larger = world.grow(1, std::chrono::nanoseconds::max());
            EXPECT_EQ(here(larger, number), (std::vector{0, 1, 2, 3}));
        });
    threads::run(1, [&](World& world) {
        late.job(world);
        auto larger = world.grow(2, 20s);
        EXPECT_EQ(here(larger, 0), (std::vector{0, 1, 2}));
        auto last = std::jthread([job = JobHandle(world)] {
            auto world = job.rejoin(std::nullopt, {.timeout = 20s});
            EXPECT_EQ(world.rank(), 3);
            EXPECT_EQ(here(world, 3), (std::vector{0, 1, 2, 3}));
        });
        auto largest = larger.grow(1, std::chrono::nanoseconds::max());
        EXPECT_EQ(here(largest, 0), (std::vector{0, 1, 2, 3}));
    });
}

TEST(Grow, WhereNobodyComesTheWorldAndItsCommunicatorsGoOn) {
    auto late = Late{};
    late.enter(std::nullopt, [&](World& world) { EXPECT_EQ(here(world, 2), (std::vector{0, 1, 2})); });
    threads::run(2, [&](World& world) {
        auto me = world.join({{"dp", rest}});
        EXPECT_EQ(
            text_of<Timeout>([&] { world.grow(2, 50ms); }),
            "the timeout of 50 ms expired in grow: no process has come to enter the job 'threads' in the "
            "memory of this process; the world of 2 ranks is as it was");
        auto x = 1;
        me.on("dp").all_reduce(x);
        EXPECT_EQ(x, 2);
        EXPECT_EQ(here(world, world.rank()), (std::vector{0, 1}));
        if (world.rank() == 0) late.job(world);
        auto larger = world.grow(1, 20s);
        EXPECT_EQ(here(larger, world.rank()), (std::vector{0, 1, 2}));
        me.on("dp").all_reduce(x);  // the first world is as usable as before
        EXPECT_EQ(x, 4);
    });
}

TEST(Grow, AnotherPlanIsADisagreementOnAllAndTheNextOneIsJoined) {
    auto late = Late{};
    const auto both = [&](World& world, const MeshSpec& mesh) {
        const auto text = text_of<Disagreement>([&] { world.join(mesh); });
        EXPECT_NE(text.find("the ranks join different plans"), std::string::npos) << text;
        EXPECT_EQ(here(world, world.rank()), (std::vector{0, 1, 2}));
    };
    late.enter(std::nullopt, [&](World& world) { both(world, {{"tp", 3}}); });
    threads::run(2, [&](World& world) {
        if (world.rank() == 0) late.job(world);
        auto larger = world.grow(1, 20s);
        both(larger, {{"dp", 3}});
    });
}

TEST(Grow, WhoEntersComparesCallsAsTheOthersDo) {
    auto late = Late{};
    const auto differ = [](World& world, int count) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<int>(static_cast<std::size_t>(count));
        EXPECT_THROW(on.all_reduce(x), Disagreement);
        on.barrier();
    };
    late.enter(std::nullopt, [&](World& world) { differ(world, 2); });
    threads::run(2,
                 [&](World& world) {
                     if (world.rank() == 0) late.job(world);
                     auto larger = world.grow(1, 20s);
                     differ(larger, 1);
                 },
                 {.checked = true});
}

TEST(Grow, ARankThatFailsIsLostToTheOthersAndItsErrorIsThrownAtTheEnd) {
    auto went_on = std::atomic<int>{0};
    const auto text = text_of<EngineFailure>([&] {
        threads::run(3, [&](World& world) {
            auto me = world.join({{"dp", rest}});
            if (world.rank() == 1) throw EngineFailure("it broke");
            EXPECT_THROW(while (true) me.on("dp").barrier(), PeerLost);
            auto smaller = world.survivors(20s);
            EXPECT_EQ(here(smaller, world.rank()), (std::vector{0, 2}));
            ++went_on;
        });
    });
    EXPECT_EQ(text, "it broke");
    EXPECT_EQ(went_on, 2);
}

TEST(Grow, AThreadThatEntersAndFailsIsLostToTheOthers) {
    auto late = Late{};
    late.enter(std::nullopt, [](World& world) {
        try {
            auto own = std::move(world);
            auto me = own.join({{"dp", rest}});
            throw EngineFailure("it broke");
        } catch (const EngineFailure&) {
        }
    });
    threads::run(2, [&](World& world) {
        if (world.rank() == 0) late.job(world);
        auto larger = world.grow(1, 20s);
        auto me = larger.join({{"dp", rest}});
        EXPECT_THROW(while (true) me.on("dp").barrier(), PeerLost);
        EXPECT_EQ(here(world, world.rank()), (std::vector{0, 1}));
        auto smaller = larger.survivors(20s);
        EXPECT_EQ(here(smaller, world.rank()), (std::vector{0, 1}));
    });
}

TEST(Grow, ARankThatEndsMeanwhileIsNamedOnAllAndTheOthersGrowWithoutIt) {
    auto late = Late{};
    for (int i = 0; i < 2; ++i)
        late.enter(std::nullopt, [](World& world) {
            EXPECT_EQ(world.size(), 4);
            here(world, world.rank());
        });
    threads::run(4, [&](World& world) {
        const auto number = world.rank();
        world.join({{"dp", rest}}).on("dp").barrier();
        if (number == 1 || number == 3) return;
        if (number == 0) late.job(world);
        EXPECT_THROW(world.grow(4, 20s), PeerLost);
        auto smaller = world.survivors(20s);
        auto whole = smaller.grow(2, 20s);
        EXPECT_EQ(whole.rank(), number);
        EXPECT_EQ(here(whole, number), (std::vector{0, 1, 2, 3}));
    });
}

TEST(Grow, WhatCannotEnterSaysWhatCan) {
    EXPECT_EQ(text_of<UsageError>([] { World::rejoin({.engine = "mpi"}); }),
              "no process enters a running world on the engine 'mpi'; worlds grow on the engine 'gloo', with "
              "RANKMESH_STORE and processes that are started one by one");
    threads::run(2, [](World& world) {
        auto part = world.sub({world.rank()});
        EXPECT_EQ(
            text_of<UsageError>([&] { part.grow(1, 1s); }),
            "rank 0 asks for more ranks of a world that sub() made; the world that the job started with "
            "grows, and those that survivors() and grow() made of it");
        const auto job = JobHandle(world);
        EXPECT_EQ(text_of<UsageError>([&] { job.rejoin(-1); }),
                  "rank -1 of a running job is asked for; ranks are 0 or more");
        EXPECT_EQ(
            text_of<Timeout>([&] { job.rejoin(1, {.timeout = 50ms}); }),
            "the timeout of 50 ms expired in rejoin: the ranks of the job 'threads' in the memory of this "
            "process have let no process in that asks for place 1; they do when all of them call grow()");
        auto moved = std::move(part);
        EXPECT_EQ(text_of<UsageError>([&] { part.grow(1, 1s); }), "this world was moved from");
    });
}

// Each cycle a rank ends, which may be the first, the others go on, and a new thread takes its place.
TEST(Grow, RanksLostAndReplacedManyTimesGiveTheRightSums) {
    constexpr auto size = 4;
    constexpr auto cycles = 50;
    auto random = std::mt19937(17);
    auto victims = std::vector<int>{};
    for (int i = 0; i < cycles; ++i) victims.push_back(static_cast<int>(random() % size));
    auto all = std::vector{0, 1, 2, 3};
    auto mutex = std::mutex{};
    auto newcomers = std::deque<std::thread>{};
    auto sums = std::atomic<int>{0};
    // What a rank does from cycle `begin` on, with a world of all.
    std::function<void(World&, int)> work = [&](World& world, int begin) {
        const auto number = world.rank();
        for (auto cycle = begin; cycle < cycles; ++cycle) {
            EXPECT_EQ(here(world, number), all);
            ++sums;
            auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
            const auto victim = victims[static_cast<std::size_t>(cycle)];
            if (victim == number) {
                const auto lock = std::lock_guard(mutex);
                newcomers.emplace_back([&work, cycle, number, job = JobHandle(world)] {
                    auto entered = job.rejoin(number, {.timeout = 20s});
                    EXPECT_EQ(entered.rank(), number);
                    work(entered, cycle + 1);
                });
                return;
            }
            EXPECT_THROW(while (true) me.on("dp", "tp").barrier(), PeerLost);
            auto smaller = world.survivors(20s);
            auto others = all;
            std::erase(others, victim);
            EXPECT_EQ(here(smaller, number), others);
            ++sums;
            world = smaller.grow(1, 20s);
            EXPECT_EQ(world.rank(), number);
        }
        EXPECT_EQ(here(world, number), all);
    };
    threads::run(size, [&](World& world) { work(world, 0); });
    for (std::size_t i = 0;; ++i) {
        auto* next = static_cast<std::thread*>(nullptr);
        {
            const auto lock = std::lock_guard(mutex);  // those that run start others
            if (i == newcomers.size()) break;
            next = &newcomers[i];
        }
        next->join();
    }
    EXPECT_EQ(sums, cycles * (size + size - 1));
}
