// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/process_groups.hpp>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

#include "dialect/mesh_groups.hpp"

namespace rankmesh::olmo {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "olmo::plan of the same configurations";

/// Flattens all that the questions for parts flatten, so that every group has a name.
const DeviceMesh& flattened(const DeviceMesh& mesh) {
    get_dp_model_mesh(mesh);
    get_dp_process_group(mesh);
    return mesh;
}

}  // namespace

Plan plan(const ParallelConfigs& configs, int world_size, const Environment& environment) {
    const auto mesh = WorldMesh(0, world_size, environment).build_world_mesh(configs);
    return {detail::declared({}, flattened(mesh))};
}

Plan plan(const ExpertParallelConfig& ep_config, int world_size) {
    const auto mesh = build_expert_parallel_mesh(ep_config, 0, world_size);
    return {detail::declared({}, flattened(mesh))};
}

ProcessGroups::ProcessGroups(const Member& member, const DeviceMesh& device_mesh)
    : device_mesh_(flattened(device_mesh)) {
    dialect::check_mesh(member, device_mesh.root(), joined_with);
    groups_ = detail::mesh_groups(member, detail::all_axes(device_mesh), joined_with);
}

Communicator& ProcessGroups::get_group(const DeviceMesh& mesh, std::optional<std::string_view> mesh_dim) {
    if (mesh.root() != device_mesh_.root())
        throw Error(Fault::argument, cat("these are the groups of mesh ", to_string(device_mesh_.root()),
                                         ", not of ", to_string(mesh.root())));
    if (auto* group = detail::find(groups_, mesh, mesh_dim)) return *group;
    throw Error(
        Fault::not_member,
        cat("there is no group over ", to_string(detail::names_of(mesh.root(), mesh.axes(mesh_dim))),
            "; flatten the mesh before its ProcessGroups are made, and declare the group in the plan"));
}

Communicator& ProcessGroups::get_dp_process_group() {
    const auto dp_mesh = get_dp_mesh(device_mesh_);
    return get_group(dp_mesh.ndim() > 1 ? dp_mesh.flatten("dp") : dp_mesh);
}

}  // namespace rankmesh::olmo
