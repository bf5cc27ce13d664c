// SPDX-License-Identifier: Apache-2.0
// Durations as error texts write them, and how timeouts are checked.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// `250 ms`, `2 s`, `30 min`: the largest unit that is exact.
inline std::string to_text(std::chrono::nanoseconds duration) {
    const auto count = duration.count();
    if (count != 0 && count % 60'000'000'000 == 0) return cat(count / 60'000'000'000, " min");
    if (count % 1'000'000'000 == 0) return cat(count / 1'000'000'000, " s");
    if (count % 1'000'000 == 0) return cat(count / 1'000'000, " ms");
    return cat(count, " ns");
}

/// `12:30:05`: the local time of a moment.
inline std::string time_of_day(std::chrono::steady_clock::time_point moment) {
    const auto away = moment - std::chrono::steady_clock::now();
    const auto seconds =
        time(nullptr) + static_cast<time_t>(std::chrono::duration_cast<std::chrono::seconds>(away).count());
    auto parts = tm{};
    localtime_r(&seconds, &parts);
    char text[16] = {};
    strftime(text, sizeof text, "%H:%M:%S", &parts);
    return text;
}

/// Throws UsageError for a timeout that is not positive.
inline void check_timeout(std::chrono::nanoseconds timeout) {
    if (timeout <= std::chrono::nanoseconds::zero())
        throw UsageError(cat("a timeout of ", to_text(timeout), "; it must be positive"));
}

/// A longer timeout expires after this: ten years.
constexpr auto longest_timeout = std::chrono::nanoseconds(std::chrono::hours(87660));

/// When a timeout that begins now expires.
inline std::chrono::steady_clock::time_point from_now(std::chrono::nanoseconds timeout) {
    return std::chrono::steady_clock::now() + std::min(timeout, longest_timeout);
}

/// How much of the timeout has passed before this thread begins to wait for a call that it has asked about.
inline thread_local std::chrono::nanoseconds passed_before{0};

/// Sets it, while it lives.
class PassedBefore {
public:
    explicit PassedBefore(std::chrono::nanoseconds passed) { passed_before = passed; }
    ~PassedBefore() { passed_before = outer_; }
    PassedBefore& operator=(PassedBefore&&) = delete;

private:
    const std::chrono::nanoseconds outer_ = passed_before;
};

/// When the timeout expires of a call that this thread begins to wait for.
inline std::chrono::steady_clock::time_point end_of_wait(std::chrono::nanoseconds timeout) {
    return from_now(timeout - passed_before);
}

/// The pause between two polls: short at first, since most peers arrive soon.
class Pause {
public:
    /// Sleeps after so many turns.
    explicit Pause(int short_turns = 1000) : short_turns_(short_turns) {}
    void operator()() {
        if (++turns_ < short_turns_)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }

private:
    const int short_turns_;
    int turns_ = 0;
};

}  // namespace rankmesh::detail
