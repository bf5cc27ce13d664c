// SPDX-License-Identifier: Apache-2.0
// The threads engine: ranks are threads of one process.
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

/// Runs `program` as `size` ranks of one world, each a thread of this process. Returns when all ranks have
/// returned.
///
/// If a rank throws, calls of all other ranks throw PeerLost, and run throws the first error, even if the
/// others continue with survivors(). Calls that need a rank that has returned fail. Throws UsageError for a
/// size below 1, and EngineFailure if the system cannot start that many threads.
///
///     threads::run(4, [](World& world) {
///         auto me = world.join({{"dp", 2}, {"tp", 2}});
///         auto x = 1.0f;
///         me.on("tp").all_reduce(x);
///     });
RANKMESH_EXPORT void run(int size, const std::function<void(World&)>& program,
                         const WorldOptions& options = {});

/// A handle of a job of threads, with which other threads of the process enter the job.
///
///     void come_back(const threads::JobHandle& job, const std::function<void(World&)>& train) {
///         auto world = job.rejoin();  // in a thread that the program has started
///         train(world);
///     }
class RANKMESH_EXPORT JobHandle {
public:
    /// Makes a handle of the world's job. Throws UsageError for a world of another engine.
    explicit JobHandle(const World& world);

    /// Waits until the ranks of the job call World::grow(), and returns the world that this thread enters.
    /// `place` is the rank of the first world to replace; nullopt: any. Throws Timeout if the job does not
    /// accept the thread within `options.timeout`.
    World rejoin(std::optional<int> place = std::nullopt, const WorldOptions& options = {}) const;

private:
    std::shared_ptr<detail::JobStore> store_;
};

}  // namespace rankmesh::threads
