// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/channel.hpp"
#include "engine/diagnosis/attendance.hpp"
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
    /// `recorder` knows what this rank does, null before the world is made. At the `start` of MPI a rank may
    /// not have come yet.
    Flight(std::uint64_t key, std::shared_ptr<PeerQuery> world, std::shared_ptr<Recorder> recorder = nullptr,
           bool start = false)
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
    /// The same for a step that is not an operation; `phrase` is a string literal, and number 0 tells nothing
    /// about which ranks have arrived.
    void begin(const char* phrase, const Label& label, Duration timeout, std::uint64_t number) {
        // Orders the end of the last call before this one.
        std::atomic_thread_fence(std::memory_order_release);
        phrase_.store(phrase, std::memory_order_relaxed);
        label_.store(&label, std::memory_order_relaxed);
        timeout_.store(timeout.count(), std::memory_order_relaxed);
        call_.number.store(number, std::memory_order_relaxed);
        active_.store(++begun_, std::memory_order_release);
    }
    void end() { active_.store(0, std::memory_order_release); }
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
        started_.store(started ? before | bit : before & ~bit, std::memory_order_relaxed);
        reached_.store(number, std::memory_order_release);
        return number;
    }

private:
    friend class Watchdog;
    std::string text() const;
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
    Call call() const { return call_.load(); }
    std::uint64_t number() const { return call_.number.load(std::memory_order_relaxed); }
    bool is_message() const;
    bool is_still(std::uint64_t active) const;
    /// The collective of that number as ranks must agree on it, while this one is in it; else "".
    std::string collective(std::uint64_t number) const;
    /// True if all ranks must start the call in flight, or all block in it: it is one MPI collective.
    bool is_collective() const;
    /// How this rank made that call: started or blocking; nothing before it, and for one long past.
    std::optional<bool> started(std::uint64_t number) const;
    /// The call in flight, for another rank's report, if this one has waited in it for long.
    std::optional<AwaitedCall> awaited() const;

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

    // Used by the watchdog only.
    std::uint64_t seen_ = 0;
    std::chrono::steady_clock::time_point since_;
    Duration compare_after_{};        // of waiting: when the next rank is asked how it made the call
    std::size_t ended_compared_ = 0;  // of the ranks that have ended, how many do not matter to this call
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
    /// Tells the other ranks of a world that this one has ended it, and answers them from then on.
    void end_world(std::shared_ptr<PeerQuery> world);
    /// The rank that reports name, once it is known better than when this was made.
    void rename(int rank);
    /// What the ranks of a flight's group say of the channel beside it that they record as `ring`; by group
    /// rank, empty where they cannot be asked. Any thread may call it.
    std::vector<Channel::PeerStatus> ask(const Flight& flight, const Ranks& ranks, const std::string& ring,
                                         std::uint64_t number);
    /// Ends the job after `grace` from now, unless the process has ended by then.
    void end_after(Duration grace);
    /// Does not return once a watchdog of this process has reported that the job is ended, also where the
    /// call that it has reported has completed since.
    static void stay_if_ending() {
        while (ending_.load(std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::seconds(1));
    }

private:
    void watch();
    void sleep(std::unique_lock<std::mutex>& lock);
    RankStatus status(const PeerQuery& world, std::uint64_t key, std::uint64_t number,
                      const std::string& ring) const;
    RankStatusOf own_status() const;
    void answer() const;
    Attendance attendance(const Flight& flight) const;
    /// The answers of `ranks`, in their order, and what is known of those that have not answered.
    static std::vector<Channel::PeerStatus> statuses_of(const PeerQuery& world, const std::vector<int>& ranks,
                                                        const PeerQuery::Answers& answers);
    /// How the calls of ranks that have all arrived differ; "" if the flight is in no collective.
    static std::string difference(const Flight& flight, const PeerQuery::Answers& answers);
    std::string who_is_awaited(const Flight& flight, int rank, RankStatus status,
                               std::vector<int>& mute) const;
    std::string place(const Flight& flight) const;
    bool have_all_come(const Flight& flight) const;
    void look_for_ended(Flight& flight, std::uint64_t active, Duration waited);
    void look_for_mixture(const Flight& flight, std::uint64_t active) const;
    PeerQuery::Answers ask(const Flight& flight, const std::vector<int>& ranks, Duration patience) const;
    [[noreturn]] void report(const Flight& flight, Duration timeout) const;
    /// Writes the record, prints a report and ends the job.
    [[noreturn]] void end(const Flight& flight, RecordReason why, const std::string& text) const;
    void write_records() const;

    static inline std::atomic<bool> ending_ = false;

    static constexpr auto period = std::chrono::milliseconds(50);
    /// How long a report waits for a rank whose process is there: it may be short of processor time.
    static constexpr auto patience = std::chrono::seconds(2);
    /// How long a rank that has reported still answers the others, whose timeouts expire a little later.
    static constexpr auto lingering = std::chrono::seconds(1);
    /// How long MPI's own start may take once all ranks have come to it, where the timeout is shorter.
    static constexpr auto start_up = std::chrono::minutes(1);
    /// How long a message of a rank that has ended may be on its way.
    static constexpr auto delivery = std::chrono::seconds(2);
    /// How long a question takes that is asked while all may be well.
    static constexpr auto brief = std::chrono::milliseconds(200);
    static constexpr auto most_asked = 4096;  // ranks, which bounds the time of the queries

    int rank_;
    const std::function<void()> end_;
    std::mutex mutex_;
    std::vector<Flight*> flights_;
    std::vector<std::shared_ptr<PeerQuery>>
        ended_;  // worlds that this rank has ended, and others may not have
    std::chrono::steady_clock::time_point announce_at_;
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
    InFlight(Flight& flight, const Call& call, const Label& label, Duration timeout, std::uint64_t number,
             const Channel::Purpose& purpose)
        : flight_(flight) {
        flight_.begin(call, label, timeout, number, purpose);
    }
    ~InFlight() {
        flight_.end();
        Watchdog::stay_if_ending();
    }
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

private:
    Flight& flight_;
};

}  // namespace rankmesh::detail
