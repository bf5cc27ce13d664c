// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// The process of the job that serves the store, where one of them does, has ended or cannot be reached.
struct ServerLost final : EngineFailure {
    /// `gone` says so, `then` what follows from it.
    ServerLost(const std::string& gone, const std::string& then) : EngineFailure(gone + then), gone(gone) {}
    std::string gone;
};
/// That process does not answer.
struct ServerSilent final : Timeout {
    using Timeout::Timeout;
};

class Store;

/// The entry of a successor that is there once ranks have gone over to it.
inline constexpr auto opened = "opened";
/// The entry of a store with a successor that says which rank serves that one.
inline constexpr auto successor_server = "second";
/// The entry of such a store that is there once its ranks have gone on without the one that serves it.
inline constexpr auto served_from_outside = "served from outside";

/// The store to which all ranks go over when the first one is lost. One of them serves it.
class Successor {
public:
    virtual ~Successor() = default;
    /// The store, which is empty until ranks come.
    virtual std::shared_ptr<Store> store() = 0;
    /// Whether this process serves it, and so decides who goes on.
    virtual bool is_served_here() const = 0;
    /// How the process names itself that serves it to those that connect; throws EngineFailure with the
    /// reason where this process does not reach it.
    virtual std::string reached(std::chrono::steady_clock::time_point until) = 0;
    /// The same, on that process.
    virtual std::string words() const = 0;
    /// Why this process does not serve it, though its host is this one; "" elsewhere.
    virtual std::string why_not_served() const = 0;
    /// Why it is not certain that the first store has ended, as part of a sentence; "" if it is certain.
    virtual std::string doubt() = 0;
    /// The place of the process that serves it, less than 0 where that is not known.
    virtual int place() const = 0;
    virtual void set_place(int place) = 0;
    /// 128 random bits in hexadecimal digits, by which this process knows itself on a list.
    virtual const std::string& identity() const = 0;
    /// `the second store 'tcp://other:29511'`.
    virtual std::string text() const = 0;
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
    /// Null where there is none.
    virtual Successor* successor() { return nullptr; }
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
