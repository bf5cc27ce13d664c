// SPDX-License-Identifier: Apache-2.0
// A common interface for a mesh and a placement.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>

namespace rankmesh::view {

using detail::last_rank;
using detail::mesh_of;

/// Returns the rank at a position.
inline int rank_at(const Mesh& mesh, std::span<const int> indices) { return mesh.rank_at(indices); }
inline int rank_at(const Placement& placement, std::span<const int> indices) {
    return placement.ranks()[static_cast<std::size_t>(placement.mesh().rank_at(indices))];
}

/// Throws UsageError if a mesh that reaches `last_rank` does not fit on the cluster.
inline void check_fits(int last_rank, const std::string& mesh, const Cluster& cluster) {
    if (last_rank < cluster.size()) return;
    const auto text =
        detail::cat("mesh ", mesh, " reaches rank ", last_rank, ", but cluster ",
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
