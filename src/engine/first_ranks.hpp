// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>
#include <vector>

namespace rankmesh::detail {

/// 0, 1, ... `size - 1`.
inline std::vector<int> first_ranks(int size) {
    auto ranks = std::vector<int>(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

}  // namespace rankmesh::detail
