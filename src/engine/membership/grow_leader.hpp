// SPDX-License-Identifier: Apache-2.0
// How rank 0 of a world that grows finds out who is there, and decides who enters.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/membership/grow_outcome.hpp"

namespace rankmesh::detail {

/// Chooses at most `most` candidates to enter a world whose ranks have these places: index and place of each.
/// A candidate gets the place that it wishes; a wish of -1 gets the lowest free place. Of two that wish the
/// same place the first enters. A candidate whose place is taken does not.
std::vector<std::pair<std::size_t, int>> choose(std::span<const int> places, std::span<const int> wishes,
                                                int most);

/// Lists the ranks that have ended, given the ranks that have not come; throws if a rank makes another world.
using LostRanks = std::function<std::vector<int>(const std::vector<int>& absent)>;

/// Rank 0's part of a call of grow; returns the outcome. `ended` also lists ranks whose connection was cut
/// before.
std::string lead_growth(const GrowOutcome& outcome, const std::vector<int>& places, const Growth& asked,
                        const LostRanks& lost, const std::function<std::vector<int>()>& ended);

}  // namespace rankmesh::detail
