// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// The process of the job that serves the store, where one of them does, has ended or cannot be reached.
struct ServerLost final : EngineFailure {
    using EngineFailure::EngineFailure;
};
/// That process does not answer.
struct ServerSilent final : Timeout {
    using Timeout::Timeout;
};

/// A key-value store shared by the processes of one job; each entry is written once.
///
/// A store on another machine answers until the instant that a call gives, or throws.
class Store {
public:
    using Instant = std::chrono::steady_clock::time_point;

    virtual ~Store() = default;
    /// Writes an entry atomically; false if there is one of that name already.
    virtual bool put(const std::string& name, const std::string& text, Instant until) = 0;
    /// The entries of these names in one request, nothing for those that do not exist yet.
    virtual std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                        Instant until) = 0;
    /// The same, once all but the last of these exist, or the last one, or `longest` passes; at once where
    /// the store does not wait.
    virtual std::vector<std::optional<std::string>> await(const std::vector<std::string>& names,
                                                          Instant longest, Instant until) {
        static_cast<void>(longest);
        return get(names, until);
    }
    /// True if `await` waits, so that nobody has to ask again.
    virtual bool waits() const { return false; }
    virtual void remove(const std::vector<std::string>& names, Instant until) noexcept = 0;
    /// The longest pause between two polls of a rank that waits for an entry.
    virtual std::chrono::microseconds longest_pause() const = 0;
    /// The store in words: `the store '/shared/run'`.
    virtual std::string text() const = 0;
    virtual const std::string& job() const = 0;
};

/// The pause of a rank that polls since `begin`: a quarter of the time that it has waited so far, so that it
/// notices late by that at most and a long wait takes few polls; not past `until`.
inline void pause_between_polls(Store::Instant begin, std::chrono::nanoseconds longest,
                                Store::Instant until = Store::Instant::max()) {
    const auto now = std::chrono::steady_clock::now();
    const auto pause =
        std::clamp<std::chrono::nanoseconds>((now - begin) / 4, std::chrono::microseconds(50), longest);
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, until - now));
}

}  // namespace rankmesh::detail
