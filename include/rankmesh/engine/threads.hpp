// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::threads {

/// Runs `program` as `size` ranks of one world, each a thread of this process, and returns when all have
/// returned.
///
/// If a rank throws, all others are failed (their calls throw PeerLost), and the first error is thrown here.
/// Throws UsageError for a size below 1, EngineFailure if the system does not give that many threads.
///
///     threads::run(4, [](World& world) {
///         auto me = world.join({{"dp", 2}, {"tp", 2}});
///         auto x = 1.0f;
///         me.on("tp").all_reduce(x);
///     });
RANKMESH_EXPORT void run(int size, const std::function<void(World&)>& program,
                         const WorldOptions& options = {});

}  // namespace rankmesh::threads
