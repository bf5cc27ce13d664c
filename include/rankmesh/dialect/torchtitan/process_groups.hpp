// SPDX-License-Identifier: Apache-2.0
// The process groups of torchtitan's meshes, live.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/torchtitan/rank_info.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::torchtitan {

/// What to join with: `world`, and the meshes that ParallelDims builds with every group that carries
/// collectives there.
RANKMESH_EXPORT Plan plan(const ParallelDims& dims);

/// The meshes of a member, and their communicators.
class RANKMESH_EXPORT ProcessGroups : public RankInfo {
public:
    /// Of a member that was joined with `plan(dims)`; throws UsageError for any other.
    ProcessGroups(const Member& member, const ParallelDims& dims);

    /// What torch's `mesh.get_group(mesh_dim)` returns, for a mesh of this rank or a part of it.
    ///
    /// Throws dialect::Error for a mesh of another world, and dialect::Refusal for one along which
    /// torchtitan's group is fake: there collectives return without moving data.
    ///
    ///     void average(torchtitan::ProcessGroups& groups, float& loss) {
    ///         groups.get_group(groups.get_mesh("loss")).all_reduce(loss, mean);
    ///     }
    Communicator& get_group(const DeviceMesh& mesh, std::optional<std::string_view> mesh_dim = {});

private:
    std::vector<std::pair<Mesh, std::vector<std::pair<AxisSet, Communicator>>>> groups_;
};

}  // namespace rankmesh::torchtitan
