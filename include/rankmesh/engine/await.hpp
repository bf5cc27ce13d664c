// SPDX-License-Identifier: Apache-2.0
// CompletionQueue: functions and coroutines that continue when started operations are complete.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/pending.hpp>

namespace rankmesh {

/// Started operations, each with a function or a coroutine that continues once the operation is complete.
///
/// No engine continues anything by itself: MPI has no thread for that, and a timeout expires only where a
/// thread waits. The thread that calls run(), run_one() or poll() waits for all operations in the queue, as
/// wait_any does. From there it passes what continues to the executor. Only one thread at a time may use a
/// queue, and the communicators of the operations in it.
///
/// An executor runs a function, now or later: `[&](std::function<void()> next) { loop.post(next); }`. The
/// default runs it at once, on the thread that waits. If an executor runs functions on another thread, these
/// must not use the queue or communicators that have operations in it.
///
/// A timeout runs from when its operation came into the queue. Operations may be on several communicators.
///
///     void finish(Pending sum, Pending other, const std::function<void(std::exception_ptr)>& next) {
///         auto queue = CompletionQueue();
///         queue.then(std::move(sum), next);
///         queue.then(std::move(other), next);
///         queue.run();
///     }
class RANKMESH_EXPORT CompletionQueue {
public:
    using Executor = std::function<void(std::function<void()>)>;

    explicit CompletionQueue(Executor executor = {});
    /// Waits for the operations that were passed to `then`, as the destructor of Pending does, and calls
    /// nothing. Coroutines in the queue never continue.
    ~CompletionQueue();
    CompletionQueue(const CompletionQueue&) = delete;
    CompletionQueue& operator=(const CompletionQueue&) = delete;

    /// Calls `next` once the operation is complete: with null, or with what its wait() throws.
    void then(Pending pending, std::function<void(std::exception_ptr)> next);

    /// What wait() returns.
    class [[nodiscard]] Awaitable {
    public:
        Awaitable(CompletionQueue& queue, Pending& pending) : queue_(queue), pending_(pending) {}
        Awaitable(const Awaitable&) = delete;
        Awaitable& operator=(const Awaitable&) = delete;
        ~Awaitable() {
            if (place_ != 0) queue_.remove(place_);
        }
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> coroutine) {
            place_ = queue_.add(pending_, [this, coroutine](std::exception_ptr error) {
                place_ = 0;
                error_ = std::move(error);
                coroutine.resume();
            });
        }
        void await_resume() const {
            if (error_) std::rethrow_exception(error_);
        }

    private:
        CompletionQueue& queue_;
        Pending& pending_;
        std::uint64_t place_ = 0;
        std::exception_ptr error_;
    };
    /// `co_await queue.wait(dp.start_all_reduce(x))` suspends a coroutine until the operation is complete,
    /// and returns or throws as its wait() does. `pending` lives until then. Do not destroy a coroutine that
    /// the executor is to continue; before that, the queue forgets it.
    Awaitable wait(Pending& pending) { return {*this, pending}; }
    Awaitable wait(Pending&& pending) { return {*this, pending}; }

    /// Waits until one operation is complete, and passes what continues to the executor. Returns false if
    /// the queue is empty.
    bool run_one();
    /// Calls run_one until the queue is empty.
    void run() {
        while (run_one()) {
        }
    }
    /// Like run_one, but does not wait: returns false if no operation is complete.
    bool poll();

private:
    struct Entry;
    std::uint64_t add(Pending& pending, std::function<void(std::exception_ptr)> next);
    void remove(std::uint64_t place) noexcept;
    bool continue_one(bool blocks);

    Executor executor_;
    std::vector<Entry> entries_;
    std::uint64_t last_ = 0;
};

}  // namespace rankmesh
