// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// A key-value store that the processes of one job share. An entry never changes until it is removed.
///
/// Each call has until a given instant. A store on another machine throws if it has not answered by then.
class Store {
public:
    using Instant = std::chrono::steady_clock::time_point;

    virtual ~Store() = default;
    /// Sets an entry that does not exist, atomically; returns false if it exists.
    virtual bool set(const std::string& name, const std::string& text, Instant until) = 0;
    /// Gets entries in one request; nothing for each that does not exist.
    virtual std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                        Instant until) = 0;
    /// Like `get`, but waits until all names but the last exist, the last one exists, or `longest` passes.
    /// A store that cannot wait returns at once.
    virtual std::vector<std::optional<std::string>> wait(const std::vector<std::string>& names,
                                                         Instant /*longest*/, Instant until) {
        return get(names, until);
    }
    /// True if `wait` waits, so that callers need not poll.
    virtual bool can_wait() const { return false; }
    virtual void remove(const std::vector<std::string>& names, Instant until) noexcept = 0;
    /// The longest pause between two polls of a rank that waits for an entry.
    virtual std::chrono::microseconds longest_pause() const = 0;
    /// The store's name in errors: `the store '/shared/run'`.
    virtual std::string text() const = 0;
    virtual const std::string& job() const = 0;
};

/// The process that serves the store has ended or cannot be reached.
struct ServerLost final : EngineFailure {
    using EngineFailure::EngineFailure;
};
/// The process that serves the store does not answer.
struct ServerSilent final : Timeout {
    using Timeout::Timeout;
};

/// The time for a request that a rank makes when its timeout has expired, or when it fails or leaves.
inline constexpr auto request_grace = std::chrono::milliseconds(500);

/// Pauses between two polls of a rank that polls since `begin`, never past `until`. A pause is a quarter of
/// the time so far: a rank notices an entry late by a quarter at most, and a long wait takes few polls.
inline void pause_between_polls(Store::Instant begin, std::chrono::nanoseconds longest,
                                Store::Instant until = Store::Instant::max()) {
    const auto now = std::chrono::steady_clock::now();
    const auto pause =
        std::clamp<std::chrono::nanoseconds>((now - begin) / 4, std::chrono::microseconds(50), longest);
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, until - now));
}

}  // namespace rankmesh::detail
