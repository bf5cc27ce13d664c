// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/core/placement.hpp>

namespace rankmesh::detail {

/// The mesh whose axes and sizes a mesh or a placement has.
inline const Mesh& mesh_of(const Mesh& mesh) { return mesh; }
inline const Mesh& mesh_of(const Placement& placement) { return placement.mesh(); }

}  // namespace rankmesh::detail
