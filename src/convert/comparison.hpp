// SPDX-License-Identifier: Apache-2.0
// Two arrangements of one job: which ranks move, and which groups are no longer the same.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/convert/convert.hpp>

#include "convert/arrangement.hpp"

namespace rankmesh::conversion {

/// How ranks move from one arrangement to another: the process at a coordinate of the first is at the same
/// coordinate of the second.
struct Comparison {
    static constexpr std::size_t shown = 8;

    int moved = 0;                           ///< the number of ranks that change
    std::vector<std::pair<int, int>> first;  ///< the first few of them
    std::vector<Loss> lost;                  ///< groups and settings that only the first has
    bool fits = true;                        ///< false: the dense axes are others, nothing can be compared
};

/// The most ranks whose moves are computed one by one.
constexpr auto most_compared = 1 << 24;

/// Compares arrangements in roles. `why(axis)` says why the second has no groups along an axis. A lost
/// dp_replicate or dp_shard is left out if `is_noted(name)`: the second does the same, or a note says so.
///
/// Law: what is not lost has the same groups in both, once every rank has moved.
Comparison compare(
    const Arrangement& from, const Arrangement& to, const std::function<std::string(std::string_view)>& why,
    const std::function<bool(std::string_view)>& is_noted = [](auto) { return false; });

}  // namespace rankmesh::conversion
