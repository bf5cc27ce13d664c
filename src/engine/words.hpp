// SPDX-License-Identifier: Apache-2.0
// Durations and lists in the words of error texts.
#pragma once

#include <chrono>
#include <string>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// `250 ms`, `2 s`, `30 min`: the largest unit that is exact.
inline std::string to_text(std::chrono::nanoseconds duration) {
    const auto count = duration.count();
    if (count % 60'000'000'000 == 0) return cat(count / 60'000'000'000, " min");
    if (count % 1'000'000'000 == 0) return cat(count / 1'000'000'000, " s");
    if (count % 1'000'000 == 0) return cat(count / 1'000'000, " ms");
    return cat(count, " ns");
}

}  // namespace rankmesh::detail
