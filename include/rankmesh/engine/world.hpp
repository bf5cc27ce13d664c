// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh {

namespace detail {
class WorldState;
}

/// What a world is made with.
struct WorldOptions {
    /// "threads" or "mpi"; empty: RANKMESH_ENGINE, else MPI if built and started by an MPI launcher, else
    /// threads.
    std::string engine = {};
    /// For join and for every blocking call whose mesh says nothing else.
    std::chrono::nanoseconds deadline = std::chrono::minutes(30);
    /// True if several threads of this process will communicate; on MPI this asks for MPI_THREAD_MULTIPLE.
    bool multithreaded = false;
};

/// The processes of a job, and the object through which this process reaches them.
///
/// Members and communicators share ownership of what lies beneath: the engine ends after the last of them.
/// Destroyed while an exception unwinds, a world with peers never waits for them: it ends the job.
class World {
public:
    /// The world that this process was started in: MPI under mpirun, alone without a launcher.
    ///
    /// Throws NotBuilt for an engine that this build lacks, Misuse for one that does not exist or if the
    /// engine sees another number of ranks than the innermost launcher announced (OMPI_COMM_WORLD_SIZE, else
    /// PMI_SIZE, else SLURM_STEP_NUM_TASKS, else WORLD_SIZE; RANKMESH_WORLD_SIZE overrides them).
    static World from_environment(int argc, char** argv, const WorldOptions& options = {});
    static World from_environment(const WorldOptions& options = {}) {
        return from_environment(0, nullptr, options);
    }

    World(World&& other) noexcept;
    World& operator=(World&& other) noexcept;
    ~World();

    int rank() const;
    int size() const;
    /// The name of the engine: "threads" or "mpi".
    std::string engine() const;

    /// Makes this process's communicators for a plan: the one visible collective, called by every rank of the
    /// world.
    ///
    /// Before anything is created the plan is compared across all ranks. Throws Misuse for a plan that is
    /// wrong in itself, Disagreement on every rank if they differ, with each description and its ranks, and
    /// Deadline.
    Member join(const Plan& plan);
    /// The same for one mesh; `options` says the rest of its declaration.
    Member join(const MeshSpec& mesh, const Declaration& options = {});

protected:
    explicit World(std::shared_ptr<detail::WorldState> state);

private:
    Member join(const Plan& plan, std::optional<Misuse> wrong);

    std::shared_ptr<detail::WorldState> state_;  // null: moved from
    int exceptions_ = 0;                         // in flight when it was made
};

}  // namespace rankmesh
