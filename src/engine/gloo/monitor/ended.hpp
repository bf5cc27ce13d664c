// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

namespace rankmesh::detail {

/// The ranks of a world that a connection of this process has lost without a word: their processes have
/// ended, as far as that can be told.
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
