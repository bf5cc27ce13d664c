// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/mpi/watched_call.hpp"

namespace rankmesh::detail {

/// A thread that ends the process when a call exceeds its timeout, since MPI's blocking calls cannot be
/// interrupted. It asks the other ranks' watchdogs who has arrived, and answers their queries.
class Watchdog {
public:
    /// `end` ends the job and does not return; `rank` is this process's, for the report.
    Watchdog(int rank, std::function<void()> end);
    ~Watchdog();

    void add(WatchedCall& watched) {
        const auto lock = std::lock_guard(mutex_);
        calls_.push_back(&watched);
    }
    void remove(WatchedCall& watched) {
        const auto lock = std::lock_guard(mutex_);
        std::erase(calls_, &watched);
        if (watched.world()) watched.world()->close(watched.key(), watched.reached());
    }
    /// Gives a call the record of its rank.
    void record(WatchedCall& watched, std::shared_ptr<Recorder> recorder) {
        const auto lock = std::lock_guard(mutex_);
        watched.record_in(std::move(recorder));
    }
    /// Tells the other ranks of a world that this one has ended it, and answers them from then on.
    void end_world(std::shared_ptr<PeerQuery> world) {
        const auto lock = std::lock_guard(mutex_);
        if (!world->announce_end()) ended_.push_back(std::move(world));
    }
    /// The rank that reports name, once it is known better than when this was made.
    void rename(int rank) {
        const auto lock = std::lock_guard(mutex_);
        rank_ = rank;
    }
    /// What the ranks of a call's group say of the channel beside it that they record as `record_key`; by
    /// group rank, empty where they cannot be asked. Any thread may call it.
    std::vector<Channel::PeerStatus> ask(const WatchedCall& watched, const Ranks& ranks,
                                         const std::string& record_key, std::uint64_t number);
    /// Ends the job after `grace` from now, unless the process has ended by then.
    void end_after(Duration grace) {
        const auto lock = std::lock_guard(mutex_);
        end_at_ = std::min(end_at_, std::chrono::steady_clock::now() + grace);
    }
    /// Does not return once a watchdog of this process has reported that the job is ended, also where the
    /// call that it has reported has completed since.
    static void stay_if_ending() {
        while (ending_.load(std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::seconds(1));
    }

private:
    void watch();
    void sleep(std::unique_lock<std::mutex>& lock);
    RankStatus status(const PeerQuery& world, std::uint64_t key, std::uint64_t number,
                      const std::string& record_key) const;
    RankStatusOf own_status() const {
        return [this](const auto& world, auto key, auto number, const auto& record_key) {
            return status(world, key, number, record_key);
        };
    }
    void answer() const;
    std::string place(const WatchedCall& watched) const;
    bool have_all_come(const WatchedCall& watched) const;
    void look_for_ended(WatchedCall& watched, std::uint64_t active, Duration waited);
    void look_for_mixture(const WatchedCall& watched, std::uint64_t active) const;
    [[noreturn]] void report(const WatchedCall& watched, Duration timeout) const;
    /// Writes the record, prints a report and ends the job.
    [[noreturn]] void end(const WatchedCall& watched, RecordReason why, const std::string& text) const;
    void write_records() const;

    static inline std::atomic<bool> ending_ = false;

    static constexpr auto period = std::chrono::milliseconds(50);
    /// How long a rank that has reported still answers the others, whose timeouts expire a little later.
    static constexpr auto lingering = std::chrono::seconds(1);
    /// How long MPI's own start may take once all ranks have come to it, where the timeout is shorter.
    static constexpr auto start_up = std::chrono::minutes(1);
    /// How long a message of a rank that has ended may be on its way.
    static constexpr auto delivery = std::chrono::seconds(2);

    int rank_;
    const std::function<void()> end_;
    std::mutex mutex_;
    std::vector<WatchedCall*> calls_;
    std::vector<std::shared_ptr<PeerQuery>>
        ended_;  // worlds that this rank has ended, and others may not have
    std::chrono::steady_clock::time_point announce_at_;
    std::chrono::steady_clock::time_point end_at_ = std::chrono::steady_clock::time_point::max();
    bool stopping_ = false;
    int wake_[2] = {-1, -1};  // a pipe that interrupts a sleep
    std::thread thread_;
};

/// Registers a blocking call with the watchdog during its lifetime.
class WhileWatched {
public:
    /// `call` is what WatchedCall::begin takes.
    explicit WhileWatched(WatchedCall& watched, const auto&... call) : watched_(watched) {
        watched_.begin(call...);
    }
    ~WhileWatched() {
        watched_.end();
        Watchdog::stay_if_ending();
    }
    WhileWatched& operator=(WhileWatched&&) = delete;

private:
    WatchedCall& watched_;
};

}  // namespace rankmesh::detail
