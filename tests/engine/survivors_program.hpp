// SPDX-License-Identifier: Apache-2.0
// What a rank that is about to survive says, for the tests that start it.
#pragma once

#include <chrono>
#include <cstdio>

#include <rankmesh/core/text.hpp>

using Clock = std::chrono::steady_clock;

inline auto number = -1;  // the rank that this process was started as

template <class... Parts>
void say(const Parts&... parts) {
    std::printf("rank %d %s\n", number, rankmesh::detail::cat(parts...).c_str());
    std::fflush(stdout);
}

/// Of the clock that all processes of a host share.
inline long long now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
}
