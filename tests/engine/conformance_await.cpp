// SPDX-License-Identifier: Apache-2.0
// Functions and coroutines that continue when operations are complete.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <stdexcept>
#include <utility>

#include <rankmesh/engine/await.hpp>

#include "conformance.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

/// A coroutine that runs at once and keeps its exception.
struct Task {
    struct promise_type {
        Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { error = std::current_exception(); }
        std::exception_ptr error;
    };
    std::coroutine_handle<promise_type> coroutine;

    explicit Task(std::coroutine_handle<promise_type> own) : coroutine(own) {}
    Task(Task&& other) noexcept : coroutine(std::exchange(other.coroutine, nullptr)) {}
    Task& operator=(Task&&) = delete;
    ~Task() {
        if (coroutine) coroutine.destroy();
    }
    bool done() const { return coroutine.done(); }
    void result() const {
        if (coroutine.promise().error) std::rethrow_exception(coroutine.promise().error);
    }
};

/// Sums one after the other, each of what the last one has made.
Task sums(Communicator& on, int turns, int& x, CompletionQueue& queue) {
    for (int turn = 0; turn < turns; ++turn) co_await queue.wait(on.start_all_reduce(x));
}

/// Receives from any rank, and says from which.
Task receive(Communicator& on, int& x, int& from, CompletionQueue& queue) {
    auto pending = on.start_recv(x, any_rank, 5);
    co_await queue.wait(pending);
    from = pending.sender();
}

}  // namespace

TEST(Conformance, Coroutines_OnSeveralAxes_ContinueWithTheirSums) {
    on_every_rank([](World& world) {
        for (const auto& mesh : meshes_of(world.size())) {
            const auto me = world.join({mesh});
            auto ons = std::deque<Communicator>{};
            auto x = std::vector<int>{};
            for (const auto& axis : axes_of(mesh)) ons.push_back(me.on(axis)), x.push_back(1);
            auto queue = CompletionQueue();
            auto tasks = std::deque<Task>{};
            for (std::size_t i = 0; i < ons.size(); ++i) tasks.push_back(sums(ons[i], 3, x[i], queue));
            queue.run();
            for (std::size_t i = 0; i < ons.size(); ++i) {
                EXPECT_TRUE(tasks[i].done());
                const auto n = ons[i].size();
                EXPECT_EQ(x[i], n * n * n);
            }
        }
    });
}

TEST(Conformance, Coroutine_OfARecvFromAnyRank_KnowsTheSender) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (on.size() == 1) return;
        auto x = 10 + on.rank();
        auto queue = CompletionQueue();
        if (on.rank() == 1) on.send(x, 0, 5);
        if (on.rank() > 0) return;
        auto from = -1;
        const auto task = receive(on, x, from, queue);
        EXPECT_FALSE(task.done());
        while (queue.run_one()) {
        }
        EXPECT_TRUE(task.done());
        EXPECT_EQ(from, 1);
        EXPECT_EQ(x, 11);
    });
}

TEST(Conformance, Completions_WithAnExecutor_ArePassedToIt) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto posted = std::deque<std::function<void()>>{};
        auto queue = CompletionQueue([&](std::function<void()> next) { posted.push_back(std::move(next)); });
        auto x = std::vector<int>(3, 1);
        auto sums = 0;
        for (auto& each : x)
            queue.then(on.start_all_reduce(each), [&](std::exception_ptr error) {
                EXPECT_FALSE(error);
                sums += each;
            });
        auto calls = 0;
        queue.then(Pending(), [&](std::exception_ptr) { ++calls; });  // nothing is pending
        while (!queue.poll()) {
        }
        EXPECT_EQ(posted.size(), 1U);
        queue.run();
        EXPECT_EQ(posted.size(), 4U);
        EXPECT_EQ(sums, 0);  // it was only posted
        for (const auto& next : posted) next();
        EXPECT_EQ(sums, 3 * on.size());
        EXPECT_EQ(calls, 1);
        EXPECT_FALSE(queue.run_one());
        EXPECT_FALSE(queue.poll());
    });
}

TEST(Conformance, Completions_WhenATimeoutExpires_GetTheError) {
    on_every_rank([](World& world) {
        if (world.engine() == "mpi" || world.size() == 1) return;  // there it ends the job
        const auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto other = me.on("other");
        if (world.rank() == 0) {
            auto on = me.on("dp").within(100ms);
            auto queue = CompletionQueue();
            auto x = std::vector<int>(2, 1);
            auto missing = std::vector<int>{};
            queue.then(on.start_recv(x[0], 1), [&](std::exception_ptr error) {
                try {
                    if (error) std::rethrow_exception(error);
                } catch (const Timeout& expired) {
                    missing = expired.missing;
                }
            });
            const auto task = sums(other, 1, x[1], queue);
            queue.run();
            EXPECT_EQ(missing, std::vector{1});
            EXPECT_TRUE(task.done());
            EXPECT_EQ(x[1], other.size());
            const auto failed = sums(on, 2, x[0], queue);  // start throws, and nothing is left to wait for
            EXPECT_TRUE(failed.done());
            EXPECT_THROW(failed.result(), Error);
            EXPECT_FALSE(queue.run_one());
        } else {
            auto x = 1;
            other.start_all_reduce(x).wait();
        }
        other.barrier();
    });
}

TEST(Conformance, Completions_WhenACoroutineIsDestroyed_AreForgotten) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = 1;
        auto y = 1;  // outlives the queue, which waits for it
        auto queue = CompletionQueue();
        {
            const auto task = sums(on, 1, x, queue);
            EXPECT_FALSE(task.done());
        }  // its Pending waits
        EXPECT_EQ(x, on.size());
        EXPECT_FALSE(queue.run_one());
        queue.then(on.start_all_reduce(y), [](std::exception_ptr) { ADD_FAILURE(); });
    });
}
