// SPDX-License-Identifier: Apache-2.0
// What holds for the groups of every framework.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/communicator.hpp>

namespace laws {

inline std::vector<int> list(const auto& group) { return {group.begin(), group.end()}; }

/// The groups cover the ranks 0..world-1, each once.
inline void expect_partition(const std::vector<std::vector<int>>& groups, int world,
                             const std::string& what) {
    auto seen = std::vector<int>(static_cast<std::size_t>(world), 0);
    for (const auto& group : groups)
        for (auto rank : group) {
            ASSERT_TRUE(rank >= 0 && rank < world) << what << " holds rank " << rank;
            ++seen[static_cast<std::size_t>(rank)];
        }
    for (int rank = 0; rank < world; ++rank)
        EXPECT_EQ(seen[static_cast<std::size_t>(rank)], 1) << what << ", rank " << rank;
}

/// A live communicator is over exactly these ranks, in this order, and works.
inline void expect_live(rankmesh::Communicator& on, const std::vector<int>& ranks, int me,
                        const std::string& what) {
    EXPECT_EQ(on.world_ranks(), ranks) << what;
    auto sum = me;
    on.all_reduce(sum);
    EXPECT_EQ(sum, std::accumulate(ranks.begin(), ranks.end(), 0)) << what;
}

/// The text of the error of type E that `body` throws.
template <class E, class Body>
std::string text_of(Body&& body) {
    try {
        body();
    } catch (const E& error) {
        return error.what();
    }
    return "nothing was thrown";
}

}  // namespace laws
