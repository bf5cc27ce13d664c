// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include "arrangement.hpp"

namespace rankmesh::cli {

/// What build_world_mesh is called with for an arrangement in roles.
olmo::ParallelConfigs olmo_configs(const Arrangement& arrangement);

}  // namespace rankmesh::cli
