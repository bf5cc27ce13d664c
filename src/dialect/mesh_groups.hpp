// SPDX-License-Identifier: Apache-2.0
// The communicators of a device mesh, found by the axes of its root.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/dialect/device_mesh.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::detail {

using MeshGroups = std::vector<std::pair<AxisSet, Communicator>>;

/// The names of these axes, outermost first.
std::vector<std::string> names_of(const Mesh& mesh, AxisSet axes);

/// What to declare for all groups of the root of this mesh, and of what it was flattened to.
Declaration declared(std::string name, const dialect::DeviceMesh& mesh);

/// A communicator for each of these sets of axes; throws UsageError that names `plan`, the call whose result
/// to join with, where the member's plan lacks one.
MeshGroups mesh_groups(const Member& member, std::span<const AxisSet> sets, std::string_view plan);

/// Each axis of the root of this mesh, then what it was flattened to.
std::vector<AxisSet> all_axes(const dialect::DeviceMesh& mesh);

/// The communicator of `mesh.get_group(mesh_dim)`, null where it is none of these.
Communicator* find(MeshGroups& groups, const dialect::DeviceMesh& mesh,
                   std::optional<std::string_view> mesh_dim);

}  // namespace rankmesh::detail
