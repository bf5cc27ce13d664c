// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "engine/checked/collectives.hpp"
#include "engine/checked/messages.hpp"

namespace rankmesh::detail {

/// Compares what the members of one group call, on a channel of its own, before data moves.
///
/// Nothing here has a thread: what was started is compared on by every call that this thread makes on any
/// checked channel, so that a member that waits for one thing goes on with all others.
class CallMatcher : public std::enable_shared_from_this<CallMatcher> {
public:
    /// `settled` is called under the lock for each part that matches or fails, those of one kind in order.
    CallMatcher(std::shared_ptr<Channel> channel, const Ranks& ranks, int group_rank,
                std::function<void(CheckedCall&)> settled);

    /// What every call below is made under.
    std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

    /// Begins to compare; the part stays where it is until it is settled or withdrawn.
    ///
    /// Throws UsageError for a thread that may not call, and what the channel has failed with before.
    void add(CheckedCall& part);
    void withdraw(CheckedCall& part);
    /// Returns once `part` is settled.
    void settle(CheckedCall& part, Duration timeout);
    /// Returns once `is_over`, or once only waiting for that is left to do.
    void meanwhile(const std::function<bool()>& is_over, Duration timeout);
    /// Goes on with all that this thread has started, as far as that takes no waiting.
    void advance();
    /// Waits until the other end of a message has heard what this one has called.
    void tell(CheckedCall& part, Duration timeout);
    /// True if it has.
    bool is_told(const CheckedCall& part);
    /// This member is gone.
    void leave() noexcept { channel_->leave(); }
    /// Why nothing can be compared any more, null while it can.
    const std::exception_ptr& broken() const { return broken_; }

private:
    void advance_own();
    void break_with(std::exception_ptr error);
    bool is_last(int own) const;
    void settled(CheckedCall& part);

    const std::function<void(CheckedCall&)> settled_;
    std::mutex mutex_;
    std::vector<CheckedCall*> open_;  // not settled
    std::atomic<int> count_ = 0;      // of those
    std::exception_ptr broken_;
    // What is under way uses these; the channel goes first.
    Collectives collectives_;
    Messages messages_;
    const std::shared_ptr<Channel> channel_;
};

}  // namespace rankmesh::detail
