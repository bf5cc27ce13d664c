// SPDX-License-Identifier: Apache-2.0
// What the command prints of an answer, and Python's str of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/place.hpp>
#include <rankmesh/core/reshard.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/view/diff.hpp>

namespace rankmesh::report {

/// The name of the innermost unit in which a rank is that has one, nothing where units are only counted.
RANKMESH_EXPORT std::optional<std::string> host_name(const Cluster& cluster, int rank);
/// The position of a rank with that name: `node=2 gpu=1 (b01)`.
RANKMESH_EXPORT std::string host_text(const Cluster& cluster, int rank);

/// What joining a mesh costs, in lines of at most `width` columns; `outside` ranks of the world are not in
/// it.
RANKMESH_EXPORT std::string text_of(std::string_view mesh, const JoinCost& cost,
                                    const std::vector<EngineNeed>& needs, int outside, std::size_t width);

/// What a placement takes beside the given order, in operations of `bytes` bytes.
RANKMESH_EXPORT std::string text_of(const Placed& placed, std::int64_t bytes);

/// What differs between two sides, and the first of it.
RANKMESH_EXPORT std::string text_of(const view::Side& a, const view::Side& b, const view::Difference& found);

/// What one rank moves in a reshard: elements of the array.
struct RANKMESH_EXPORT Traffic {
    std::int64_t keeps = 0;
    std::int64_t receives = 0;
    std::int64_t between = 0;  ///< received from other hosts
    std::int64_t sends = 0;
    std::int64_t bound = 0;  ///< what no way to do it could leave out of what it receives

    Traffic& operator+=(const Traffic& other);
};
/// That of `rank` in reshards that are done one after the other.
RANKMESH_EXPORT Traffic traffic_of(const std::vector<Reshard>& steps, int rank);

/// What the ranks of such reshards move, the first 64 of them by themselves.
struct ReshardText {
    std::int64_t bytes = 1;                 ///< of one element
    std::string_view unit = "bytes";        ///< that the numbers have
    bool hosts = true;                      ///< also what comes from other hosts
    std::string_view hint = {};             ///< follows the number of ranks that are left out
    std::function<void(int rank)> at = {};  ///< is called before each rank

    RANKMESH_EXPORT std::string operator()(const std::vector<Reshard>& steps) const;
};

}  // namespace rankmesh::report
