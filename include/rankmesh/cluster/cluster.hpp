// SPDX-License-Identifier: Apache-2.0
// Cluster, the machines of a job: racks, nodes, devices and the links between them.
#pragma once

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/coordinate.hpp>
#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// The machines of a job: a tree of levels, outermost first; its leaves are the devices. `node:8(25GB/s,5us)
/// gpu:8`.
///
/// A level counts its units or names them. `node:8` counts: 8 nodes in each unit of the next outer level.
/// `node[a01-a31]:8 node[b01]:4` names the nodes of the whole cluster, in the order of their devices; the
/// numbers are units of the next inner level in each node. That inner level then has no count: `
/// gpu(450GB/s)` gives its name and link. If the inner level is missing, its name is `device`.
///
/// Rank r runs on device r.
///
/// Law: `Cluster::parse(to_string(cluster)) == cluster`.
/// Law: a unit has `unit_size` consecutive devices from `first_device` on; units follow one another without
/// gaps.
class RANKMESH_EXPORT Cluster {
public:
    /// A named unit. Names are unique in their level and consist of letters, digits, `_`, `-` and `.`: `a01`.
    struct Unit {
        std::string name;
        int count = 1;  ///< units of the next inner level in this unit
        friend bool operator==(const Unit&, const Unit&) = default;
    };

    /// One level of the tree. `bandwidth` and `latency` describe the link from one unit outwards; empty:
    /// unknown.
    struct Level {
        std::string name;
        int count = 1;  ///< units in one unit of the next outer level, the largest count if they differ
        std::optional<double> bandwidth = {};  ///< bytes per second and direction, 1 to 10^18
        std::optional<double> latency = {};    ///< seconds, 10^-12 to 1000, or 0
        std::vector<Unit> units = {};  ///< named units of the whole cluster; empty: units are only counted
        friend bool operator==(const Level&, const Level&) = default;
    };

    static constexpr int most_names = 1 << 18;        ///< most named units of one level
    static constexpr std::size_t longest_name = 255;  ///< most characters of a unit's name

    /// Makes a cluster. For a level with named units, and for the next inner level, `count` is ignored and
    /// computed from the names.
    ///
    /// Throws UsageError for no level, more than 16 levels, an invalid or repeated name, a count below 1,
    /// names that do not match the counts of the next outer level, names in the innermost level, a link out
    /// of range, or more than 2^31 - 1 devices.
    explicit Cluster(std::vector<Level> levels);

    /// Reads `rack:4 node:8(25GB/s,5us) gpu:8(450GB/s)` or `node[a01-a31]:8 node[b01]:4`. Throws UsageError
    /// for any other text.
    static Cluster parse(std::string_view text);

    std::span<const Level> levels() const { return levels_; }
    int level_count() const { return static_cast<int>(levels_.size()); }
    /// Returns the number of devices.
    int size() const { return shapes_.back().count; }
    /// Returns true if all units of each level hold equally many units and devices.
    bool is_even() const { return even_; }

    /// Returns the level of that name, 0 for the outermost. Throws UsageError, which suggests the nearest
    /// name, if there is none.
    int level(std::string_view name) const;
    /// Returns the number of units of a level in the whole cluster.
    int unit_count(int level) const;
    /// Returns the unit of a level that contains `device`, counted over the whole cluster. Takes a division,
    /// or a binary search if units differ in size.
    int unit(int device, int level) const;
    /// Returns the first device of a unit.
    int first_device(int unit, int level) const;
    /// Returns the number of devices of a unit.
    int unit_size(int unit, int level) const;
    /// Returns the name of a unit, `a07`. A unit without a name is described by its numbers: `rack 1 node 3`.
    std::string unit_name(int unit, int level) const;
    /// Returns the number of the unit at each level, counted inside its parent: `rack=1 node=3 gpu=5`.
    Coordinate path(int device) const;

    friend bool operator==(const Cluster& a, const Cluster& b) { return a.levels_ == b.levels_; }

private:
    /// The units of a level and their devices.
    struct Shape {
        int count = 0;                 // units in the whole cluster
        int size = 0;                  // devices of each unit; 0: they differ, see `starts`
        std::vector<int> starts = {};  // the first device of each unit, then the number of devices
        int first_device(int unit) const {
            return size > 0 ? unit * size : starts[static_cast<std::size_t>(unit)];
        }
        int unit(int device) const;
    };

    const Shape& checked(int level) const;
    const Shape& checked(int unit, int level) const;
    void check_device(int device) const;
    /// Returns the number of a unit inside its parent.
    int number(int unit, int level) const;

    std::vector<Level> levels_;
    std::vector<Shape> shapes_;  // of each level
    bool even_ = true;
};

RANKMESH_EXPORT std::string to_string(const Cluster& cluster);
inline std::ostream& operator<<(std::ostream& out, const Cluster& cluster) {
    return out << to_string(cluster);
}

}  // namespace rankmesh
