// SPDX-License-Identifier: Apache-2.0
// The next world of a job, which processes have entered.
#pragma once

#include <string>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// The most processes that can wait to enter a job, and so enter at once.
inline constexpr auto most_candidates = 256;

/// What a rank asks when its world grows.
struct Growth {
    int most = 1;  // processes that may enter
    Duration timeout{};
    std::string about = {};   // what the other ranks must know of this process
    std::string common = {};  // what new ranks must know of the world, the same on all its ranks
};

/// The next world of a job, as all its ranks know it: ranks of the world before, and ranks that have entered.
/// A rank's place is its number in the first world of the job, or the place of the rank that it has replaced.
struct NextWorld {
    int rank = 0;                          // of this process
    std::vector<int> places;               // by rank, ascending
    std::vector<std::string> abouts = {};  // by rank
    std::string common = {};
    std::string scope = {};    // the prefix of its keys, which no other world has
    std::string outcome = {};  // the entry that says all this
};

}  // namespace rankmesh::detail
