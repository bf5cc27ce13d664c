// SPDX-License-Identifier: Apache-2.0
// What a program names in a plan that it has joined. Each function throws UsageError if it is not there, with
// what there is and the call to make.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/join/member_state.hpp"

namespace rankmesh::detail {

using Names = std::span<const std::string_view>;

/// The state of a member; throws UsageError if the member was moved from.
MemberState& valid(const std::shared_ptr<MemberState>& state);

/// `"a", "b"`: as names are written in code.
std::string quoted(Names names);
/// `; did you mean 'tp'?`, or all names: `; it has dp, tp`.
std::string there_is(std::string_view word, const std::vector<std::string_view>& known);

/// The mesh of a member; `mesh` is its index, -1 for a plan of several meshes.
MeshEntry& mesh_of(const std::shared_ptr<MemberState>& state, int mesh);
/// The mesh in which `call("axis")` asks for indices along an axis, or among local ranks; `more` is written
/// after the axis.
MeshEntry& mesh_along(const std::shared_ptr<MemberState>& state, int mesh, std::string_view axis,
                      std::string_view call, std::string_view more = {});
/// The mesh in which `call("a", "b")` asks for a communicator: of axes, or of a pick, a separate set or local
/// ranks.
MeshEntry& mesh_with(const std::shared_ptr<MemberState>& state, int mesh, Names names, std::string_view call);
/// The mesh that has all axes of a coordinate.
MeshEntry& mesh_at(const std::shared_ptr<MemberState>& state, int mesh, const Coordinate& coordinate);

/// This rank's position in a mesh.
int position_in(const MemberState& state, const MeshEntry& mesh_entry);

/// The local ranks of that name; null if none are declared.
const MeshEntry::GroupEntry* local_group_entry(const MeshEntry& mesh_entry, std::string_view name);
/// The group entry of a set of axes, or of a pick or separate; null for axes that were not declared.
MeshEntry::GroupEntry* group_entry_of(MeshEntry& mesh_entry, Names names);
/// The declared group entry; the error names the declaration to add.
MeshEntry::GroupEntry& declared(MeshEntry& mesh_entry, Names names);

}  // namespace rankmesh::detail
