// SPDX-License-Identifier: Apache-2.0
// Compares two meshes or placements, rank by rank and group by group.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/export.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// One side of a comparison, and optionally its cluster.
struct Side {
    Placement placement;
    std::optional<Cluster> cluster = {};

    /// Returns the group of a rank along an axis. Returns the rank alone if this side does not have the axis,
    /// and nothing if it does not have the rank.
    RANKMESH_EXPORT std::vector<int> group(int rank, std::string_view axis) const;
};

/// One number for each side.
struct Both {
    int a = 0;
    int b = 0;
    friend bool operator==(const Both&, const Both&) = default;
};

/// How the groups along one axis differ.
///
/// Law: `groups.a - same - reordered` groups of a have no group in b with the same ranks; likewise for b.
struct AxisDifference {
    std::string axis;
    Both size = {};     ///< size of the axis; 1 on a side without it, where each rank is its own group
    Both groups = {};   ///< how many there are
    int same = 0;       ///< groups with the same ranks in the same order
    int reordered = 0;  ///< groups with the same ranks in another order
    std::vector<Both> inside = {};  ///< for each of the difference's levels: groups inside one unit
    std::vector<int> changed = {};  ///< the first rank of each of the first groups of a that differ
    friend bool operator==(const AxisDifference&, const AxisDifference&) = default;
};

/// A level that both clusters have, except the level of devices.
struct LevelDifference {
    std::string level;
    int moved = 0;  ///< common ranks that run in another unit of the whole cluster
    friend bool operator==(const LevelDifference&, const LevelDifference&) = default;
};

/// The differences between two sides. An axis that a side does not have counts as an axis of size 1.
///
/// Law: a side does not differ from itself; exchanging the sides exchanges the numbers.
struct Difference {
    Both ranks = {};                        ///< how many there are
    int common = 0;                         ///< ranks on both sides
    int moved = 0;                          ///< common ranks at another coordinate
    int differing = 0;                      ///< ranks with any difference, including ranks of only one side
    std::vector<int> first = {};            ///< the lowest of the differing ranks
    std::vector<AxisDifference> axes = {};  ///< the axes of a, then the axes that only b has
    std::vector<LevelDifference> levels = {};  ///< empty unless both sides have a cluster

    /// Returns true if every rank has the same coordinate, groups and units on both sides.
    bool is_none() const { return differing == 0; }
    friend bool operator==(const Difference&, const Difference&) = default;
};

/// Compares two sides. Lists at most `first` ranks, and at most `first` groups of each axis.
///
/// The time is proportional to ranks times axes, the memory to `first`. Throws UsageError if a mesh does not
/// fit on its cluster.
RANKMESH_EXPORT Difference diff(const Side& a, const Side& b, std::size_t first);

/// Returns the scenes of two sides. They mark ranks at another coordinate, ranks in another unit, and ranks
/// of only one side. If both sides have the same axes, the scene of b lists them in the order of a.
RANKMESH_EXPORT std::pair<Scene, Scene> draw(const Side& a, const Side& b, const Limits& limits);

}  // namespace rankmesh::view
