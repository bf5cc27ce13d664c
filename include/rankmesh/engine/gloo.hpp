// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::gloo {

/// True if this build has the Gloo engine.
RANKMESH_EXPORT bool is_built();

/// How the processes of a job find each other; what is left out is taken from the environment.
struct RendezvousOptions {
    /// A folder that all processes of the job see, a port at which rank 0 serves a store as
    /// `tcp://HOST:PORT` (and, as `tcp://HOST:PORT,HOST:PORT`, another rank a second one, by which the others
    /// go on when rank 0 ends), a Redis server as `redis://HOST:PORT`, or `pmix` for the server of their
    /// launcher; else RANKMESH_STORE, else PMIx if it answers, else rank 0 at a port beside MASTER_PORT of
    /// MASTER_ADDR. A job of one process needs none. Who connects to rank 0 must know RANKMESH_SECRET, or the
    /// first line of the file RANKMESH_SECRET_FILE, else the job. A password of Redis comes from
    /// RANKMESH_REDIS_PASSWORD, or from the file RANKMESH_REDIS_PASSWORD_FILE, which other users must not be
    /// able to read.
    std::string store = {};
    /// Identifies this run of the job in that store; else RANKMESH_JOB, TORCHELASTIC_RUN_ID, SLURM_JOB_ID
    /// with its step, or what Open MPI's launcher calls the job. PMIx and a store of rank 0 need none.
    std::string job = {};
    /// Else what PMIx says, or OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID or RANK.
    std::optional<int> rank = {};
    /// Else what PMIx says, or the launcher announces, as for every engine.
    std::optional<int> size = {};
    /// The network interface whose address peers are told, by its name, its address or a subnet such as
    /// `10.0.0.0/8`; else RANKMESH_INTERFACE, else loopback where all ranks share a network, else the one
    /// that leads to MASTER_ADDR or by default to others, of a kind that all ranks have.
    std::string interface = {};
};

/// The processes of a job, started by any launcher or one by one, over TCP.
///
/// Throws NotBuilt without Gloo, UsageError if rank, size, store or job are unknown or the store is not safe,
/// Timeout with the missing ranks if some do not arrive.
class RANKMESH_EXPORT World : public rankmesh::World {
public:
    explicit World(const WorldOptions& options = {}) : World(RendezvousOptions{}, options) {}
    explicit World(const RendezvousOptions& rendezvous, const WorldOptions& options = {});

    /// World::rejoin with what is not in the environment. `rank` is the rank of the first world whose place
    /// this process takes, nothing: any; `size` is not used.
    ///
    ///     void come_back(const std::function<void(World&)>& train) {
    ///         auto world = gloo::World::rejoin({.store = "redis://10.0.0.1:6379", .job = "17", .rank = 3});
    ///         train(world);
    ///     }
    static World rejoin(const RendezvousOptions& rendezvous, const WorldOptions& options = {});

private:
    explicit World(std::shared_ptr<detail::WorldState> state) : rankmesh::World(std::move(state)) {}
};

}  // namespace rankmesh::gloo
