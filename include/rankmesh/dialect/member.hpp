// SPDX-License-Identifier: Apache-2.0
// The calls on a member that every live dialect makes.
#pragma once

#include <optional>
#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/member.hpp>

namespace rankmesh::dialect {

/// Throws UsageError unless the member was joined with `mesh`: names what it has and what to join with.
RANKMESH_EXPORT void check_mesh(const Member& member, const Mesh& mesh, std::string_view plan);

/// The member's place in the mesh of that name; throws UsageError that names `plan` where its plan lacks it.
RANKMESH_EXPORT Member place(const Member& member, std::string_view mesh, std::string_view plan);

/// The communicator over these axes, or the pick of this name.
///
/// Throws UsageError that names `plan`, the call whose result to join with, where the member's plan lacks it.
RANKMESH_EXPORT Communicator communicator(const Member& member, std::span<const std::string_view> names,
                                          std::string_view plan);
inline Communicator communicator(const Member& member, std::initializer_list<std::string_view> names,
                                 std::string_view plan) {
    return communicator(member, std::span<const std::string_view>(names.begin(), names.size()), plan);
}

/// The communicator of the pick `name`, whose members here are `group`; nothing where this rank is not one.
///
/// Throws UsageError that names `plan` where the member's plan lacks the pick, or has it with other members.
RANKMESH_EXPORT std::optional<Communicator> pick(const Member& member, std::string_view name,
                                                 const Group& group, std::string_view plan);

}  // namespace rankmesh::dialect
