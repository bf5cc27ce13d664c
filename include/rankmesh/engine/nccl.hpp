// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::nccl {

/// True if this build has the NCCL engine.
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
    /// The device of this rank among those that its process sees; else the number of its local rank, or 0
    /// where it sees one.
    std::optional<int> device = {};
    /// True if communicators may share the resources of one another: less memory, but no two at once, and
    /// none with a traffic class of its own.
    bool split_share = false;
};

/// The ranks of `host`, each with a device: communicators work on its memory by NCCL, and their `host()` as
/// before.
///
/// All ranks of `host` make theirs at once. NCCL and CUDA's runtime are loaded here; the device becomes that
/// of this thread. Throws NotBuilt without NCCL in this build, EngineFailure that says which library, driver
/// or version is missing, and UsageError for a device that is not there: what is wrong on one rank is thrown
/// on all.
///
///     void train(World& host, float* grads, std::size_t count, Stream stream) {
///         auto world = nccl::World(host);
///         auto dp = world.join({{"dp", rest}}).on("dp").on(stream);
///         dp.all_reduce(Memory(grads, count), mean);  // on the stream, like all that it gets after this
///     }
class RANKMESH_EXPORT World : public rankmesh::World {
public:
    explicit World(const rankmesh::World& host, const Options& options = {});

    /// The number of this rank's device.
    int device() const;

protected:
    explicit World(std::shared_ptr<detail::WorldState> state) : rankmesh::World(std::move(state)) {}
};

}  // namespace rankmesh::nccl
