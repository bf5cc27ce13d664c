// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rankmesh::detail {

/// Entries that the processes of one job leave for each other, each written once.
///
/// A store that other machines keep answers until the instant that a call gives, or throws.
class Store {
public:
    using Instant = std::chrono::steady_clock::time_point;

    virtual ~Store() = default;
    /// Writes an entry so that nobody sees a part of it; false if there is one of that name.
    virtual bool put(const std::string& name, const std::string& text, Instant until) = 0;
    /// The entries of these names in one look, nothing for those that are not there yet.
    virtual std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                        Instant until) = 0;
    virtual void remove(const std::vector<std::string>& names, Instant until) noexcept = 0;
    /// How long who waits for an entry pauses at most between two looks.
    virtual std::chrono::microseconds longest_pause() const = 0;
    /// Where the entries are, in words: `the store '/shared/run'`.
    virtual std::string text() const = 0;
    virtual const std::string& job() const = 0;
};

}  // namespace rankmesh::detail
