// SPDX-License-Identifier: Apache-2.0
// The meshes of torchtitan's ParallelDims, and its answers about them.
#pragma once

#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_torchtitan {

using Names = std::vector<std::string>;

bool is_spmd(const Given& given);    ///< under spmd_types
bool is_folded(const Given& given);  ///< under partial_dtensor

/// The meshes that all others are parts of, in the order in which names are looked for.
std::vector<MeshRow> roots(const Given& given);
/// A name along which there is a mesh, and the root of that mesh.
struct Name {
    std::string_view name, root;
};
/// All names, enabled or not, in the original's order.
std::vector<Name> named(const Given& given);
Names names_of(const Given& given);
/// True for a name along which there is a mesh that is enabled.
bool is_enabled(const Given& given, std::string_view name);
/// The error for a name that is not enabled, or for names of which one is not.
Error not_available(const Value& dims);

/// What ParallelDims answers about its meshes.
std::vector<AccessorRow> accessors();

}  // namespace rankmesh::frameworks::of_torchtitan
