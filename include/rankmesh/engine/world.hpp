// SPDX-License-Identifier: Apache-2.0
// World, the ranks of a job; joins plans, and shrinks and grows.
#pragma once

#include <chrono>
#include <concepts>
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

/// The seconds in RANKMESH_TIMEOUT; 30 minutes if it is not set, and 0, which a world refuses, if it is not a
/// number.
RANKMESH_EXPORT std::chrono::nanoseconds default_timeout() noexcept;
}  // namespace detail

/// Options of a world.
struct WorldOptions {
    /// "threads", "mpi" or "gloo". If empty:
    /// - RANKMESH_ENGINE if set
    /// - else MPI, if built and an MPI launcher started the program
    /// - else Gloo, if built and a launcher announces several processes; or one process and RANKMESH_STORE is
    /// set, or MASTER_ADDR and MASTER_PORT are set
    /// - else threads
    std::string engine = {};
    /// The timeout of join, and of blocking calls on meshes without their own timeout. Default:
    /// RANKMESH_TIMEOUT, in seconds, else 30 minutes.
    std::chrono::nanoseconds timeout = detail::default_timeout();
    /// True if several threads of this process will communicate. On MPI this requests MPI_THREAD_MULTIPLE.
    bool multithreaded = false;
    /// True: compare operation, type, reduction and lengths of each call across its group before data moves.
    /// Different calls throw Disagreement, with each rank's call, on every rank of the group, and the group
    /// stays usable. This costs a small exchange per call; use it for debugging. Unset: RANKMESH_CHECK (1 or
    /// 0), else false. Must be equal on all ranks.
    std::optional<bool> checked = std::nullopt;
    /// The folder for flight records, which are written on errors, one file per rank. Unset: RANKMESH_RECORD;
    /// "": none. docs/flight-record.md describes the files.
    std::optional<std::string> record = std::nullopt;
    /// A signal that makes the process write its records, such as SIGUSR1. Unset: RANKMESH_RECORD_SIGNAL,
    /// such as `USR1`; 0: none. The handler stays installed until the process ends.
    std::optional<int> record_signal = std::nullopt;
    /// Called with each log line, on the thread of the event. A line begins with its rank: `[pp=1 dp=0 tp=3]
    /// joined ...`. Empty: no log.
    std::function<void(std::string_view)> log = {};
};

/// The ranks of a job, and this process's access to them.
///
/// Members and communicators share ownership of the engine, which is finalised after the last of them. If an
/// exception destroys a world, the destructor does not wait for peers: on MPI it ends the job; on threads and
/// Gloo the peers' calls throw PeerLost.
class RANKMESH_EXPORT World {
public:
    /// Returns the world in which this process was started: MPI under mpirun; Gloo under srun,
    /// torchrun, or with RANKMESH_STORE; a single rank without a launcher.
    ///
    /// Throws NotBuilt for an engine that this build lacks. Throws UsageError for an engine that does not
    /// exist, or if the engine sees another number of ranks than the innermost launcher announced (see
    /// announced_size).
    static World from_environment(int argc, char** argv, const WorldOptions& options = {});
    static World from_environment(const WorldOptions& options = {}) {
        return from_environment(0, nullptr, options);
    }

    World(World&& other) noexcept;
    World& operator=(World&& other) noexcept;
    ~World();

    int rank() const;
    int size() const;
    /// Returns the name of the engine: "threads", "mpi" or "gloo".
    std::string engine() const;

    /// Returns the name of this process's host: RANKMESH_HOST, else the system's host name.
    std::string host() const;
    /// Returns this rank's index among the world's ranks on its host, from 0; local_size() returns their
    /// number.
    int local_rank() const;
    int local_size() const;

    /// Returns a new world of these ranks, in that order. Exactly these ranks call it.
    ///
    /// Throws UsageError for ranks that do not exist, repeat, or do not include this rank. Ranks that pass
    /// different lists wait for each other until the timeout.
    ///
    ///     void train(World& world) {
    ///         auto trainers = world.sub({0, 1, 2, 3});
    ///         trainers.join({{"dp", 2}, {"tp", 2}}).on("dp").barrier();
    ///     }
    World sub(const std::vector<int>& ranks);

    /// Returns a new world of the surviving ranks, in their old order. Survivors are the ranks that catch
    /// PeerLost and call this within `grace` of each other. Supported on Gloo, whose ranks share a store, and
    /// on threads. Ends this world: calls of all ranks in it, and in worlds made of it, throw PeerLost.
    ///
    /// Does not wait for ranks that are known to have ended or left their world. Survivors get new ranks in
    /// the new world; this world's `rank()` does not change. After further losses, survivors() can be called
    /// on either world. Throws Timeout, with the survivors as `arrived`, on a rank that calls too late.
    /// Throws UsageError on engines where a lost rank ends the job.
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

    /// Returns a new world of these ranks and of up to `most` processes that wait in rejoin(). Collective:
    /// all ranks call it. Supported on Gloo with a store, on threads, and on NCCL over them.
    ///
    /// Returns when `most` processes have arrived, or when the timeout expires, with the processes that have
    /// arrived. All new processes confirm before anything is created. A process that died while waiting is
    /// omitted; it costs at most another timeout, in steps of 2 s. Each new process replaces the lost rank
    /// that it asks for, else the lowest lost rank; when all lost ranks are replaced, it becomes a new last
    /// rank. If all lost ranks are replaced, every rank has the same number and coordinate as in the first
    /// world. This world stays usable.
    ///
    /// Throws the same error on all ranks and then changes nothing: Timeout if no process arrives (`missing`
    /// is empty) or if ranks do not call it; PeerLost if a rank ends meanwhile; UsageError if `most` is not 1
    /// to 256, in a world made by sub(), and on engines that cannot grow; Disagreement if `most` differs.
    ///
    ///     void train_as_before(World& smaller, const std::function<void(World&)>& train) {
    ///         auto whole = smaller.grow(1, std::chrono::minutes(5));
    ///         train(whole);
    ///     }
    World grow(int most, std::chrono::nanoseconds timeout);

    /// Waits until the ranks of a running job call grow(), and returns the world that this process enters.
    /// RANKMESH_STORE and RANKMESH_JOB identify the job. RANK, if set, is the rank of the first world to
    /// replace.
    ///
    /// Throws Timeout if the job does not accept the process within `options.timeout`, NotBuilt without Gloo,
    /// and UsageError without a store or a job, and for engines that cannot grow. Threads use
    /// threads::JobHandle.
    ///
    ///     void come_back(const std::function<void(World&)>& train) {
    ///         auto world = World::rejoin({.timeout = std::chrono::minutes(10)});
    ///         train(world);
    ///     }
    static World rejoin(const WorldOptions& options = {});

    /// Writes this rank's flight record to a file: the last calls on each of its communicators, as JSON. Does
    /// not communicate; any thread may call it. Throws UsageError if the file cannot be written.
    ///
    ///     void look(const World& world) { world.write_record("/tmp/record.json"); }
    void write_record(const std::string& path) const;

    /// Creates this process's communicators for a plan. Collective: every rank of the world calls it.
    ///
    /// First compares the plan across all ranks. Throws UsageError for an invalid plan, Disagreement on every
    /// rank, with each distinct plan and its ranks, if the plans differ, and Timeout.
    Member join(const Plan& plan);
    /// Joins a plan of one mesh; `options` is the rest of its declaration.
    Member join(const MeshSpec& mesh, const Declaration& options = {});
    /// Joins a mesh in text. Throws UsageError for any other text.
    ///
    ///     void sum(World& world, std::vector<float>& x) { world.join("dp=* tp=2").on("tp").all_reduce(x); }
    template <std::convertible_to<std::string_view> Text>
    Member join(const Text& mesh, const Declaration& options = {}) {
        return join(MeshSpec::parse(mesh), options);
    }

    /// Waits until every rank of the world has called it. The first call joins a mesh of all ranks.
    void barrier();

protected:
    explicit World(std::shared_ptr<detail::WorldState> state);

private:
    friend struct detail::Access;
    Member join(std::span<const Declaration> plan, std::optional<UsageError> wrong);

    std::shared_ptr<detail::WorldState> state_;  // null: moved from
    std::optional<Member> all_;                  // once `barrier` has joined it
    int exceptions_ = 0;                         // exceptions in flight when it was made
};

}  // namespace rankmesh
