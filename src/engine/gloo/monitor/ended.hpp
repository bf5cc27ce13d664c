// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

namespace rankmesh::detail {

/// The ranks of a world whose connections to this process broke without a goodbye: as far as it can tell,
/// their processes have ended.
class Ended {
public:
    void add(const std::vector<int>& ranks) {
        const auto lock = std::lock_guard(mutex_);
        ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
    }
    std::vector<int> ranks() const {
        const auto lock = std::lock_guard(mutex_);
        return ranks_;
    }

private:
    mutable std::mutex mutex_;
    std::vector<int> ranks_;
};

}  // namespace rankmesh::detail
