// SPDX-License-Identifier: Apache-2.0
// Division as the original's language does it.
#pragma once

#include <string_view>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::olmo {

inline void check_divisor(int by, std::string_view what) {
    if (by == 0)
        throw dialect::Error(dialect::Fault::sizes,
                             detail::cat(what, " is 0, and nothing is divisible by 0"));
}

/// True if `number` is a multiple of `by`; throws dialect::Error for 0.
inline bool divides(int by, int number, std::string_view what) {
    check_divisor(by, what);
    return number % by == 0;
}

/// The quotient rounded towards minus infinity; throws dialect::Error for 0.
inline int quotient(int number, int by, std::string_view what) {
    check_divisor(by, what);
    const auto towards_zero = number / by;
    return number % by != 0 && (number < 0) != (by < 0) ? towards_zero - 1 : towards_zero;
}

}  // namespace rankmesh::olmo
