// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/watchdog.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <rankmesh/core/text.hpp>

#include "engine/timeout.hpp"

namespace rankmesh::detail {

Call Flight::call() const {
    const auto what = what_.load(std::memory_order_relaxed);
    auto call = Call{};
    std::memcpy(static_cast<void*>(&call), &what, sizeof what);
    call.in_count = in_count_.load(std::memory_order_relaxed);
    call.out_count = out_count_.load(std::memory_order_relaxed);
    call.source = -1;  // not stored
    return call;
}

bool Flight::is_message() const {
    return !phrase_.load(std::memory_order_relaxed) && is_point_to_point(call().operation);
}

std::string Flight::text() const {
    if (const auto* phrase = phrase_.load(std::memory_order_relaxed)) return phrase;
    const auto call = this->call();
    const auto& label = *label_.load(std::memory_order_relaxed);
    return cat(to_string(call), " (", std::max(call.in_bytes(), call.out_bytes()), " bytes), ",
               is_point_to_point(call.operation) ? "message" : "call", " number ",
               number_.load(std::memory_order_relaxed), " on ", label.text(), ", group ",
               to_string(label.ranks));
}

Watchdog::Watchdog(int rank, std::function<void()> end) : rank_(rank), end_(std::move(end)) {
    // Without a pipe a sleep just lasts its period.
    if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) wake_[0] = wake_[1] = -1;
    // Signals are delivered to the program's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { watch(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() {
    {
        const auto lock = std::lock_guard(mutex_);
        stopping_ = true;
    }
    if (wake_[1] >= 0 && write(wake_[1], "", 1) < 0) {
    }
    thread_.join();
    for (auto descriptor : wake_)
        if (descriptor >= 0) close(descriptor);
}

void Watchdog::add(Flight& flight) {
    const auto lock = std::lock_guard(mutex_);
    flights_.push_back(&flight);
}

void Watchdog::remove(Flight& flight) {
    const auto lock = std::lock_guard(mutex_);
    std::erase(flights_, &flight);
}

void Watchdog::record(Flight& flight, std::shared_ptr<Recorder> recorder) {
    const auto lock = std::lock_guard(mutex_);
    flight.recorder_ = std::move(recorder);
}

void Watchdog::end_after(Duration grace) {
    const auto lock = std::lock_guard(mutex_);
    end_at_ = std::min(end_at_, std::chrono::steady_clock::now() + grace);
}

void Watchdog::answer() const {
    const PeerQuery* answered = nullptr;  // flights of one world are mostly adjacent
    for (const auto* flight : flights_)
        if (auto* world = flight->world_.get(); world && world != answered) {
            if (world->answer([this](const auto& of, auto k, auto number) { return status(of, k, number); }))
                write_records();
            answered = world;
        }
}

/// Sleeps until a question arrives or the period is over.
void Watchdog::sleep(std::unique_lock<std::mutex>& lock) {
    auto wanted = std::vector<pollfd>{{wake_[0], POLLIN, 0}};
    for (const auto* flight : flights_)
        if (flight->world_ &&
            std::ranges::find(wanted, flight->world_->descriptor(), &pollfd::fd) == wanted.end())
            wanted.push_back({flight->world_->descriptor(), POLLIN, 0});
    lock.unlock();
    poll(wanted.data(), static_cast<nfds_t>(wanted.size()), static_cast<int>(period.count()));
    lock.lock();
}

void Watchdog::watch() {
    auto lock = std::unique_lock(mutex_);
    while (!stopping_) {
        sleep(lock);
        const auto now = std::chrono::steady_clock::now();
        if (now >= end_at_) end_();
        answer();
        for (auto* flight : flights_) {
            const auto active = flight->active_.load(std::memory_order_acquire);
            if (active != flight->seen_) {
                flight->seen_ = active;
                flight->since_ = now;
                continue;
            }
            const auto timeout = Duration(flight->timeout_.load(std::memory_order_relaxed));
            if (active == 0 || now - flight->since_ < timeout) continue;
            // The timeout may already be that of the next call.
            std::atomic_thread_fence(std::memory_order_acquire);
            if (flight->active_.load(std::memory_order_relaxed) != active) continue;
            report(*flight, timeout, now - flight->since_);
        }
    }
}

RankStatus Watchdog::status(const PeerQuery& world, std::uint64_t key, std::uint64_t number) const {
    auto status = RankStatus{.arrived = false, .text = "outside any call"};
    const Recorder* recorder = nullptr;
    for (const auto* flight : flights_) {
        if (flight->key_ == key && flight->world_.get() == &world)
            status.arrived = number > 0 && flight->reached_.load(std::memory_order_relaxed) >= number;
        if (flight->recorder_) recorder = flight->recorder_.get();
    }
    if (recorder) status.text = recorder->doing();
    // A step that is not an operation, which the record does not have.
    for (const auto* flight : flights_)
        if (const auto* phrase = flight->phrase_.load(std::memory_order_relaxed);
            phrase && flight->active_.load(std::memory_order_acquire) != 0)
            status.text = cat("in ", phrase);
    return status;
}

/// Writes the records of this process, since a peer has asked.
void Watchdog::write_records() const {
    const Recorder* written = nullptr;
    for (const auto* flight : flights_)
        if (auto* recorder = flight->recorder_.get(); recorder && recorder != written) {
            recorder->asked();
            written = recorder;
        }
}

/// `: arrived {0, 2}, missing {1} (rank 1 is outside every call of rankmesh)`, as far as that can be told.
std::string Watchdog::who_is_missing(const Flight& flight, RecordReason& why) const {
    if (!flight.world_) return {};
    const auto& label = *flight.label_.load(std::memory_order_relaxed);
    const auto& ranks = label.ranks;
    const auto number = flight.number_.load(std::memory_order_relaxed);
    const auto message = flight.is_message();
    auto asked = std::vector<int>{};
    constexpr auto most = 4096;  // bounds the time of the queries
    if (message)
        asked.push_back(ranks[flight.call().argument]);
    else
        for (int i = 0; i < std::min(ranks.size(), most); ++i) asked.push_back(ranks[i]);
    const auto answers = flight.world_->ask(
        asked, flight.key_, message ? 0 : number,
        [this](const auto& of, auto k, auto n) { return status(of, k, n); }, patience);
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    auto remote = std::vector<int>{};
    auto texts = std::string{};
    for (auto rank : asked) {
        const auto answer = answers.told.find(rank);
        const auto mute = std::ranges::find(answers.mute, rank) != answers.mute.end();
        if (rank == flight.world_->rank() || (answer != answers.told.end() && answer->second.arrived)) {
            arrived.push_back(rank);
        } else if (answer == answers.told.end() && !mute && !flight.world_->is_local(rank)) {
            remote.push_back(rank);
        } else {
            missing.push_back(rank);
            constexpr auto most_told = 8;
            if (missing.size() > most_told) continue;
            append(texts, cat(texts.empty() ? " (rank " : "; rank ", rank,
                              mute                           ? " is stopped, or has no time to answer"
                              : answer == answers.told.end() ? " is gone"
                                                             : cat(" is ", answer->second.text)));
        }
    }
    why.arrived = arrived;
    why.missing = missing;
    why.missing.insert(why.missing.end(), remote.begin(), remote.end());
    auto text = std::string{};
    if (!message && number > 0) append(text, cat(": arrived ", ranks_to_string(arrived)));
    if (!missing.empty())
        append(text, cat(text.empty() ? ": " : ", ", "missing ", label.named(missing), texts, ")"));
    if (!remote.empty())
        append(text, cat(text.empty() ? ": " : ", ", "no answer from ", label.named(remote),
                         ", which are on other hosts"));
    return text;
}

void Watchdog::report(const Flight& flight, Duration timeout, Duration waited) {
    auto why = RecordReason{.reason = "timeout"};
    const auto began =
        time(nullptr) - static_cast<time_t>(std::chrono::duration_cast<std::chrono::seconds>(waited).count());
    auto parts = tm{};
    localtime_r(&began, &parts);
    char since[16] = {};
    strftime(since, sizeof since, "%H:%M:%S", &parts);
    const auto& member = flight.label_.load(std::memory_order_relaxed)->member;
    const auto text = cat("rankmesh: the timeout of ", to_text(timeout), " expired on rank ", rank_,
                          member.empty() ? "" : cat(" [", member, "]"), " in ", flight.text(), ", since ",
                          since, who_is_missing(flight, why), "; the job is ended\n");
    if (flight.recorder_) {
        why.error = text.substr(0, text.size() - 1);
        flight.recorder_->failed(std::move(why));
    }
    std::fputs(text.c_str(), stderr);
    end();
}

/// Ends the job once the others have had time to ask this rank: where its process has ended, none answers.
void Watchdog::end() {
    const auto until = std::chrono::steady_clock::now() + lingering;
    while (std::chrono::steady_clock::now() < until) {
        answer();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    end_();
    std::abort();
}

}  // namespace rankmesh::detail
