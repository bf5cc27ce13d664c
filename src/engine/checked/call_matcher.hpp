// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "engine/checked/collectives.hpp"
#include "engine/checked/messages.hpp"

namespace rankmesh::detail {

/// Compares the calls of a group's ranks, on a separate channel, before data moves.
///
/// It has no thread. Every call of a thread on any checked channel advances all comparisons that this thread
/// has started, so a rank that waits for one call goes on comparing the others.
class CallMatcher : public std::enable_shared_from_this<CallMatcher> {
public:
    /// Calls `settled` under the lock for each part that matches or fails: collectives in order, messages in
    /// order.
    CallMatcher(std::shared_ptr<Channel> channel, const Ranks& ranks, int group_rank, bool on_host,
                std::function<void(CheckedCall&)> settled)
        : rank_(ranks[group_rank]),
          settled_(std::move(settled)),
          collectives_(
              *channel, ranks, group_rank, on_host,
              {[this](CheckedCall& part) { this->settled(part); }, [this] { return messages_.gives_up(); },
               [this](const auto& dropped) { messages_.drop(dropped, *open_.front()->label); }}),
          messages_(*channel, ranks, group_rank, [this](CheckedCall& part) { this->settled(part); }),
          channel_(std::move(channel)) {}

    /// The lock under which every call below is made.
    std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

    /// Numbers a call, and begins to compare it. Its address must stay the same until it is settled or
    /// withdrawn.
    ///
    /// Throws UsageError if this thread may not call, and again the error with which the channel has failed.
    void add(CheckedCall& part);
    void withdraw(CheckedCall& part) {
        count_ -= static_cast<int>(std::erase(open_, &part));
        collectives_.withdraw(part);
        messages_.withdraw(part);
    }
    /// True if this thread has nothing to compare.
    bool is_idle() const { return is_last(0); }
    /// Returns once all parts of a call are settled. Messages whose peers wait in a collective are compared
    /// with that.
    void settle(std::deque<CheckedCall>& parts, Duration timeout);
    /// Returns the message that a probe asks for; without a timeout nothing if there is none. Throws the
    /// error with which the channel has failed, or Disagreement if its peers wait in a collective.
    std::optional<Message> probe(CheckedCall& part, std::optional<Duration> timeout);
    /// Advances comparisons until `is_over`, or until nothing else is left to compare.
    void meanwhile(const std::function<bool()>& is_over, Duration timeout);
    /// Advances all comparisons that this thread has started, without waiting.
    void advance();
    /// Waits until the peer of a message has the notice of this rank.
    void wait_for_notice(CheckedCall& part, Duration timeout);
    /// True if that would not wait.
    bool has_sent_notice(const CheckedCall& part) {
        return broken_ || !part.notice_ticket || channel_->done(*part.notice_ticket);
    }
    /// Tells the peers that this rank leaves.
    void leave() noexcept { channel_->leave(); }
    /// What the separate channel holds, which is never released.
    Channel::Holding holding() { return channel_->holding(); }
    /// The error that ended all comparisons, null while there is none.
    const std::exception_ptr& broken() const { return broken_; }
    /// True if that is an expired timeout.
    bool has_expired() const { return has_expired_; }

private:
    bool settle(CheckedCall& part, Duration timeout, bool refuses);
    /// Waits for the next step of a comparison, or for a peer that wants something else of this rank.
    void await(CheckedCall& part, Duration timeout) {
        if (!part.is_collective()) return messages_.wait(part, timeout);
        const auto in = collectives_.first();
        collectives_.wait(timeout, [&] { return messages_.has_news(*part.label, in); });
    }
    std::exception_ptr meet(std::span<CheckedCall* const> stuck, Duration timeout);
    void advance_own();
    void break_with(std::exception_ptr error);
    std::exception_ptr expired_in_comparison(const CheckedCall& part, Duration timeout,
                                             const Timeout& passed) const;
    bool is_last(int own) const;
    void settled(CheckedCall& part) {
        std::erase(open_, &part);
        --count_;
        part.settled = true;
        settled_(part);
    }

    const int rank_;  // of this process, in the world
    const std::function<void(CheckedCall&)> settled_;
    std::mutex mutex_;
    std::vector<CheckedCall*> open_;  // not settled
    std::atomic<int> count_ = 0;      // of those
    std::uint64_t called_ = 0;        // collectives
    std::uint64_t messages_called_ = 0;
    std::exception_ptr broken_;
    bool has_expired_ = false;
    // Operations in flight use these, so the channel is destroyed first.
    Collectives collectives_;
    Messages messages_;
    const std::shared_ptr<Channel> channel_;
};

}  // namespace rankmesh::detail
