// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace rankmesh::detail {

/// Wakes a thread that waits for several started operations, when one of them may be complete.
class Bell {
public:
    void ring() noexcept {
        const auto lock = std::lock_guard(mutex_);
        has_rung_ = true;
        rung_.notify_one();
    }
    /// Returns once it has rung since the last call, or at `until`.
    void wait_until(std::chrono::steady_clock::time_point until) {
        auto lock = std::unique_lock(mutex_);
        rung_.wait_until(lock, until, [this] { return has_rung_; });
        has_rung_ = false;
    }

private:
    std::mutex mutex_;
    std::condition_variable rung_;
    bool has_rung_ = false;
};

}  // namespace rankmesh::detail
