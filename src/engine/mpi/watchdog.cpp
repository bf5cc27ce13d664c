// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/watchdog.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "engine/words.hpp"

namespace rankmesh::detail {

std::string Flight::text() const {
    if (const auto* phrase = phrase_.load(std::memory_order_relaxed)) return phrase;
    const auto what = what_.load(std::memory_order_relaxed);
    auto call = Call{};
    std::memcpy(static_cast<void*>(&call), &what, sizeof what);
    call.in_count = count_.load(std::memory_order_relaxed);
    const auto& label = *label_.load(std::memory_order_relaxed);
    return cat(to_string(call), " (", call.in_bytes(), " bytes), blocking call number ",
               active_.load(std::memory_order_relaxed), " on ", label.text(), ", group ",
               to_string(label.ranks));
}

Watchdog::Watchdog(int rank, std::function<void()> end) : rank_(rank), end_(std::move(end)) {
    // Signals stay with the threads of the program.
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
    changed_.notify_all();
    thread_.join();
}

void Watchdog::add(Flight& flight) {
    const auto lock = std::lock_guard(mutex_);
    flights_.push_back(&flight);
}

void Watchdog::remove(Flight& flight) {
    const auto lock = std::lock_guard(mutex_);
    std::erase(flights_, &flight);
}

void Watchdog::end_after(Duration grace) {
    const auto lock = std::lock_guard(mutex_);
    end_at_ = std::min(end_at_, std::chrono::steady_clock::now() + grace);
}

void Watchdog::watch() {
    auto lock = std::unique_lock(mutex_);
    while (!stopping_) {
        changed_.wait_for(lock, period);
        const auto now = std::chrono::steady_clock::now();
        if (now >= end_at_) end_();
        for (auto* flight : flights_) {
            const auto active = flight->active_.load(std::memory_order_acquire);
            if (active != flight->seen_) {
                flight->seen_ = active;
                flight->since_ = now;
                continue;
            }
            const auto deadline = Duration(flight->deadline_.load(std::memory_order_relaxed));
            if (active == 0 || now - flight->since_ < deadline) continue;
            // The deadline may have been the next call's already.
            std::atomic_thread_fence(std::memory_order_acquire);
            if (flight->active_.load(std::memory_order_relaxed) != active) continue;
            const auto member = flight->label_.load(std::memory_order_relaxed)->member;
            std::fprintf(stderr,
                         "rankmesh: the deadline of %s passed on rank %d%s%s%s in %s; the job is ended\n",
                         to_text(deadline).c_str(), rank_, member.empty() ? "" : " [", member.c_str(),
                         member.empty() ? "" : "]", flight->text().c_str());
            end_();
        }
    }
}

}  // namespace rankmesh::detail
