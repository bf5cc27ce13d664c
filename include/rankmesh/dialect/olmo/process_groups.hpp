// SPDX-License-Identifier: Apache-2.0
// The process groups of OLMo-core's meshes, live.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/olmo/world_mesh.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::olmo {

/// The plan to join: the world mesh and every group that OLMo-core requests of it.
RANKMESH_EXPORT Plan plan(const ParallelConfigs& configs, int world_size,
                          const Environment& environment = {});
/// The same for the expert mesh; a program with both gives each declaration a name.
RANKMESH_EXPORT Plan plan(const ExpertParallelConfig& ep_config, int world_size);

/// The communicators of a mesh and of its parts.
class RANKMESH_EXPORT ProcessGroups {
public:
    /// Throws UsageError for a member that was joined with another mesh, or whose plan lacks a dimension, a
    /// group that OLMo-core asks for, or a name that the mesh was flattened to.
    ProcessGroups(const Member& member, const DeviceMesh& device_mesh);

    /// What torch's `mesh.get_group(mesh_dim)` returns, for the mesh or a part of it.
    ///
    /// Throws dialect::Error for a part of another mesh, or one that was flattened since.
    Communicator& get_group(const DeviceMesh& mesh, std::optional<std::string_view> mesh_dim = {});
    /// The group of `get_dp_process_group`.
    Communicator& get_dp_process_group();

private:
    DeviceMesh device_mesh_;
    std::vector<std::pair<AxisSet, Communicator>> groups_;
};

}  // namespace rankmesh::olmo
