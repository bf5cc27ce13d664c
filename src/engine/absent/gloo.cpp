// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/gloo.hpp>

#include "engine/membership/rendezvous_config.hpp"

namespace rankmesh {

namespace detail {

bool has_rendezvous() { return false; }

std::string gloo_library() { return {}; }

}  // namespace detail

namespace gloo {

bool is_built() { return false; }

namespace {

[[noreturn]] void throw_not_built() {
    throw NotBuilt(
        "this program's rankmesh has no Gloo; link rankmesh::rankmesh, not rankmesh::threads, of a rankmesh "
        "that was configured with -DRANKMESH_GLOO=ON where libgloo-dev is installed");
}

}  // namespace

World::World(const RendezvousOptions&, const WorldOptions&) : rankmesh::World(nullptr) { throw_not_built(); }

World World::rejoin(const RendezvousOptions&, const WorldOptions&) { throw_not_built(); }

}  // namespace gloo
}  // namespace rankmesh
