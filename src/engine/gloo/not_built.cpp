// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/gloo.hpp>

#include "engine/gloo/meeting.hpp"

namespace rankmesh {

bool detail::is_place_known() { return false; }

namespace gloo {

bool is_built() { return false; }

World::World(const Meeting&, const WorldOptions&) : rankmesh::World(nullptr) {
    throw NotBuilt(
        "this build of rankmesh has no Gloo; configure with -DRANKMESH_GLOO=ON where libgloo-dev is "
        "installed");
}

}  // namespace gloo
}  // namespace rankmesh
