// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <rankmesh/engine/world.hpp>

#include "engine/access.hpp"
#include "engine/exchange.hpp"
#include "engine/world_state.hpp"
#include "support/eventually.hpp"

namespace support {

/// Waits until a rank of this world of threads does `what`: words that an expired timeout would say of it,
/// such as "in barrier", "has started recv" or "is gone". False if that takes too long.
[[nodiscard]] inline bool is_seen(const rankmesh::World& world, int rank, std::string_view what) {
    auto& exchange = rankmesh::detail::Access::checked_state(world)->exchange();
    return eventually([&] { return exchange.doing(rank).find(what) != std::string::npos; });
}

}  // namespace support
