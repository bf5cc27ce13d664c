// SPDX-License-Identifier: Apache-2.0
// The Gloo engine: processes connected over TCP.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::gloo {

/// Returns true if this build has the Gloo engine.
RANKMESH_EXPORT bool is_built();

/// How the processes of a job find each other. Unset members come from the environment.
struct RendezvousOptions {
    /// The store, one of:
    /// - a folder that all processes of the job can access
    /// - `tcp://HOST:PORT`: a store that rank 0 serves. It ends with rank 0.
    /// - `redis://HOST:PORT`: a Redis server. Its password comes from RANKMESH_REDIS_PASSWORD, or from the
    /// file RANKMESH_REDIS_PASSWORD_FILE, which other users must not be able to read.
    ///
    /// If empty: RANKMESH_STORE, else rank 0 at MASTER_ADDR and a port derived from MASTER_PORT, else in a
    /// step of Slurm the first task at a port derived from the step. A job of one process needs no store.
    /// Clients of rank 0's store must know RANKMESH_SECRET, or the first line of the file
    /// RANKMESH_SECRET_FILE. If neither is set, they must know the id `job`.
    std::string store = {};
    /// The id of this run of the job in the store. If empty: RANKMESH_JOB, TORCHELASTIC_RUN_ID, SLURM_JOB_ID
    /// with its step, or Open MPI's id of the job. A store of rank 0 needs none.
    std::string job = {};
    /// True if only the ranks know the job, because it is random: it then is the secret of rank 0's store.
    bool job_is_secret = false;
    /// This process's rank. If unset: OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID or RANK.
    std::optional<int> rank = {};
    /// The number of ranks. If unset: from the launcher as for every engine.
    std::optional<int> size = {};
    /// The network interface to use, by name, address or subnet such as `10.0.0.0/8`. If empty:
    /// RANKMESH_INTERFACE, else loopback if all ranks share a network namespace, else the interface of the
    /// route to MASTER_ADDR, else of the default route; its address family is one that all ranks have.
    std::string interface = {};
};

/// A world of processes connected over TCP, started by any launcher or one by one.
///
/// Throws NotBuilt without Gloo, UsageError if rank, size, store or job is unknown or the store is not safe,
/// and Timeout with the missing ranks if some do not arrive.
class RANKMESH_EXPORT World : public rankmesh::World {
public:
    explicit World(const WorldOptions& options = {}) : World(RendezvousOptions{}, options) {}
    explicit World(const RendezvousOptions& rendezvous, const WorldOptions& options = {});

    /// World::rejoin with explicit options. `rank` is the rank of the first world that this process replaces;
    /// nullopt: any. `size` is ignored.
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
