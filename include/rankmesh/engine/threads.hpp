// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::detail {
class JobStore;
}

namespace rankmesh::threads {

/// Runs `program` as `size` ranks of one world, each a thread of this process, and returns when all have
/// returned.
///
/// If a rank throws, all others are failed (their calls throw PeerLost), and the first error is thrown here,
/// also where survivors() goes on. A rank that returns is missed by those that call something with it.
/// Throws UsageError for a size below 1, EngineFailure if the system does not give that many threads.
///
///     threads::run(4, [](World& world) {
///         auto me = world.join({{"dp", 2}, {"tp", 2}});
///         auto x = 1.0f;
///         me.on("tp").all_reduce(x);
///     });
RANKMESH_EXPORT void run(int size, const std::function<void(World&)>& program,
                         const WorldOptions& options = {});

/// A job of threads, by which other threads of the process enter it.
///
///     void come_back(const threads::JobHandle& job, const std::function<void(World&)>& train) {
///         auto world = job.rejoin();  // in a thread that the program has started
///         train(world);
///     }
class RANKMESH_EXPORT JobHandle {
public:
    /// Throws UsageError for a world of another engine.
    explicit JobHandle(const World& world);

    /// A world that this thread enters when its ranks call World::grow(); `place` is the rank of the first
    /// world that it replaces, nothing: any. Throws Timeout if it is not let in within `options.timeout`.
    World rejoin(std::optional<int> place = std::nullopt, const WorldOptions& options = {}) const;

private:
    std::shared_ptr<detail::JobStore> store_;
};

}  // namespace rankmesh::threads
