// SPDX-License-Identifier: Apache-2.0
// The texts of results, printed by the command and by Python's str.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/check.hpp>
#include <rankmesh/cluster/place.hpp>
#include <rankmesh/core/reshard.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/view/diff.hpp>

namespace rankmesh::report {

/// Returns the name of the innermost named unit of a rank; nullopt if no unit has a name.
RANKMESH_EXPORT std::optional<std::string> host_name(const Cluster& cluster, int rank);
/// Returns the position of a rank, with that name: `node=2 gpu=1 (b01)`.
RANKMESH_EXPORT std::string host_text(const Cluster& cluster, int rank);

/// Returns the cost of joining a mesh, in lines of at most `width` columns. `outside` ranks of the world are
/// not in the mesh.
RANKMESH_EXPORT std::string text_of(std::string_view mesh, const JoinCost& cost,
                                    const std::vector<EngineNeed>& needs, int outside, std::size_t width);

/// Returns the sets of axes whose collectives `check` times on a cluster: the declared single axes of two or
/// more ranks, then the declared sets.
RANKMESH_EXPORT std::vector<std::vector<std::string>> timed_sets(const JoinCost& cost);
/// Returns how a mesh fits a cluster: its rules, and the costs of its collectives; with `explain` also why,
/// and what to change.
RANKMESH_EXPORT std::string text_of(const Cluster& cluster, const Mesh& mesh, const ClusterReport& report,
                                    bool explain, std::size_t width);
/// Returns the rules that do not hold, a line each; "" if all hold.
RANKMESH_EXPORT std::string broken_rules(const Cluster& cluster, const ClusterReport& report,
                                         std::size_t width);

/// Returns the times of a placement and of the given order, for operations of `bytes` bytes.
RANKMESH_EXPORT std::string text_of(const Placed& placed, std::int64_t bytes);

/// Returns the differences between two sides, with the first differing ranks.
RANKMESH_EXPORT std::string text_of(const view::Side& a, const view::Side& b, const view::Difference& found);

/// The elements of the array that one rank moves in a reshard.
struct RANKMESH_EXPORT Traffic {
    std::int64_t keeps = 0;
    std::int64_t receives = 0;
    std::int64_t between = 0;  ///< elements received from other hosts
    std::int64_t sends = 0;
    std::int64_t bound = 0;  ///< the fewest elements that any algorithm must receive

    Traffic& operator+=(const Traffic& other);
};
/// Returns the traffic of `rank` in reshards that run one after another.
RANKMESH_EXPORT Traffic traffic_of(const std::vector<Reshard>& steps, int rank);

/// Options of the text of reshards, which lists the first 64 ranks one by one.
struct ReshardText {
    std::int64_t bytes = 1;                 ///< bytes of one element
    std::string_view unit = "bytes";        ///< unit of the numbers
    bool hosts = true;                      ///< also list what comes from other hosts
    std::string_view hint = {};             ///< text after the number of omitted ranks
    std::function<void(int rank)> at = {};  ///< called before each rank

    RANKMESH_EXPORT std::string operator()(const std::vector<Reshard>& steps) const;
};

}  // namespace rankmesh::report
