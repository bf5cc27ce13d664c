// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/process_groups.hpp>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::olmo {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "olmo::plan of the same configurations";

/// Flattens all that the questions for parts flatten, so that every group has a name.
void flatten_all(const DeviceMesh& mesh) {
    get_dp_model_mesh(mesh);
    get_dp_process_group(mesh);
}

std::vector<std::string> names_of(const Mesh& mesh, AxisSet axes) {
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (axes.contains(AxisId{a})) names.emplace_back(mesh.name(AxisId{a}));
    return names;
}

Plan plan_of(const Mesh& mesh) {
    auto names = std::vector<std::string>{};
    auto shape = std::vector<int>{};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        names.emplace_back(mesh.name(AxisId{a}));
        shape.push_back(mesh.size(AxisId{a}));
    }
    const auto seen = init_device_mesh(shape, names, 0, mesh.size());
    flatten_all(seen);
    auto over = std::vector<Axes>{};
    for (const auto& [name, axes] : seen.flattened()) over.emplace_back(names_of(mesh, axes));
    return {{.mesh = mesh, .over = std::move(over)}};
}

}  // namespace

Plan plan(const ParallelConfigs& configs, int world_size, const Environment& environment) {
    return plan_of(mesh(configs, world_size, environment));
}

Plan plan(const ExpertParallelConfig& ep_config, int world_size) {
    return plan_of(mesh(ep_config, world_size));
}

ProcessGroups::ProcessGroups(const Member& member, const DeviceMesh& device_mesh)
    : device_mesh_(device_mesh) {
    const auto& root = device_mesh.root();
    dialect::check_mesh(member, root, joined_with);
    flatten_all(device_mesh);
    const auto add = [&](AxisSet axes) {
        const auto names = names_of(root, axes);
        const auto views = std::vector<std::string_view>(names.begin(), names.end());
        groups_.emplace_back(axes, dialect::communicator(member, views, joined_with));
    };
    for (int a = 0; a < root.axis_count(); ++a) {
        auto axes = AxisSet{};
        axes.insert(AxisId{a});
        add(axes);
    }
    for (const auto& [name, axes] : device_mesh.flattened()) add(axes);
}

Communicator& ProcessGroups::get_group(const DeviceMesh& mesh, std::optional<std::string_view> mesh_dim) {
    if (mesh.root() != device_mesh_.root())
        throw Error(Fault::argument, cat("these are the groups of mesh ", to_string(device_mesh_.root()),
                                         ", not of ", to_string(mesh.root())));
    const auto axes = mesh.axes(mesh_dim);
    for (auto& [known, group] : groups_)
        if (known == axes) return group;
    const auto names = names_of(mesh.root(), axes);
    throw Error(
        Fault::not_member,
        cat("there is no group over ", to_string(names),
            "; flatten the mesh before its ProcessGroups are made, and declare the group in the plan"));
}

Communicator& ProcessGroups::get_dp_process_group() {
    const auto dp_mesh = get_dp_mesh(device_mesh_);
    return get_group(dp_mesh.ndim() > 1 ? dp_mesh.flatten(MeshDimName::dp) : dp_mesh);
}

}  // namespace rankmesh::olmo
