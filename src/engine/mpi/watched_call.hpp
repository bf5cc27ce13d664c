// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/channel.hpp"
#include "engine/mpi/peer_query.hpp"
#include "engine/record/recorder.hpp"

namespace rankmesh::detail {

/// The call that one communicator is in now: written by the calling thread, read by the watchdog.
///
/// The caller reads no clock: the watchdog notes when it first saw a call, so timeouts are exact to two of
/// its periods.
class WatchedCall {
public:
    /// `key` is the same on all ranks; `world` connects their watchdogs, null if no peer can be queried;
    /// `recorder` knows what this rank does, null before the world is made. At the `start` of MPI a rank may
    /// not have come yet.
    WatchedCall(std::uint64_t key, std::shared_ptr<PeerQuery> world,
                std::shared_ptr<Recorder> recorder = nullptr, bool start = false)
        : key_(key), world_(std::move(world)), is_start_(start), recorder_(std::move(recorder)) {}

    /// Begins a call, the `number`-th of its kind on this rank. Reports name the call of its purpose, if it
    /// has one.
    void begin(const Call& call, const Label& label, Duration timeout, std::uint64_t number,
               const Channel::Purpose& purpose = {}) {
        call_.store(call, number);
        has_purpose_.store(purpose.call != nullptr, std::memory_order_relaxed);
        if (purpose.call) purpose_.store(*purpose.call, purpose.number);
        begin(nullptr, label, timeout, number);
    }
    /// Begins a step that is not an operation; `phrase` is a string literal, and number 0 tells nothing
    /// about which ranks have arrived.
    void begin(const char* phrase, const Label& label, Duration timeout, std::uint64_t number = 0) {
        phrase_.store(phrase, std::memory_order_relaxed);
        label_.store(&label, std::memory_order_relaxed);
        timeout_.store(timeout.count(), std::memory_order_relaxed);
        call_.number.store(number, std::memory_order_relaxed);
        active_.store(++begun_, std::memory_order_release);
    }
    void end() {
        active_.store(0, std::memory_order_release);
        std::atomic_thread_fence(std::memory_order_release);  // before all that the next call stores
    }
    /// So much of the timeout of the next call has passed before it begins.
    void has_passed(Duration passed) {
        passed_.store(passed.count(), std::memory_order_relaxed);
        passed_of_.store(begun_ + 1, std::memory_order_relaxed);
    }
    /// The call in flight in words, "" without one, for the thread that makes it.
    std::string described() const {
        return active_.load(std::memory_order_relaxed) == 0 ? std::string() : text();
    }
    /// The number of the next collective, started or blocking; from now on this rank has arrived at it.
    std::uint64_t next_collective(bool started = false) {
        const auto number = reached_.load(std::memory_order_relaxed) + 1;
        const auto bit = std::uint64_t{1} << (number % 64);
        const auto before = started_.load(std::memory_order_relaxed);
        // Release: who sees this bit sees that the call before it was reached, and that a bit was replaced.
        started_.store(started ? before | bit : before & ~bit, std::memory_order_release);
        reached_.store(number, std::memory_order_release);
        return number;
    }

    // What the watchdog reads of it.
    std::uint64_t key() const { return key_; }
    const std::shared_ptr<PeerQuery>& world() const { return world_; }
    bool is_start() const { return is_start_; }
    const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
    void record_in(std::shared_ptr<Recorder> recorder) { recorder_ = std::move(recorder); }
    /// The count of calls begun, 0 while none is in flight.
    std::uint64_t active() const { return active_.load(std::memory_order_acquire); }
    /// The last collective that was called.
    std::uint64_t reached() const { return reached_.load(std::memory_order_relaxed); }
    const Label& label() const { return *label_.load(std::memory_order_relaxed); }
    Duration timeout() const { return Duration(timeout_.load(std::memory_order_relaxed)); }
    /// The step in flight that is not an operation, null for none.
    const char* phrase() const { return phrase_.load(std::memory_order_relaxed); }
    /// How much of the timeout of a call had passed when it began.
    Duration passed_of(std::uint64_t active) const {
        return Duration(passed_of_.load(std::memory_order_relaxed) == active
                            ? passed_.load(std::memory_order_relaxed)
                            : 0);
    }
    std::string text() const;
    Call call() const { return call_.load(); }
    std::uint64_t number() const { return call_.number.load(std::memory_order_relaxed); }
    bool is_message() const {
        return !phrase_.load(std::memory_order_relaxed) && is_point_to_point(call().operation);
    }
    /// True if the call that was seen is still in flight, so that what was read of it is of one call.
    bool is_still(std::uint64_t active) const {
        std::atomic_thread_fence(std::memory_order_acquire);
        return active_.load(std::memory_order_relaxed) == active;
    }
    /// The collective of that number as ranks must agree on it, while this one is in it; else "".
    std::string collective(std::uint64_t number) const;
    /// True if all ranks must start the call in flight, or all block in it: it is one MPI collective.
    bool is_collective() const;
    /// How this rank made that call: started or blocking; nothing before it, and for one long past.
    std::optional<bool> started(std::uint64_t number) const;
    /// The call in flight, for another rank's report, if the watchdog has seen it.
    std::optional<AwaitedCall> awaited() const;

    /// What the watchdog, which alone uses it, has seen of the call in flight.
    struct Seen {
        std::uint64_t active = 0;
        std::chrono::steady_clock::time_point since = {};
        Duration compare_after = {};     // of waiting: when the next rank is asked how it made the call
        std::size_t ended_compared = 0;  // of the ranks that have ended, how many do not matter to this call
    };
    Seen seen;

private:
    /// A call and its number, which another thread may read while they are replaced.
    struct StoredCall {
        std::atomic<std::uint64_t> number = 0;
        std::atomic<std::uint64_t> what = 0;
        std::atomic<std::size_t> in_count = 0;
        std::atomic<std::size_t> out_count = 0;
        std::atomic<std::uint16_t> tag = 0;

        void store(const Call& call, std::uint64_t its_number) {
            // The first eight bytes of a call describe it, so that one word is written.
            auto words = std::uint64_t{};
            std::memcpy(&words, &call, sizeof words);
            what.store(words, std::memory_order_relaxed);
            in_count.store(call.in_count, std::memory_order_relaxed);
            out_count.store(call.out_count, std::memory_order_relaxed);
            tag.store(call.tag, std::memory_order_relaxed);
            number.store(its_number, std::memory_order_relaxed);
        }
        Call load() const;
    };

    const std::uint64_t key_;
    const std::shared_ptr<PeerQuery> world_;
    const bool is_start_;
    std::shared_ptr<Recorder> recorder_;
    std::atomic<std::uint64_t> active_ = 0;   // the count of calls begun, 0 while none is in flight
    std::atomic<std::uint64_t> reached_ = 0;  // the last collective that was called
    std::atomic<std::uint64_t> started_ = 0;  // by number modulo 64: whether it was started
    StoredCall call_;
    StoredCall purpose_;
    std::atomic<bool> has_purpose_ = false;
    std::atomic<const char*> phrase_ = nullptr;
    std::atomic<const Label*> label_ = nullptr;
    std::atomic<std::int64_t> timeout_ = 0;
    std::atomic<std::int64_t> passed_ = 0;
    std::atomic<std::uint64_t> passed_of_ = 0;  // the call of which it has
    std::uint64_t begun_ = 0;
};

static_assert(offsetof(Call, argument) == 4 && sizeof(Call::argument) == 4);

}  // namespace rankmesh::detail
