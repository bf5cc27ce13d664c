// SPDX-License-Identifier: Apache-2.0
// What placements are compared by, and what looks for a good one.
#pragma once

#include <optional>
#include <vector>

#include <rankmesh/cluster/place.hpp>

namespace rankmesh::detail {

/// The sum over the axes of weight times seconds.
struct Objective {
    const Cluster& cluster;
    Mesh plain;                        ///< the mesh whose positions are placed
    std::vector<AxisTraffic> traffic;  ///< of the axes of two ranks or more, in mesh order
    std::int64_t bytes;

    double seconds(const auto& topology, const AxisTraffic& of) const {
        return Traffic(cluster, topology, plain.axes(of.axis)).cost(of.operation, bytes).seconds.value();
    }
    double operator()(const auto& topology) const {
        auto sum = 0.0;
        for (const auto& of : traffic)
            if (of.weight > 0) sum += of.weight * seconds(topology, of);
        return sum;
    }
    double of_ranks(std::vector<int> ranks) const { return (*this)(Placement(plain, std::move(ranks))); }
};

/// By level, outermost first, how many positions of each axis lie side by side in one unit of the level
/// outside.
using Factors = std::vector<std::vector<int>>;

/// The best factors where a unit of the level outside holds up to `fan_outs` units; nothing if the sizes do
/// not factor so. `complete` is false if the search was cut short.
std::optional<Factors> best_factors(const Objective& objective, const std::vector<int>& fan_outs,
                                    bool& complete);

/// The mesh that these factors are on an even cluster.
Mesh mesh_of_factors(const Cluster& cluster, const Mesh& plain, const Factors& factors);

/// The best of all placements, by position; nothing if there are too many to look at all.
std::optional<std::vector<int>> best_of_all(const Objective& objective);

/// A good placement on a cluster of any shape, by position.
std::vector<int> packed(const Objective& objective);

}  // namespace rankmesh::detail
