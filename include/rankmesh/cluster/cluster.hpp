// SPDX-License-Identifier: Apache-2.0
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

/// The machines: a tree of levels, outermost first, whose leaves are the devices: `node:8(25GB/s,5us) gpu:8`.
///
/// `node:8` counts nodes inside each unit of the level outside. `node[a01-a31]:8 node[b01]:4` lists nodes by
/// name, over the whole cluster and in the order of their devices, and says how many units of the level
/// inside each of them holds; the level inside then needs no count: ` gpu(450GB/s)` says its name and link,
/// and devices of which nothing is said are the level `device`. A level lists its units by name or counts
/// them.
///
/// Rank r runs on device r: ranks fill the devices in order.
///
/// Law: `Cluster::parse(to_string(cluster)) == cluster`.
/// Law: the devices of a unit are `unit_size` in a row from `first_device` on, and units follow one another.
class RANKMESH_EXPORT Cluster {
public:
    /// A unit by its name, which no other of its level has: `a01`, of letters, digits, `_`, `-` and `.`.
    struct Unit {
        std::string name;
        int count = 1;  ///< of the units of the level inside that it holds
        friend bool operator==(const Unit&, const Unit&) = default;
    };

    /// One level of the tree; the link is that of one such unit upwards, empty where nothing is said of it.
    struct Level {
        std::string name;
        int count = 1;  ///< in one unit of the level outside, the most where they hold different numbers
        std::optional<double> bandwidth = {};  ///< bytes a second, 1 to 10^18
        std::optional<double> latency = {};    ///< seconds, 10^-12 to 1000, or 0
        std::vector<Unit> units = {};          ///< of the whole cluster, empty where they are only counted
        friend bool operator==(const Level&, const Level&) = default;
    };

    static constexpr int most_names = 1 << 18;        ///< units by name of one level
    static constexpr std::size_t longest_name = 255;  ///< characters of one of them

    /// Of a level with units by name, and of the one inside it, the count is taken from the names, whatever
    /// it says.
    ///
    /// Throws UsageError for no level, more than 16, a bad or repeated name, a count below 1, as many names
    /// as the level outside does not hold, names of the innermost level, a link out of range, or more than
    /// 2^31 - 1 devices.
    explicit Cluster(std::vector<Level> levels);

    /// Reads `rack:4 node:8(25GB/s,5us) gpu:8(450GB/s)` or `node[a01-a31]:8 node[b01]:4`; throws UsageError.
    static Cluster parse(std::string_view text);

    std::span<const Level> levels() const { return levels_; }
    int level_count() const { return static_cast<int>(levels_.size()); }
    /// The number of devices.
    int size() const { return shapes_.back().count; }
    /// True if all units of each level hold equally many devices and units.
    bool is_even() const { return even_; }

    /// The level of that name, outermost 0; throws UsageError that names the nearest spelling.
    int level(std::string_view name) const;
    /// The number of units of a level in the whole cluster.
    int unit_count(int level) const;
    /// The unit of a level in which `device` lies, counted over the whole cluster: a division, where units
    /// hold different numbers of devices a binary search.
    int unit(int device, int level) const;
    /// The first of the devices of a unit.
    int first_device(int unit, int level) const;
    /// The number of devices of a unit.
    int unit_size(int unit, int level) const;
    /// The name of a unit, `a07`; of one that is only counted its number inside the unit that holds it, after
    /// the name of that: `rack 1 node 3`.
    std::string unit_name(int unit, int level) const;
    /// The number of the unit at each level, counted inside its parent: `rack=1 node=3 gpu=5`.
    Coordinate path(int device) const;

    friend bool operator==(const Cluster& a, const Cluster& b) { return a.levels_ == b.levels_; }

private:
    /// Where the devices of the units of a level are.
    struct Shape {
        int count = 0;                 // units in the whole cluster
        int size = 0;                  // devices of each, 0 where they differ:
        std::vector<int> starts = {};  // then the first device of each, and the number of devices
        int first_device(int unit) const {
            return size > 0 ? unit * size : starts[static_cast<std::size_t>(unit)];
        }
        int unit(int device) const;
    };

    const Shape& checked(int level) const;
    const Shape& checked(int unit, int level) const;
    void check_device(int device) const;
    /// The number of a unit inside the unit that holds it.
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
