// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "engine/bell.hpp"
#include "engine/diagnosis/attendance.hpp"
#include "engine/diagnosis/cause.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {

/// The shared state of the ranks of one group: each posts its calls; the last one to arrive runs a collective
/// for all, the later end of a message copies it, all under the lock.
///
/// It is kept simple: it is the reference that every other engine is compared with.
class SharedGroup {
public:
    /// What missing ranks do, in words, for the error of an expired timeout; may ask other groups.
    using Seen = std::function<std::string(const std::vector<int>& missing, const Label& label)>;
    SharedGroup(std::vector<int> ranks, Seen seen)
        : seen_(std::move(seen)),
          ranks_(std::move(ranks)),
          collectives_(ranks_.size(), 0),
          messages_(ranks_.size(), 0),
          from_any_(ranks_.size()),
          probes_(ranks_.size()) {}

    const std::vector<int>& ranks() const { return ranks_; }

    /// Posts calls of the rank `group_rank`; the ticket identifies all of them.
    std::uint64_t post(int group_rank, std::span<const Call> calls, const Label& label);
    /// Returns once they are complete; throws Timeout, PeerLost, or Disagreement if calls do not match.
    /// Errors of a step that is not an operation name it by `phrase`. Returns the sender of a recv from any
    /// rank, else -1; nothing, and keeps the ticket, once `is_interrupted`.
    std::optional<int> wait(std::uint64_t ticket, const Label& label, Duration timeout,
                            std::string_view phrase = {},
                            const std::function<bool()>& is_interrupted = nullptr);
    bool done(std::uint64_t ticket) {
        const auto lock = std::lock_guard(mutex_);
        const auto& posted = posted_.at(ticket);
        return failure_ || posted.done() || hopeless(posted);
    }
    /// Sets what rings for a rank when anything changes, null: nothing.
    void set_bell(int group_rank, Bell* bell) {
        const auto lock = std::lock_guard(mutex_);
        if (bell)
            bells_[group_rank] = bell;
        else
            bells_.erase(group_rank);
    }
    /// The message that a probe of `group_rank` asks for; without a timeout nothing if there is none.
    std::optional<Message> probe(int group_rank, const Call& call, const Label& label,
                                 std::optional<Duration> timeout);
    /// The ranks that `rank` waits for, none if it waits for nothing here.
    std::vector<int> awaited(int rank);
    /// Stops using the buffers of a ticket, and fails the group as `cause` says unless all its calls are
    /// messages that are complete. A complete collective fails it too: on other engines it would still be
    /// under way.
    void withdraw(std::uint64_t ticket, const Label& label, const Cause& cause) noexcept;
    /// Makes every present and later call of every rank throw this.
    void fail(const Failure& failure) noexcept {
        const auto lock = std::lock_guard(mutex_);
        if (failure_) return;
        failure_ = failure;
        tell_change();
    }
    /// Makes every present and later call that needs this rank throw PeerLost: it makes no more. `how`: `has
    /// returned`. Calls that do not need it, such as messages between others, go on.
    void end(int rank, const std::string& how) noexcept {
        const auto lock = std::lock_guard(mutex_);
        ended_.emplace(rank, how);
        tell_change();
    }
    void throw_if_failed(const Label& label) {
        const auto lock = std::lock_guard(mutex_);
        if (failure_) failure_->raise(label);
    }
    std::optional<Failure> failure() {
        const auto lock = std::lock_guard(mutex_);
        return failure_;
    }

private:
    /// One call of one member.
    struct Entry {
        int group_rank;
        std::uint64_t number;  // from 1: among this member's collectives, or its messages
        OwnedCall call;
        int open = 1;  // ends that have no match yet: two of a send_recv
        std::shared_ptr<const Failure> mismatch = nullptr;
        std::uint64_t order = 0;  // of a message: among all messages of the group
        int sender = -1;          // of what a recv from any rank has received
    };
    struct Posted {
        std::deque<Entry> entries;  // which do not move
        bool waited = false;        // its rank is in wait()
        bool done() const;
    };
    /// One collective, until all members have posted it.
    struct Round {
        std::vector<Entry*> entries;  // by group rank
        int posted = 0;
    };
    /// Messages from one member to another that wait for their other half.
    struct Lane {
        std::deque<Entry*> sends;
        std::deque<Entry*> receives;
    };
    /// Wakes all who wait for a change. Called under the lock.
    void tell_change() noexcept {
        changed_.notify_all();
        for (const auto& [group_rank, bell] : bells_) bell->ring();
    }
    void add(Entry& entry, const Label& label);
    void match(int from, int to, const Label& label);
    void move(Entry& send, Entry& receive, int to, const Label& label);
    /// The first recv of `to` from any rank that a message with this tag may be for.
    std::deque<Entry*>::iterator from_any(int to, std::uint16_t tag) {
        return std::ranges::find_if(from_any_[static_cast<std::size_t>(to)],
                                    [tag](const Entry* each) { return each->call.tag == tag; });
    }
    const Entry* first_sent(int to, const Call& call) const;
    /// The mismatch in a complete round; nothing if its calls match.
    std::shared_ptr<const Failure> compare(const Round& round, const Label& label) const;
    /// The Timeout of `entry`: the ranks that have arrived and those that have not.
    Attendance attendance(const Entry& entry) const;
    /// The ranks without which `entry` cannot complete, and that make no more calls.
    std::vector<int> ended(const Entry& entry) const;
    void answer_probes(int group_rank);
    /// The first incomplete entry that waits for such a rank, null if there is none.
    const Entry* hopeless(const Posted& posted) const {
        for (const auto& entry : posted.entries)
            if (!ended(entry).empty()) return &entry;
        return nullptr;
    }
    int rank(int group_rank) const { return ranks_[static_cast<std::size_t>(group_rank)]; }

    const Seen seen_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<int, Bell*> bells_;  // by group rank
    const std::vector<int> ranks_;
    std::map<std::uint64_t, Posted> posted_;  // by ticket, until waited for
    std::uint64_t next_ticket_ = 0;
    std::vector<std::uint64_t> collectives_;  // by group rank: how many it has called
    std::vector<std::uint64_t> messages_;
    std::deque<Round> rounds_;
    std::uint64_t first_ = 1;  // the number of rounds_.front()
    std::map<std::pair<int, int>, Lane> lanes_;
    std::vector<std::deque<Entry*>> from_any_;  // by group rank: receives from any rank without a message
    std::vector<std::deque<Entry*>> probes_;    // by group rank: those that wait
    std::uint64_t order_ = 0;
    std::map<int, std::string> ended_;  // how, by rank
    std::optional<Failure> failure_;
};

}  // namespace rankmesh::detail
