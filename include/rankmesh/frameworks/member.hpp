// SPDX-License-Identifier: Apache-2.0
// The calls on a member that every live framework makes.
#pragma once

#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/member.hpp>

namespace rankmesh::frameworks {

/// Throws UsageError unless the member was joined with `mesh`: names what it has and what to join with.
RANKMESH_EXPORT void check_mesh(const Member& member, const Mesh& mesh, std::string_view plan);

/// The member's place in the mesh of that name; throws UsageError that names `plan` where its plan lacks it.
RANKMESH_EXPORT Member place(const Member& member, std::string_view mesh, std::string_view plan);

/// The communicator over these axes.
///
/// Throws UsageError that names `plan`, the call whose result to join with, where the member's plan lacks it.
RANKMESH_EXPORT Communicator communicator(const Member& member, std::span<const std::string_view> names,
                                          std::string_view plan);
inline Communicator communicator(const Member& member, std::initializer_list<std::string_view> names,
                                 std::string_view plan) {
    return communicator(member, std::span<const std::string_view>(names.begin(), names.size()), plan);
}

}  // namespace rankmesh::frameworks
