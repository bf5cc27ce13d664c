// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/runtime.hpp"

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/mesh.hpp>

#include "engine/environment.hpp"
#include "engine/hash.hpp"
#include "engine/mpi/comparison.hpp"
#include "engine/mpi/types.hpp"

namespace rankmesh::detail {
namespace {

int process_rank = -1;
std::atomic<bool> initialised = false;

/// Calls a function as soon as MPI_Finalize is called, by whoever calls it: it first deletes the attributes
/// of MPI_COMM_SELF.
void watch_finalize(int (*on_finalize)(MPI_Comm, int, void*, void*)) {
    static std::once_flag once;
    std::call_once(once, [&] {
        auto key = 0;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, nullptr);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
        MPI_Comm_free_keyval(&key);
    });
}

/// A number that the launcher says, nothing if it says none.
std::optional<int> said(std::initializer_list<const char*> variables) {
    try {
        if (const auto found = number_in_environment(variables, 0)) return found->value;
    } catch (const UsageError&) {  // who needs the number says so
    }
    return std::nullopt;
}

/// The watchdogs of a job before MPI runs, where the launcher gives the job a name of its own.
std::shared_ptr<PeerQuery> watchdogs_of_job(int rank, std::optional<int> size) {
    const auto* name = std::getenv("PMIX_NAMESPACE");
    if (!name || rank < 0 || !size) return nullptr;
    const auto all_here = said({"OMPI_COMM_WORLD_LOCAL_SIZE"}) == size;
    return std::make_shared<PeerQuery>(hash(name), rank, all_here ? first_ranks(*size) : std::vector<int>{});
}

/// Ends the job, relying on the launcher to end the others when one process has failed: with Open MPI 4.1's
/// mpirun that is an exit without MPI_Finalize, since MPI_Abort hung mpirun itself in 5 of 25 jobs, and the
/// plain exit in none.
[[noreturn]] void end_job() {
    signal(SIGALRM, SIG_DFL);
    alarm(5);  // should anything below hang, the signal ends this process, and the launcher the others
    std::cout.flush();
    std::fflush(stdout);
    std::fflush(stderr);
    if (!std::getenv("OMPI_COMM_WORLD_SIZE") && initialised) {
        usleep(200'000);  // MPICH's mpiexec drops output that it has not read yet, such as the reports of
                          // this and other ranks
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    _exit(1);
}

/// The same a little later: what this rank has thrown, such as a Disagreement, others are about to throw as
/// well, and the launcher ends them once this process has ended.
void end_job_after_others() {
    usleep(500'000);
    end_job();
}

/// The watchdog between two runtimes of a program that calls MPI_Init itself: until the process ends, it
/// answers peers that wait for this rank in a world that this rank has ended.
std::unique_ptr<Watchdog> idle_watchdog;

}  // namespace

std::shared_ptr<Runtime> Runtime::acquire(int argc, char** argv, bool multithreaded, Duration timeout) {
    static std::mutex mutex;
    static std::weak_ptr<Runtime> running;  // one for each process, as MPI is
    const auto lock = std::lock_guard(mutex);
    auto runtime = running.lock();
    if (!runtime) {
        runtime = std::shared_ptr<Runtime>(new Runtime(argc, argv, multithreaded, timeout));
        running = runtime;
    }
    if (multithreaded && !runtime->multithreaded_)
        throw UsageError(
            "a multithreaded world was asked for, but MPI runs without MPI_THREAD_MULTIPLE in this process; "
            "make "
            "the first world multithreaded");
    return runtime;
}

Runtime::Runtime(int argc, char** argv, bool multithreaded, Duration timeout)
    : thread_(std::this_thread::get_id()), timeout_(timeout), exceptions_(std::uncaught_exceptions()) {
    auto flag = 0;
    MPI_Finalized(&flag);
    if (flag)
        throw UsageError(
            "MPI has been finalised in this process and cannot start again; keep one World alive");
    process_rank = said({"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}).value_or(-1);
    const auto size = said({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
    if (size.value_or(0) > 0) label_.ranks.group = Mesh{{"world", *size}}.group(0, "world");
    job_ = watchdogs_of_job(process_rank, size);
    start_ = std::make_unique<WatchedCall>(hash("MPI_Init"), job_, nullptr, true);
    end_ = std::make_unique<WatchedCall>(hash("MPI_Finalize"), job_);
    watchdog_ = idle_watchdog ? std::move(idle_watchdog) : std::make_unique<Watchdog>(process_rank, end_job);
    watchdog_->add(*start_);
    watchdog_->add(*end_);
    start(argc, argv, multithreaded);
    MPI_Comm_rank(MPI_COMM_WORLD, &process_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    watchdog_->rename(process_rank);
    running_ = this;
    watch_finalize([](MPI_Comm, int, void*, void*) {
        finalised_.store(true, std::memory_order_relaxed);
        if (auto* const runtime = running_.load()) runtime->await_end();
        return MPI_SUCCESS;
    });
}

/// MPI_Init waits for all ranks of the job: one that never comes is reported when the timeout expires.
void Runtime::start(int argc, char** argv, bool multithreaded) {
    auto flag = 0;
    MPI_Initialized(&flag);
    int level = MPI_THREAD_SINGLE;
    if (flag) {
        MPI_Query_thread(&level);
    } else {
        const auto watched = WhileWatched(*start_, "MPI_Init", label_, timeout_, start_->next_collective());
        MPI_Init_thread(argv ? &argc : nullptr, argv ? &argv : nullptr,
                        multithreaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
        finalises_ = true;
    }
    initialised = true;
    multithreaded_ = multithreaded && level == MPI_THREAD_MULTIPLE;
}

void Runtime::agree_on_end() {
    const auto watched = WhileWatched(*end_, "the start of the world", label_, timeout_);
    auto all = finalises_ ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    ends_together_ = all != 0;
}

/// Waits outside MPI_Finalize until all ranks are about to enter it: Open MPI's mpirun can hang if a process
/// ends while others are inside.
void Runtime::await_all() const {
    auto request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (auto pause = 10;; pause = std::min(pause * 2, 2000)) {
        auto flag = 0;
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        if (flag) return;
        usleep(static_cast<useconds_t>(pause));
    }
}

/// The program calls MPI_Finalize although it has a world: the others must not be left inside.
void Runtime::await_end() {
    if (!ends_together_ || left_) return;
    const auto watched = WhileWatched(*end_, "MPI_Finalize", label_, timeout_, end_->next_collective());
    await_all();
}

Runtime::~Runtime() {
    running_ = nullptr;
    // The last user is destroyed while an exception unwinds: peers may be in any call.
    if (std::uncaught_exceptions() > exceptions_ && size_ > 1) leave_by_exception();
    if (left_) {
        // Peers may be inside a collective: neither wait for them in MPI_Finalize nor stop the watchdog.
        static_cast<void>(watchdog_.release());
        static_cast<void>(start_.release());
        static_cast<void>(end_.release());
        return;
    }
    if (!is_usable()) return;
    if (!finalises_) {
        for (auto* const watched_call : {start_.get(), end_.get()}) watchdog_->remove(*watched_call);
        idle_watchdog = std::move(watchdog_);
        return;
    }
    const auto watched = WhileWatched(*end_, "MPI_Finalize", label_, timeout_, end_->next_collective());
    if (ends_together_) await_all();
    free_ops();
    free_comparison();
    MPI_Finalize();
}

bool Runtime::is_usable() const {
    auto finalized = 0;
    MPI_Finalized(&finalized);
    return !finalized && !left_;
}

void Runtime::leave(const std::string& what) noexcept {
    if (left_ || !is_usable()) return;
    left_ = true;
    Recorder::write_all("terminate", what);
    std::fprintf(stderr, "rankmesh: %s; other ranks may wait for this rank, so the job is ended\n",
                 what.c_str());
    std::atexit(end_job_after_others);
    watchdog_->end_after(std::min<Duration>(timeout_, std::chrono::seconds(2)));
}

void Runtime::leave_by_exception() noexcept { leave(cat("rank ", process_rank, " left by an exception")); }

void Runtime::abort(const std::string& what) noexcept {
    Recorder::write_all("terminate", what);
    std::fprintf(stderr, "rankmesh: %s; the job is ended\n", what.c_str());
    end_job();
}

void Runtime::throw_finalised() {
    throw UsageError(
        "MPI was called after MPI_Finalize; finalise it when the worlds and all that is made of them have "
        "gone");
}

void Runtime::throw_thread() {
    throw UsageError(cat("MPI was called from another thread than the world's; make the world with ",
                         in_python("multithreaded=True", ".multithreaded = true")));
}

}  // namespace rankmesh::detail
