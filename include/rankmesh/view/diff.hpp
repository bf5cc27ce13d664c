// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// What is compared: a mesh or a placement, and the machines under it.
struct Side {
    std::variant<Mesh, Placement> topology;
    std::optional<Cluster> cluster = {};

    /// The mesh or placement in its notation.
    RANKMESH_EXPORT std::string text() const;
    RANKMESH_EXPORT bool contains(int rank) const;
    RANKMESH_EXPORT Coordinate coord(int rank) const;
    /// The group of a rank along an axis; without that axis the rank alone, and none where the rank is not
    /// here.
    RANKMESH_EXPORT std::vector<int> group(int rank, std::string_view axis) const;
};

/// A number of each side.
struct Both {
    int a = 0;
    int b = 0;
    friend bool operator==(const Both&, const Both&) = default;
};

/// What happens to the groups along one axis.
///
/// Law: `groups.a - same - reordered` groups of a have no group of b with the same ranks, and the other way
/// round.
struct AxisDifference {
    std::string axis;
    Both size = {};     ///< of the axis; 1 on a side that has it not, where each rank is a group by itself
    Both groups = {};   ///< how many there are
    int same = 0;       ///< those of the same ranks in the same order
    int reordered = 0;  ///< those of the same ranks in another order
    std::vector<Both> inside = {};  ///< by level of the difference: the groups that lie in one unit
    std::vector<int> changed = {};  ///< the first ranks of the first groups of a that are not the same
    friend bool operator==(const AxisDifference&, const AxisDifference&) = default;
};

/// A level that the clusters of both sides have, but for the devices.
struct LevelDifference {
    std::string level;
    int moved = 0;  ///< ranks of both sides that run in another unit, counted over the whole cluster
    friend bool operator==(const LevelDifference&, const LevelDifference&) = default;
};

/// What two sides disagree on. An axis that a side has not counts as one of size 1.
///
/// Law: nothing differs between a side and itself; exchanging the sides exchanges the numbers.
struct Difference {
    Both ranks = {};              ///< how many there are
    int common = 0;               ///< those of both sides
    int moved = 0;                ///< those of both sides at another coordinate
    int differing = 0;            ///< ranks of which anything differs, those that one side has not among them
    std::vector<int> first = {};  ///< the lowest of those
    std::vector<AxisDifference> axes = {};     ///< those of a, then those that only b has
    std::vector<LevelDifference> levels = {};  ///< empty unless both sides have a cluster

    /// True if every rank has the same coordinate and groups, and runs in the same units.
    bool is_none() const { return differing == 0; }
    friend bool operator==(const Difference&, const Difference&) = default;
};

/// Compares two sides; lists at most `first` ranks, and as many groups of each axis.
///
/// It takes time in proportion to ranks and axes, and memory to `first`. Throws UsageError if a mesh does not
/// fit on its cluster.
RANKMESH_EXPORT Difference diff(const Side& a, const Side& b, std::size_t first);

/// The scenes of two sides, with the ranks marked that are at another coordinate, run in another unit, or
/// that only one side has; that of b in the order of a's axes where both have the same.
RANKMESH_EXPORT std::pair<Scene, Scene> draw(const Side& a, const Side& b, const Limits& limits);

}  // namespace rankmesh::view
