// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/channel.hpp"
#include "engine/mpi/peer_query.hpp"
#include "engine/record/recorder.hpp"

namespace rankmesh::detail {

/// The call that one communicator is in now: written by the calling thread, read by the watchdog.
///
/// The caller reads no clock: the watchdog notes when it first saw a call, so timeouts are exact to two of
/// its periods.
class Flight {
public:
    /// `key` is the same on all ranks; `world` connects their watchdogs, null if no peer can be queried;
    /// `recorder` knows what this rank does, null before the world is made.
    Flight(std::uint64_t key, std::shared_ptr<PeerQuery> world, std::shared_ptr<Recorder> recorder = nullptr)
        : key_(key), world_(std::move(world)), recorder_(std::move(recorder)) {}

    /// Begins a call, the `number`-th of its kind on this rank.
    void begin(const Call& call, const Label& label, Duration timeout, std::uint64_t number) {
        // The first eight bytes of a call describe it, so that one word is written.
        auto what = std::uint64_t{};
        std::memcpy(&what, &call, sizeof what);
        what_.store(what, std::memory_order_relaxed);
        in_count_.store(call.in_count, std::memory_order_relaxed);
        out_count_.store(call.out_count, std::memory_order_relaxed);
        begin(nullptr, label, timeout, number);
    }
    /// The same for a step that is not an operation; `phrase` is a string literal, and number 0 tells nothing
    /// about which ranks have arrived.
    void begin(const char* phrase, const Label& label, Duration timeout, std::uint64_t number) {
        // Orders the end of the last call before this one.
        std::atomic_thread_fence(std::memory_order_release);
        phrase_.store(phrase, std::memory_order_relaxed);
        label_.store(&label, std::memory_order_relaxed);
        timeout_.store(timeout.count(), std::memory_order_relaxed);
        number_.store(number, std::memory_order_relaxed);
        active_.store(++begun_, std::memory_order_release);
    }
    void end() { active_.store(0, std::memory_order_release); }
    /// The number of the next collective, started or blocking; from now on this rank has arrived at it.
    std::uint64_t next_collective() {
        const auto number = reached_.load(std::memory_order_relaxed) + 1;
        reached_.store(number, std::memory_order_relaxed);
        return number;
    }

private:
    friend class Watchdog;
    std::string text() const;
    Call call() const;
    bool is_message() const;

    const std::uint64_t key_;
    const std::shared_ptr<PeerQuery> world_;
    std::shared_ptr<Recorder> recorder_;
    std::atomic<std::uint64_t> active_ = 0;  // the count of calls begun, 0 while none is in flight
    std::atomic<std::uint64_t> number_ = 0;
    std::atomic<std::uint64_t> reached_ = 0;  // the last collective that was called
    std::atomic<std::uint64_t> what_ = 0;
    std::atomic<std::size_t> in_count_ = 0;
    std::atomic<std::size_t> out_count_ = 0;
    std::atomic<const char*> phrase_ = nullptr;
    std::atomic<const Label*> label_ = nullptr;
    std::atomic<std::int64_t> timeout_ = 0;
    std::uint64_t begun_ = 0;

    // Used by the watchdog only.
    std::uint64_t seen_ = 0;
    std::chrono::steady_clock::time_point since_;
};

static_assert(offsetof(Call, argument) == 4 && sizeof(Call::argument) == 4);

/// A thread that ends the process when a call exceeds its timeout, since MPI's blocking calls cannot be
/// interrupted. It asks the other ranks' watchdogs who has arrived, and answers their queries.
class Watchdog {
public:
    /// `end` ends the job and does not return; `rank` is this process's, for the report.
    Watchdog(int rank, std::function<void()> end);
    ~Watchdog();

    void add(Flight& flight);
    void remove(Flight& flight);
    /// Gives a flight the record of its rank.
    void record(Flight& flight, std::shared_ptr<Recorder> recorder);
    /// Ends the job after `grace` from now, unless the process has ended by then.
    void end_after(Duration grace);

private:
    void watch();
    void sleep(std::unique_lock<std::mutex>& lock);
    RankStatus status(const PeerQuery& world, std::uint64_t key, std::uint64_t number) const;
    void answer() const;
    std::string who_is_missing(const Flight& flight, RecordReason& why) const;
    void write_records() const;
    [[noreturn]] void report(const Flight& flight, Duration timeout, Duration waited);
    [[noreturn]] void end();

    static constexpr auto period = std::chrono::milliseconds(50);
    /// How long a report waits for a rank whose process is there: it may be short of processor time.
    static constexpr auto patience = std::chrono::seconds(2);
    /// How long a rank that has reported still answers the others, whose timeouts expire a little later.
    static constexpr auto lingering = std::chrono::seconds(1);

    const int rank_;
    const std::function<void()> end_;
    std::mutex mutex_;
    std::vector<Flight*> flights_;
    std::chrono::steady_clock::time_point end_at_ = std::chrono::steady_clock::time_point::max();
    bool stopping_ = false;
    int wake_[2] = {-1, -1};  // a pipe that interrupts a sleep
    std::thread thread_;
};

/// Registers a blocking call with the watchdog during its lifetime.
class InFlight {
public:
    template <class What>
    InFlight(Flight& flight, const What& what, const Label& label, Duration timeout, std::uint64_t number = 0)
        : flight_(flight) {
        flight_.begin(what, label, timeout, number);
    }
    ~InFlight() { flight_.end(); }
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

private:
    Flight& flight_;
};

}  // namespace rankmesh::detail
