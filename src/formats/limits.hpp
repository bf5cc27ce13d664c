// SPDX-License-Identifier: Apache-2.0
// Limits of texts that are read. Exceeding a limit is an error before it costs time or memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <rankmesh/core/error.hpp>

namespace rankmesh::formats {

inline constexpr std::size_t most_bytes = std::size_t{1} << 20;  ///< of one text
inline constexpr int most_levels = 100;                          ///< nested tables and lists
inline constexpr int most_keys = 10'000;                         ///< of all tables together

/// Counts the keys and levels of one text while it is read. Throws UsageError if there are too many.
class Limits {
public:
    explicit Limits(std::string_view source, int keys = most_keys) : source_(source), most_(keys) {}

    const std::string& source() const { return source_; }

    void key() {
        if (++keys_ > most_) refuse(detail::cat("have more than ", most_, " keys"));
    }
    void enter() {
        if (++levels_ > most_levels) refuse(detail::cat("nest more than ", most_levels, " levels deep"));
    }
    void leave(int levels = 1) { levels_ -= levels; }

    /// Throws UsageError, which names the exceeded limit.
    [[noreturn]] void refuse(std::string_view what) const {
        throw UsageError(
            detail::cat(source_, " ", what, ", the most that is read; leave out what is not needed"));
    }

private:
    std::string source_;
    int most_;
    int keys_ = 0;
    int levels_ = 0;
};

}  // namespace rankmesh::formats
