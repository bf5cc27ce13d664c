// SPDX-License-Identifier: Apache-2.0
// Int, a function argument that takes any integer type and checks its range.
#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <utility>

#include <rankmesh/core/error.hpp>

namespace rankmesh {

namespace detail {

[[noreturn]] inline void refuse_integer(const std::string& n) {
    throw UsageError(n + " was given as a rank, a root, a distance or a tag; those are from " +
                     std::to_string(std::numeric_limits<int>::min()) + " to " +
                     std::to_string(std::numeric_limits<int>::max()));
}

/// A type that converts to int, except floating-point types.
template <class N>
concept IntLike = std::convertible_to<N, int> && !std::floating_point<N>;

}  // namespace detail

/// A rank, root or distance, converted from any integer type. Throws UsageError if the value does not fit in
/// an int.
class Int {
public:
    template <detail::IntLike N>
    constexpr Int(N n) : value_(static_cast<int>(n)) {
        if constexpr (std::integral<N>)
            if (!std::in_range<int>(+n)) detail::refuse_integer(std::to_string(+n));
    }
    constexpr operator int() const { return value_; }
    friend void append(std::string& out, Int n) { detail::append(out, n.value_); }

private:
    int value_;
};

}  // namespace rankmesh
