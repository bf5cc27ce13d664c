// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/record/recorder.hpp"
#include "engine/store/store.hpp"
#include "engine/threads/shared_group.hpp"

namespace rankmesh::detail {

/// The ranks of a job that send no more, and why: kept once for all its mailboxes, of which each has its own
/// lock, since every rank leaves at last.
class Departures {
public:
    /// The first reason of a rank stays.
    void add(int rank, const Failure& why) {
        const auto lock = std::lock_guard(mutex_);
        left_.emplace(rank, why);
    }
    /// Why a rank has left; nothing if it has not.
    std::optional<Failure> why(int rank) const {
        const auto lock = std::lock_guard(mutex_);
        const auto found = left_.find(rank);
        return found == left_.end() ? std::nullopt : std::optional(found->second);
    }

private:
    mutable std::mutex mutex_;
    std::map<int, Failure> left_;  // why, by rank
};

/// The messages to one rank: those of join, which sends some only when plans differ, and those of groups that
/// are made at run time.
class Mailbox {
public:
    void put(int from, const std::string& message) {
        const auto lock = std::lock_guard(mutex_);
        messages_.emplace_back(from, message);
        arrived_.notify_all();
    }
    void post(int from, const std::string& message) {
        const auto lock = std::lock_guard(mutex_);
        posts_[from].push_back(message);
        arrived_.notify_all();
    }
    /// The next that each of `from` has told, at least one; none once `until` has come. Throws PeerLost if
    /// one of them has left without.
    std::vector<std::pair<int, std::string>> collect(const Departures& left, const std::string& phase,
                                                     std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until);
    /// Throws PeerLost if `from` has left without a message. That others have left says nothing: a rank that
    /// knows how plans differ leaves before those that are still told.
    std::string take(const Departures& left, int from, Duration timeout);
    /// Lets who waits look again, after an addition to the departures.
    void look() noexcept {
        if (waiting_ == 0) return;  // who begins to wait later reads the departures then
        const auto lock = std::lock_guard(mutex_);
        arrived_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::atomic<int> waiting_ = 0;  // raised before the departures are read, which `look` counts on
    std::deque<std::pair<int, std::string>> messages_;
    std::map<int, std::deque<std::string>> posts_;  // by rank
};

/// The shared state of the ranks of one threads::run.
class Job : public std::enable_shared_from_this<Job> {
public:
    /// `members`: the ranks in the parent job of one that is a part of it.
    explicit Job(int size, const std::shared_ptr<Job>& parent = nullptr, std::vector<int> members = {})
        : size(size),
          world(group_of(first_ranks(size))),
          mailboxes(static_cast<std::size_t>(size)),
          parent_(parent),
          members_(std::move(members)),
          recorders_(static_cast<std::size_t>(size)),
          alive_(static_cast<std::size_t>(size)),
          returned_(static_cast<std::size_t>(size), false) {}

    /// The rank here of a rank of the parent, -1 if it has none.
    int number_of(int parents_rank) const { return position_of(members_, parents_rank); }

    /// The shared group with this key; each of its ranks calls this once, as `rank`.
    std::shared_ptr<SharedGroup> group(int rank, const std::string& key, const std::vector<int>& ranks);
    /// The job of these ranks, the `turn`-th that they make; each of them calls this as `rank`.
    std::shared_ptr<Job> sub(int rank, const std::vector<int>& ranks, int turn);
    /// Fails the groups of a rank, existing and later ones, since it leaves; its first call decides the
    /// error.
    void fail(int rank, const Failure& why) noexcept;

    /// Fails the groups of all ranks, and the groups of the jobs that were made of this job, because a rank
    /// makes a new job of the remaining ranks. A second call also ends the jobs that were made after the
    /// first.
    void renew(const Failure& why) noexcept;
    /// Ranks that were left have made a job of these ranks.
    void made(const std::shared_ptr<Job>& job, std::vector<int> ranks) {
        const auto lock = std::lock_guard(mutex_);
        std::erase_if(made_,
                      [&](const auto& each) { return each.first.expired() || each.first.lock() == job; });
        made_.emplace_back(job, std::move(ranks));
    }

    /// Records that the program of a rank has returned, which says how it ends.
    void returned(int rank) noexcept {
        const auto lock = std::lock_guard(mutex_);
        returned_[static_cast<std::size_t>(rank)] = true;
    }
    /// Records that nothing is left of a rank's world: every present and later call that needs it throws
    /// PeerLost.
    void end(int rank) noexcept;

    /// The ranks of whose world nothing is left, and those that left it by an exception.
    std::vector<int> ended() {
        const auto lock = std::lock_guard(mutex_);
        auto ranks = ended_;
        for (const auto& [rank, why] : failed_) ranks.push_back(rank);
        return ranks;
    }

    /// Records that a rank fails by an exception, before its peers can notice.
    void left(int rank) noexcept {
        auto nobody = -1;
        first_left_.compare_exchange_strong(nobody, rank);
        if (const auto parent = parent_.lock()) parent->left(members_[static_cast<std::size_t>(rank)]);
    }
    /// The rank that failed first, -1 if none has.
    int first_left() const { return first_left_; }

    /// Sets the record of a rank.
    void record(int rank, const std::shared_ptr<Recorder>& recorder) {
        const auto lock = std::lock_guard(recording_);
        recorders_[static_cast<std::size_t>(rank)] = recorder;
    }
    /// The record of a rank; null while it has not begun, and once it has ended.
    std::shared_ptr<Recorder> recorder(int rank) const {
        const auto lock = std::lock_guard(recording_);
        const auto& known = recorders_[static_cast<std::size_t>(rank)];
        return known ? known->lock() : nullptr;
    }
    /// `is in barrier, ...`.
    std::string doing(int rank) const {
        if (const auto known = recorder(rank)) return cat("is ", known->doing());
        const auto lock = std::lock_guard(recording_);
        return recorders_[static_cast<std::size_t>(rank)] ? "is gone: it has left the world"
                                                          : "has not begun";
    }
    /// What the missing ranks do, and those that they wait for in turn.
    std::string seen(const std::vector<int>& missing, const Label& label);

    const int size;
    const std::shared_ptr<SharedGroup> world;
    Departures departures;
    std::vector<Mailbox> mailboxes;  // by rank

private:
    /// This job outlives its groups' calls: the channels that make them hold both.
    std::shared_ptr<SharedGroup> group_of(std::vector<int> ranks) {
        return std::make_shared<SharedGroup>(
            std::move(ranks),
            [this](const std::vector<int>& missing, const Label& label) { return seen(missing, label); });
    }
    /// The ranks that a rank waits for in a call.
    std::vector<int> awaited(int rank);

    template <class T>
    struct Shared {
        std::shared_ptr<T> object;
        std::vector<int> taken;  // by these ranks
    };
    std::string how_ended(int rank) const {
        return returned_[static_cast<std::size_t>(rank)] ? "has returned" : "has left its world";
    }
    void depart(int rank, const Failure& why) {
        departures.add(rank, why);
        for (auto& box : mailboxes) box.look();
    }
    /// Fails the groups of a rank of the parent, if it has a rank here; `failure` names ranks of the parent.
    void fail_by_parent(int rank, Failure failure) noexcept;

    using Entry = Shared<SharedGroup>;
    const std::weak_ptr<Job> parent_;  // the parent job, which outlives this one
    const std::vector<int> members_;
    std::atomic<int> first_left_ = -1;
    std::mutex mutex_;
    mutable std::mutex recording_;
    std::vector<std::optional<std::weak_ptr<Recorder>>> recorders_;  // by rank, once it has begun
    std::map<std::pair<std::string, int>, Entry> groups_;  // by key and first rank, until every member has it
    std::vector<std::vector<std::weak_ptr<SharedGroup>>> alive_;  // by rank: those that it is in
    std::map<std::pair<std::vector<int>, int>, Shared<Job>>
        making_;  // sub-jobs, until every rank has its own
    std::vector<std::weak_ptr<Job>> subs_;
    std::vector<std::pair<std::weak_ptr<Job>, std::vector<int>>> made_;  // of the ranks that were left
    std::vector<std::pair<int, Failure>> failed_;  // the ranks that left, the first first, and why
    std::optional<Failure> renewed_;
    std::vector<bool> returned_;  // by rank: its program
    std::vector<int> ended_;      // ranks of whose world nothing is left
};

class Job;

/// The entries by which threads of one threads::run, and those that enter it, agree on their worlds, and the
/// jobs that they make of them.
class JobStore final : public Store {
public:
    bool set(const std::string& name, const std::string& text, Instant) override {
        const auto lock = std::lock_guard(mutex_);
        return entries_.emplace(name, text).second;
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override;
    void remove(const std::vector<std::string>& names, Instant) noexcept override {
        const auto lock = std::lock_guard(mutex_);
        for (const auto& name : names) entries_.erase(name);
    }
    std::chrono::microseconds longest_pause() const override { return std::chrono::milliseconds(1); }
    std::string text() const override { return "the memory of this process"; }
    const std::string& job() const override { return job_; }

    /// Returns the job of `size` ranks with this key. Each rank asks once.
    std::shared_ptr<Job> job(const std::string& key, int size);

private:
    struct Made {
        std::shared_ptr<Job> job;
        int taken = 0;
    };
    const std::string job_ = "threads";
    std::mutex mutex_;
    std::map<std::string, std::string> entries_;
    std::map<std::string, Made> made_;  // until every rank has it
};

}  // namespace rankmesh::detail
