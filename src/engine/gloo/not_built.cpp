// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/gloo.hpp>

#include "engine/libraries.hpp"
#include "engine/rendezvous/rendezvous_config.hpp"

namespace rankmesh {

bool detail::has_rendezvous() { return false; }

std::string detail::gloo_library() { return {}; }
std::string detail::redis_library() { return {}; }
std::string detail::pmix_library() { return {}; }

namespace gloo {

bool is_built() { return false; }

World::World(const RendezvousOptions&, const WorldOptions&) : rankmesh::World(nullptr) {
    throw NotBuilt(
        "this program's rankmesh has no Gloo; link rankmesh::rankmesh, not rankmesh::threads, of a rankmesh "
        "that was configured with -DRANKMESH_GLOO=ON where libgloo-dev is installed");
}

}  // namespace gloo
}  // namespace rankmesh
