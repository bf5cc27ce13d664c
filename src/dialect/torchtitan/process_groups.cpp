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

/// True for the axis whose group is fake though it has several ranks: all of them where experts are not
/// parallel.
bool is_fake(const Mesh& root, AxisId axis, const ParallelDims& dims) {
    return root.name(axis) == "efsdp" && dims.ep == 1 && root.size(axis) > 1;
}

}  // namespace

Plan plan(const ParallelDims& dims) {
    auto plan = Plan{{.name = "world"}};
    const auto info = RankInfo(dims, 0);
    for (const auto& [name, mesh] : info.roots()) {
        const auto& root = mesh.root();
        auto& made = plan.emplace_back(Declaration{.name = name, .mesh = root});
        auto& axes = made.axes.emplace();
        for (int a = 0; a < root.axis_count(); ++a)
            if (!is_fake(root, AxisId{a}, dims)) axes.emplace_back(root.name(AxisId{a}));
        for (const auto& [flat, over] : mesh.flattened())
            made.over.emplace_back(detail::names_of(root, over));
    }
    return plan;
}

ProcessGroups::ProcessGroups(const Member& member, const ParallelDims& dims) : RankInfo(dims, member.rank()) {
    auto meshes = Meshes{{"world", world_mesh()}};
    meshes.insert(meshes.end(), roots().begin(), roots().end());
    for (const auto& [name, mesh] : meshes) {
        const auto place = dialect::place(member, name, joined_with);
        dialect::check_mesh(place, mesh.root(), joined_with);
        auto sets = detail::all_axes(mesh);
        std::erase_if(sets, [&, root = mesh.root()](AxisSet axes) {
            for (int a = 0; a < root.axis_count(); ++a)
                if (axes == root.axes(AxisId{a}) && is_fake(root, AxisId{a}, dims)) return true;
            return false;
        });
        groups_.emplace_back(mesh.root(), detail::mesh_groups(place, sets, joined_with));
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
