// SPDX-License-Identifier: Apache-2.0
// The NCCL engine: communicators on devices.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::nccl {

/// Returns true if this build has the NCCL engine.
RANKMESH_EXPORT bool is_built();

/// The versions that this process finds, and its devices. An empty text stands for what is not found.
struct Software {
    std::string nccl;     ///< NCCL's, such as `2.32.3`
    std::string runtime;  ///< CUDA runtime's, such as `13.5`
    std::string driver;   ///< the latest CUDA that the driver supports
    int devices = 0;      ///< that this process can use
    std::string problem;  ///< why a World cannot be made here, as its constructor says it
};
/// Loads NCCL and CUDA's runtime, and asks them.
///
///     const auto found = nccl::software();
///     EXPECT_EQ(found.problem.empty(), found.devices > 0);
RANKMESH_EXPORT Software software();

struct Options {
    /// The device of this rank among the devices that its process sees. Unset: the local rank, or 0 if the
    /// process sees one device.
    std::optional<int> device = {};
    /// True: communicators share resources. That saves memory, but no two of them may run at once, and none
    /// can have its own traffic class.
    bool split_share = false;
};

/// A world of the ranks of `host`, each with a device. Communicators use device memory and NCCL; their
/// `host()` uses the engine of `host`.
///
/// Collective over `host`. Loads NCCL and CUDA's runtime, and makes the device current on this thread. Throws
/// NotBuilt if this build does not have NCCL, EngineFailure, which names the missing library, driver or
/// version, and UsageError for a device that does not exist. An error on one rank is thrown on all ranks.
///
///     void train(World& host, float* grads, std::size_t count, Stream stream) {
///         auto world = nccl::World(host);
///         auto dp = world.join({{"dp", rest}}).on("dp").on(stream);
///         dp.all_reduce(Memory(grads, count), mean);  // on the stream, like all that it gets after this
///     }
class RANKMESH_EXPORT World : public rankmesh::World {
public:
    explicit World(const rankmesh::World& host, const Options& options = {});

    /// Returns the number of this rank's device.
    int device() const;

protected:
    explicit World(std::shared_ptr<detail::WorldState> state) : rankmesh::World(std::move(state)) {}
};

}  // namespace rankmesh::nccl
