// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include "dialects.hpp"
#include "frameworks/olmo_configs.hpp"

namespace rankmesh::cli {

namespace {

AxisSet axes_of(const olmo::DeviceMesh& mesh, std::string_view name) {
    for (const auto& [flat, axes] : mesh.flattened())
        if (flat == name) return axes;
    return mesh.root().axes(name);
}

/// A part of the mesh as its dimensions and its ranks: `dp=2 cp=2 {0, 2, 4, 6}`.
std::string described(const olmo::DeviceMesh& part) {
    const auto names = part.mesh_dim_names().value_or(std::vector<std::string>{});
    const auto shape = part.shape();
    auto text = std::string{};
    for (std::size_t i = 0; i < names.size(); ++i) text += names[i] + "=" + std::to_string(shape[i]) + " ";
    return text + to_string(part.mesh());
}

/// Asks a mesh that is built for the question alone: some flatten what they are given.
Json answers(const std::function<olmo::DeviceMesh()>& build) {
    using Mesh = olmo::DeviceMesh;
    const auto ask = [&](auto&& of) { return [&build, of] { return of(build()); }; };
    const auto part = [&](auto&& of) { return [&build, of] { return described(of(build())); }; };
    return Answers{}
        .add("get_rank", ask([](const Mesh& m) { return m.get_rank(); }))
        .add("get_coordinate", ask([](const Mesh& m) { return m.get_coordinate(); }))
        .add("get_device_mesh_info", ask(olmo::get_device_mesh_info))
        .add("get_dp_process_group",
             ask([](const Mesh& m) { return to_string(olmo::get_dp_process_group(m)); }))
        .add("get_dp_model_mesh", part(olmo::get_dp_model_mesh))
        .add("get_dp_mesh", part(olmo::get_dp_mesh))
        .add("get_tp_mesh", part(olmo::get_tp_mesh))
        .add("get_cp_mesh", part(olmo::get_cp_mesh))
        .add("get_pp_mesh", part(olmo::get_pp_mesh))
        .add("get_pp_stage_mesh", part([](const Mesh& m) { return olmo::get_pp_stage_mesh(m); }))
        .add("get_ep_mesh", part(olmo::get_ep_mesh))
        .all();
}

}  // namespace

Words olmo_words(const Arrangement& roles, const Document&) {
    const auto configs = olmo_configs(roles);
    const auto world = roles.dense().size();
    const auto build = [configs, world](int rank) {
        return olmo::WorldMesh(rank, world).build_world_mesh(configs);
    };
    const auto mesh = build(0);
    auto words = Words{.dialect = {}, .mesh = mesh.root(), .kinds = {}, .answers = [build](int rank) {
                           return answers([&] { return build(rank); });
                       }};
    constexpr auto prefix = std::string_view("mesh_");
    for (const auto& made : olmo::new_groups(mesh)) {
        const auto axes = axes_of(mesh, made.group_desc.substr(prefix.size()));
        words.kinds.push_back(
            {.name = made.group_desc,
             .count = made.groups.size(),
             .group = [groups = made.groups](int i) { return list_of(groups[i]); },
             .of = [root = mesh.root(), axes](int rank) { return list_of(root.group(rank, axes)); }});
    }
    return words;
}

}  // namespace rankmesh::cli
