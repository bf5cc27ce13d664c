// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/join/join.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

/// What a Member and its views share.
struct MemberState {
    std::shared_ptr<WorldState> world;
    Joining joining;
    std::vector<MeshEntry> mesh_entries = {};
};

}  // namespace rankmesh::detail
