// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>
#include <utility>

namespace support {

/// Asks every millisecond whether `condition` holds; false if it does not within `limit`.
///
/// A test that waits for another thread or process calls this, and does not sleep.
template <class Condition>
[[nodiscard]] bool eventually(Condition&& condition,
                              std::chrono::milliseconds limit = std::chrono::minutes(3)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace support
