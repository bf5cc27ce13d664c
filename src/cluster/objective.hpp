// SPDX-License-Identifier: Apache-2.0
// The objective of placements, and the algorithms that search for a good placement.
#pragma once

#include <optional>
#include <vector>

#include <rankmesh/cluster/place.hpp>

namespace rankmesh::detail {

/// The sum over the axes of weight times seconds.
struct Objective {
    const Cluster& cluster;
    Mesh plain;                        ///< the mesh whose positions get devices
    std::vector<AxisTraffic> traffic;  ///< traffic of the axes of two or more ranks, in mesh order
    std::int64_t bytes;

    double seconds(const Placement& placement, const AxisTraffic& of) const {
        return Traffic(cluster, placement, plain.axes(of.axis)).cost(of.operation, bytes).seconds.value();
    }
    double operator()(const Placement& placement) const {
        auto sum = 0.0;
        for (const auto& of : traffic)
            if (of.weight > 0) sum += of.weight * seconds(placement, of);
        return sum;
    }
    double of_ranks(std::vector<int> ranks) const { return (*this)(Placement(plain, std::move(ranks))); }
};

/// For each level, outermost first: the number of adjacent positions of each axis in one unit of the next
/// outer level.
using Factors = std::vector<std::vector<int>>;

/// Returns the best factors if a unit of the next outer level holds up to `fan_outs` units; nullopt if the
/// sizes have no such factors. `complete` is false if the search stopped early.
std::optional<Factors> best_factors(const Objective& objective, const std::vector<int>& fan_outs,
                                    bool& complete);

/// Returns the mesh of these factors on an even cluster.
Mesh mesh_of_factors(const Cluster& cluster, const Mesh& plain, const Factors& factors);

/// Returns the best of all placements, by position; nullopt if there are too many to compare.
std::optional<std::vector<int>> best_of_all(const Objective& objective);

/// Returns a good placement on a cluster of any shape, by position.
std::vector<int> packed(const Objective& objective);

}  // namespace rankmesh::detail
