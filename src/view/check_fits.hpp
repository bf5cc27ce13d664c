// SPDX-License-Identifier: Apache-2.0
// Whether a placement fits on a cluster.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/placement.hpp>

namespace rankmesh::view {

/// Throws UsageError if a placement does not fit on the cluster.
inline void check_fits(const Placement& placement, const Cluster& cluster) {
    const auto last_rank = placement.extent() - 1;
    if (last_rank < cluster.size()) return;
    const auto text =
        detail::cat("mesh ", to_string(placement), " reaches rank ", last_rank, ", but cluster ",
                    detail::excerpt(to_string(cluster), 400), " has ", cluster.size(), " devices; it ");
    if (!cluster.is_even() || !cluster.levels().front().units.empty())
        throw UsageError(
            detail::cat(text, "fits on one of ", std::int64_t{last_rank} + 1, " devices or more"));
    auto levels = std::vector<Cluster::Level>(cluster.levels().begin(), cluster.levels().end());
    const auto inside = cluster.size() / levels.front().count;
    levels.front().count = last_rank / inside + 1;
    throw UsageError(detail::cat(text, "fits on ", to_string(Cluster(std::move(levels)))));
}

}  // namespace rankmesh::view
