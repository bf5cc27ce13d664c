// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/torchtitan/process_groups.hpp>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

#include "dialect/mesh_groups.hpp"

namespace rankmesh::torchtitan {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "torchtitan::plan(dims)";

/// True where the group along efsdp is fake though it has several ranks: all where experts are not parallel.
bool has_fake(const Mesh& root, const ParallelDims& dims) {
    return dims.ep == 1 && root.find("efsdp") && root.size("efsdp") > 1;
}

}  // namespace

Plan plan(const ParallelDims& dims) {
    auto plan = Plan{{.name = "world"}};
    const auto info = RankInfo(dims, 0);
    for (const auto& [name, mesh] : info.roots()) {
        auto& made = plan.emplace_back(detail::declared(name, mesh));
        if (has_fake(mesh.root(), dims)) made.axes = {"pp", "dp_replicate", "ep"};
    }
    return plan;
}

ProcessGroups::ProcessGroups(const Member& member, const ParallelDims& dims) : RankInfo(dims, member.rank()) {
    auto meshes = roots();
    meshes.insert(meshes.begin(), {"world", world_mesh()});
    for (const auto& [name, mesh] : meshes) {
        const auto& root = mesh.root();
        const auto place = dialect::place(member, name, joined_with);
        dialect::check_mesh(place, root, joined_with);
        auto sets = detail::all_axes(mesh);
        if (has_fake(root, dims)) std::erase(sets, root.axes("efsdp"));
        groups_.emplace_back(root, detail::mesh_groups(place, sets, joined_with));
    }
}

Communicator& ProcessGroups::get_group(const DeviceMesh& mesh, std::optional<std::string_view> mesh_dim) {
    for (auto& [root, groups] : groups_) {
        if (root != mesh.root()) continue;
        if (auto* group = detail::find(groups, mesh, mesh_dim)) return *group;
        const auto names = detail::names_of(root, mesh.axes(mesh_dim));
        if (names == AxisNames{"efsdp"})
            throw dialect::Refusal(Fault::not_member, "fake-group",
                                   cat("the group along efsdp is fake in torchtitan where ep is 1: its ",
                                       mesh.get_group(mesh_dim).size(),
                                       " ranks would exchange nothing; ask for the mesh without "
                                       "include_singleton_axes"));
        throw Error(Fault::not_member, cat("there is no group over ", dialect::to_string(names),
                                           ", which ParallelDims does not flatten; declare one in the plan"));
    }
    throw Error(Fault::argument, cat("these are the groups of ", parallel_dims().world_size,
                                     " ranks in meshes that ", to_string(mesh.root()), " is none of"));
}

}  // namespace rankmesh::torchtitan
