// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/nccl.hpp>

#include "engine/access.hpp"
#include "engine/nccl/world.hpp"

namespace rankmesh::nccl {

bool is_built() { return true; }

World::World(const rankmesh::World& host, const Options& options)
    : World(std::make_shared<detail::NcclWorld>(detail::Access::checked_state(host), options.device,
                                                options.split_share, nullptr)) {}

int World::device() const {
    return static_cast<const detail::NcclWorld&>(*detail::Access::checked_state(*this)).device_number();
}

}  // namespace rankmesh::nccl
