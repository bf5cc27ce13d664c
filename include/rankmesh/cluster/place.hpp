// SPDX-License-Identifier: Apache-2.0
// Finds the placement of a mesh on a cluster that communicates fastest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cost.hpp>

namespace rankmesh {

/// The communication along one axis: the operation, and how often it runs relative to other axes.
struct AxisTraffic {
    std::string axis = {};
    Collective operation = Collective::all_reduce;
    double weight = 1.0;  ///< 0 or more
    friend bool operator==(const AxisTraffic&, const AxisTraffic&) = default;
};

/// Returns typical weights of training (see `docs/machines.md`): tp all_reduce 100, ep all_to_all 30, cp
/// shift 30, pp shift 1, and all_reduce 10 for dp and any other axis.
///
///     EXPECT_EQ(typical_traffic(Mesh{{"pp", 2}}).at(0), (AxisTraffic{"pp", Collective::shift, 1}));
RANKMESH_EXPORT std::vector<AxisTraffic> typical_traffic(const Mesh& mesh);

/// The best placement found for a mesh, and its gain. Rank r runs on device r.
struct Placed {
    /// One axis of two or more ranks: the seconds of one operation of all its groups at once.
    struct Axis {
        AxisTraffic traffic;
        double before = 0.0;
        double after = 0.0;
    };
    /// Which placements were compared.
    enum class Search : std::uint8_t {
        some,     ///< some placements
        strided,  ///< all meshes whose strides and unit sizes divide each other; none is better
        all       ///< all placements; none is better
    };

    /// The given placement, a mesh with other strides, or a table if it is better than every mesh.
    Placement order;
    std::vector<Axis> axes = {};
    double before = 0.0;  ///< sum over the axes of weight times seconds, in the given order
    double after = 0.0;   ///< the same in the new order, at most `before`
    Search search = Search::some;

    /// Returns the device of each position; the last axis varies fastest.
    RANKMESH_EXPORT std::vector<int> devices() const;
};

/// Returns `some`, `strided` or `all`.
RANKMESH_EXPORT std::string_view to_string(Placed::Search search);

/// Returns the placement with the smallest sum over the axes of weight times seconds, for operations of
/// `bytes` bytes. Axes that `traffic` does not name get their `typical_traffic`.
///
/// Throws UsageError if a level has no bandwidth, if a rank has no device, if `traffic` names an axis that
/// the mesh does not have, or if a weight is negative or not a number.
///
///     auto placed = place(Cluster::parse("node:2(25GB/s) gpu:2(450GB/s)"), Mesh{{"tp", 2}, {"dp", 2}});
///     EXPECT_EQ(placed.order, Mesh::parse("tp=2:1 dp=2:2"));
RANKMESH_EXPORT Placed place(const Cluster& cluster, const Placement& given,
                             const std::vector<AxisTraffic>& traffic = {}, std::int64_t bytes = 64 << 20);

}  // namespace rankmesh
