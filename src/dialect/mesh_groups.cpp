// SPDX-License-Identifier: Apache-2.0
#include "dialect/mesh_groups.hpp"

#include <rankmesh/dialect/member.hpp>

namespace rankmesh::detail {

std::vector<std::string> names_of(const Mesh& mesh, AxisSet axes) {
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (axes.contains(AxisId{a})) names.emplace_back(mesh.name(AxisId{a}));
    return names;
}

Declaration declared(std::string name, const dialect::DeviceMesh& mesh) {
    auto made = Declaration{.name = std::move(name), .mesh = mesh.root()};
    for (const auto& [flat, axes] : mesh.flattened()) made.over.emplace_back(names_of(mesh.root(), axes));
    return made;
}

std::vector<AxisSet> all_axes(const dialect::DeviceMesh& mesh) {
    auto all = std::vector<AxisSet>{};
    for (int a = 0; a < mesh.root().axis_count(); ++a) all.push_back(mesh.root().axes(AxisId{a}));
    for (const auto& [name, axes] : mesh.flattened()) all.push_back(axes);
    return all;
}

MeshGroups mesh_groups(const Member& member, std::span<const AxisSet> sets, std::string_view plan) {
    auto groups = MeshGroups{};
    for (const auto axes : sets) {
        const auto names = names_of(member.mesh(), axes);
        const auto views = std::vector<std::string_view>(names.begin(), names.end());
        groups.emplace_back(axes, dialect::communicator(member, views, plan));
    }
    return groups;
}

Communicator* find(MeshGroups& groups, const dialect::DeviceMesh& mesh,
                   std::optional<std::string_view> mesh_dim) {
    const auto axes = mesh.axes(mesh_dim);
    for (auto& [known, group] : groups)
        if (known == axes) return &group;
    return nullptr;
}

}  // namespace rankmesh::detail
