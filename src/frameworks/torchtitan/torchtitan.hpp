// SPDX-License-Identifier: Apache-2.0
// The names along which torchtitan has meshes, which its settings and its answers share.
#pragma once

#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_torchtitan {

/// How layouts lie over axes: spmd_types names dp, partial_dtensor folds dp_shard and cp to fsdp.
inline bool is_spmd(const Given& given) { return given.word("spmd_backend") == "spmd_types"; }
inline bool is_folded(const Given& given) { return given.word("spmd_backend") == "partial_dtensor"; }

/// The meshes that all others are parts of, in the order in which names are looked for.
std::vector<MeshRow> roots(const Given& given);

/// A name along which there is a mesh, and the root of that mesh.
struct Name {
    std::string_view name, root;
};
/// All names, enabled or not, in the original's order.
std::vector<Name> named(const Given& given);
/// True for a name along which there is a mesh that is enabled.
bool is_enabled(const Given& given, std::string_view name);

std::vector<AccessorRow> accessors();

}  // namespace rankmesh::frameworks::of_torchtitan
