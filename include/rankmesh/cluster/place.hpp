// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <rankmesh/cluster/cost.hpp>

namespace rankmesh {

/// What the groups along one axis do, and how often beside other axes.
struct AxisTraffic {
    std::string axis = {};
    Collective operation = Collective::all_reduce;
    double weight = 1.0;  ///< 0 or more
    friend bool operator==(const AxisTraffic&, const AxisTraffic&) = default;
};

/// What `docs/machines.md` says of training in general, from most to least: tp all_reduce 100, ep all_to_all
/// 30, cp shift 30, pp shift 1, and any other axis, as dp, all_reduce 10.
///
///     EXPECT_EQ(typical_traffic(Mesh{{"pp", 2}}).at(0), (AxisTraffic{"pp", Collective::shift, 1}));
RANKMESH_EXPORT std::vector<AxisTraffic> typical_traffic(const Mesh& mesh);

/// Where the ranks of a mesh should be, and what is gained: rank r runs on device r.
struct Placed {
    /// One axis of two ranks or more: the seconds of one operation of all its groups at once.
    struct Axis {
        AxisTraffic traffic;
        double before = 0.0;
        double after = 0.0;
    };
    /// How much was looked at.
    enum class Search : std::uint8_t {
        some,     ///< some placements
        strided,  ///< of the meshes whose strides divide the units, or are divided by them, none is better
        all       ///< no placement is better
    };

    /// The given mesh, another with strides, or where none is as good a placement.
    std::variant<Mesh, Placement> order;
    std::vector<Axis> axes = {};
    double before = 0.0;  ///< seconds by weight, of all axes
    double after = 0.0;   ///< never more than before
    Search search = Search::some;

    /// The device of each position, the last axis fastest.
    RANKMESH_EXPORT std::vector<int> devices() const;
};

/// `some`, `strided` or `all`.
RANKMESH_EXPORT std::string_view to_string(Placed::Search search);

/// The placement with the least sum over the axes of weight times seconds, of operations of `bytes` bytes;
/// an axis that `traffic` does not name has its `typical_traffic`.
///
/// Throws UsageError if a level has no bandwidth, if a rank has no device, or for traffic of an axis that the
/// mesh does not have or of a weight that is no number of 0 or more.
///
///     auto placed = place(Cluster::parse("node:2(25GB/s) gpu:2(450GB/s)"), Mesh{{"tp", 2}, {"dp", 2}});
///     EXPECT_EQ(std::get<Mesh>(placed.order), Mesh::parse("tp=2:1 dp=2:2"));
RANKMESH_EXPORT Placed place(const Cluster& cluster, const Mesh& mesh,
                             const std::vector<AxisTraffic>& traffic = {}, std::int64_t bytes = 64 << 20);
RANKMESH_EXPORT Placed place(const Cluster& cluster, const Placement& placement,
                             const std::vector<AxisTraffic>& traffic = {}, std::int64_t bytes = 64 << 20);

}  // namespace rankmesh
