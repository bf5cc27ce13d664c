// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh {

namespace detail {
class WorldState;
struct Access;
}  // namespace detail

/// Options of a world.
struct WorldOptions {
    /// "threads", "mpi" or "gloo"; empty: RANKMESH_ENGINE, else MPI if built and started by an MPI launcher,
    /// else Gloo if built, under a launcher that announces several processes, or one and RANKMESH_STORE is
    /// set, or MASTER_ADDR and MASTER_PORT, or the launcher speaks PMIx, else threads.
    std::string engine = {};
    /// The timeout of join, and of every blocking call whose mesh does not set its own.
    std::chrono::nanoseconds timeout = std::chrono::minutes(30);
    /// True if several threads of this process will communicate; on MPI this asks for MPI_THREAD_MULTIPLE.
    bool multithreaded = false;
    /// True to compare operation, type, reduction and lengths of each call across its group before data
    /// moves: calls that differ throw Disagreement on every rank of the group, with each rank's call, and the
    /// group stays usable. It costs a small exchange per call, so use it for debugging. If unset:
    /// RANKMESH_CHECK, 1 or 0, else false. The same on all ranks.
    std::optional<bool> checked = std::nullopt;
    /// The folder that flight records are written to when something goes wrong, one file a rank; unset:
    /// RANKMESH_RECORD, "": none. docs/flight-record.md describes the files.
    std::optional<std::string> record = std::nullopt;
    /// A signal that has the records written, such as SIGUSR1; unset: RANKMESH_RECORD_SIGNAL, such as `USR1`,
    /// 0: none. Its handler stays until the process ends.
    std::optional<int> record_signal = std::nullopt;
    /// Is called with each log line, which begins with the rank that it is about, as in `[pp=1 dp=0 tp=3]
    /// joined ...`; empty: no log. Called on the thread where the event happens.
    std::function<void(std::string_view)> log = {};
};

/// The processes of a job, and the object through which this process reaches them.
///
/// Members and communicators share ownership of the engine, which is finalised after the last of them.
/// Destroyed while an exception unwinds, a world with peers never waits for them: on MPI it ends the job, on
/// threads and Gloo its peers' calls throw PeerLost.
class RANKMESH_EXPORT World {
public:
    /// The world that this process was started in: MPI under mpirun, Gloo under srun --mpi=pmix, torchrun
    /// and where RANKMESH_STORE says how the processes find each other, one rank alone without a launcher.
    ///
    /// Throws NotBuilt for an engine that this build lacks, UsageError for one that does not exist or if the
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
    /// The name of the engine: "threads", "mpi" or "gloo".
    std::string engine() const;

    /// The name of this process's host: RANKMESH_HOST, else what the system says.
    std::string host() const;
    /// This rank's index among the world's ranks on its host, from 0, and their number.
    int local_rank() const;
    int local_size() const;

    /// A new world of these ranks, in that order; called by exactly those ranks.
    ///
    /// Throws UsageError for ranks that do not exist, repeat, or leave this one out. Ranks that pass
    /// different lists wait for each other until the timeout.
    ///
    ///     void train(World& world) {
    ///         auto trainers = world.sub({0, 1, 2, 3});
    ///         trainers.join({{"dp", 2}, {"tp", 2}}).on("dp").barrier();
    ///     }
    World sub(const std::vector<int>& ranks);

    /// A new world of the surviving ranks, in their order: those that call this within `grace` of each other
    /// after they catch PeerLost. Supported on Gloo, whose ranks share a store, and on threads.
    ///
    /// Ranks that are known to have ended, or to have left their world, are not waited for. The survivors are
    /// renumbered in the new world; this world's `rank()` does not change, and after further losses
    /// survivors() can be called on either. Throws Timeout, with the survivors as `arrived`, on a rank that
    /// calls it after they have made the new world; UsageError on engines where losing one rank ends the job.
    ///
    ///     void train_on(World& world, const std::function<void(World&)>& train) {
    ///         try {
    ///             train(world);
    ///         } catch (const PeerLost&) {
    ///             auto smaller = world.survivors();
    ///             train(smaller);
    ///         }
    ///     }
    World survivors(std::chrono::nanoseconds grace = std::chrono::seconds(1));

    /// A new world of these ranks and of up to `most` processes that wait in rejoin(); all ranks call this,
    /// at the point where they let others in. Supported on Gloo with a store, on threads, and on NCCL over
    /// them.
    ///
    /// It returns once so many have come, or with those that have come when the timeout expires; that they
    /// are there is confirmed by all before anything is made. A process that died while it waited is left out
    /// and costs at most another timeout, of which 2 s at a time. Each takes the place of a rank that is
    /// gone, the lowest first, or the one that it asks for, and is a new rank at the end once all are taken:
    /// where all that were lost are replaced, every rank has the number, and so the coordinate, of the first
    /// world. This world stays usable.
    ///
    /// Throws the same on all ranks, and all stays as it was: Timeout if none comes, with no rank in
    /// `missing`, or if ranks do not call this; PeerLost if one ends meanwhile; UsageError for a number that
    /// is not 1 to 256, in a world that sub() made and where none can enter; Disagreement if the numbers
    /// differ.
    ///
    ///     void train_as_before(World& smaller, const std::function<void(World&)>& train) {
    ///         auto whole = smaller.grow(1, std::chrono::minutes(5));
    ///         train(whole);
    ///     }
    World grow(int most, std::chrono::nanoseconds timeout);

    /// The world of a running job that this process enters as one of its ranks, when they call grow(). The
    /// job is that of RANKMESH_STORE and RANKMESH_JOB; RANK, if it is set, is the rank of the first world
    /// whose place this process takes.
    ///
    /// Throws Timeout if it is not let in within `options.timeout`, NotBuilt without Gloo, and UsageError
    /// without a store or a job, and for engines that do not grow. Threads enter by threads::JobHandle.
    ///
    ///     void come_back(const std::function<void(World&)>& train) {
    ///         auto world = World::rejoin({.timeout = std::chrono::minutes(10)});
    ///         train(world);
    ///     }
    static World rejoin(const WorldOptions& options = {});

    /// Writes this rank's flight record to a file: the last calls on each of its communicators, as JSON. It
    /// waits for nobody, and any thread may call it. Throws UsageError if the file cannot be written.
    ///
    ///     void look(const World& world) { world.write_record("/tmp/record.json"); }
    void write_record(const std::string& path) const;

    /// Makes this process's communicators for a plan; collective: every rank of the world calls it.
    ///
    /// Compares the plan across all ranks before it creates anything. Throws UsageError for an invalid plan,
    /// Disagreement on every rank if the plans differ, with each distinct plan and its ranks, and Timeout.
    Member join(const Plan& plan);
    /// The same for one mesh; `options` holds the rest of its declaration.
    Member join(const MeshSpec& mesh, const Declaration& options = {});

protected:
    explicit World(std::shared_ptr<detail::WorldState> state);

private:
    friend struct detail::Access;
    Member join(std::span<const Declaration> plan, std::optional<UsageError> wrong);

    std::shared_ptr<detail::WorldState> state_;  // null: moved from
    int exceptions_ = 0;                         // in flight when it was made
};

}  // namespace rankmesh
