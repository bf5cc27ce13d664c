// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/gloo.hpp>

namespace rankmesh::gloo {

bool is_built() { return false; }

World::World(const Meeting&, const WorldOptions&) : rankmesh::World(nullptr) {
    throw NotBuilt(
        "this build of rankmesh has no Gloo; configure with -DRANKMESH_GLOO=ON where libgloo-dev is "
        "installed");
}

}  // namespace rankmesh::gloo
