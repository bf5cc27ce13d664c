// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/engine/world.hpp>

namespace rankmesh::detail {

/// A world of this process alone, on the engine that every build has.
World lone_world(const WorldOptions& options);

}  // namespace rankmesh::detail
