// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh {

/// The machines: a tree of levels, outermost first, whose leaves are the devices: `node:8(25GB/s,5us) gpu:8`.
///
/// Rank r runs on device r: ranks fill the devices in order.
///
/// Law: `Cluster::parse(to_string(cluster)) == cluster`.
/// Law: the devices of unit u of a level are the `size() / unit_count(level)` from `u` times that number on.
class RANKMESH_EXPORT Cluster {
public:
    /// One level of the tree; the link is that of one such unit upwards, empty where nothing is said of it.
    struct Level {
        std::string name;
        int count = 1;                         ///< in one unit of the level outside
        std::optional<double> bandwidth = {};  ///< bytes a second, 1 to 10^18
        std::optional<double> latency = {};    ///< seconds, 10^-12 to 1000, or 0
        friend bool operator==(const Level&, const Level&) = default;
    };

    /// Throws UsageError for no level, more than 16, a bad or repeated name, a count below 1, a link out of
    /// range, or more than 2^31 - 1 devices.
    explicit Cluster(std::vector<Level> levels);

    /// Reads `rack:4 node:8(25GB/s,5us) gpu:8(450GB/s)`; throws UsageError.
    static Cluster parse(std::string_view text);

    std::span<const Level> levels() const { return levels_; }
    int level_count() const { return static_cast<int>(levels_.size()); }
    /// The number of devices.
    int size() const { return mesh_.size(); }

    /// The level of that name, outermost 0; throws UsageError that names the nearest spelling.
    int level(std::string_view name) const;
    /// The number of units of a level in the whole cluster.
    int unit_count(int level) const;
    /// The unit of a level in which `device` lies, counted over the whole cluster.
    int unit(int device, int level) const;
    /// The number of the unit at each level, counted inside its parent: `rack=1 node=3 gpu=5`.
    Coordinate path(int device) const;

    friend bool operator==(const Cluster& a, const Cluster& b) { return a.levels_ == b.levels_; }

private:
    const Level& checked(int level) const;

    std::vector<Level> levels_;
    Mesh mesh_;  // the levels as axes: device r stands at coord(r)
};

RANKMESH_EXPORT std::string to_string(const Cluster& cluster);
inline std::ostream& operator<<(std::ostream& out, const Cluster& cluster) {
    return out << to_string(cluster);
}

}  // namespace rankmesh
