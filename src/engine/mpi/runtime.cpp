// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/runtime.hpp"

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>

#include "engine/mpi/types.hpp"

namespace rankmesh::detail {
namespace {

int process_rank = 0;

/// Ends the job, relying on the launcher to end the others when one process has failed: with Open MPI 4.1's
/// mpirun that is an exit without MPI_Finalize, since MPI_Abort hung mpirun itself in 5 of 25 jobs, and the
/// plain exit in none.
[[noreturn]] void end_job() {
    signal(SIGALRM, SIG_DFL);
    alarm(5);  // should anything below hang, the signal ends this process, and the launcher the others
    std::cout.flush();
    std::fflush(stdout);
    std::fflush(stderr);
    if (!std::getenv("OMPI_COMM_WORLD_SIZE")) {
        usleep(200'000);  // MPICH's mpiexec drops output that it has not read yet, such as the reports of
                          // this and other ranks
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    _exit(1);
}

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
    MPI_Initialized(&flag);
    int level = MPI_THREAD_SINGLE;
    if (flag) {
        MPI_Query_thread(&level);
    } else {
        MPI_Init_thread(argv ? &argc : nullptr, argv ? &argv : nullptr,
                        multithreaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
        finalises_ = true;
    }
    multithreaded_ = multithreaded && level == MPI_THREAD_MULTIPLE;
    MPI_Comm_rank(MPI_COMM_WORLD, &process_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    watchdog_ = std::make_unique<Watchdog>(process_rank, end_job);
}

Runtime::~Runtime() {
    // The last user is destroyed while an exception unwinds: peers may be in any call.
    if (std::uncaught_exceptions() > exceptions_ && size_ > 1) leave_by_exception();
    if (left_) {
        // Peers may be inside a collective: neither wait for them in MPI_Finalize nor stop the watchdog.
        static_cast<void>(watchdog_.release());
        return;
    }
    if (!finalises_ || !is_usable()) return;
    auto flight = Flight(0, nullptr);
    const auto label = Label{};
    watchdog_->add(flight);
    {
        const auto watched = InFlight(flight, "MPI_Finalize", label, timeout_);
        free_ops();
        MPI_Finalize();
    }
    watchdog_->remove(flight);
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
    std::fprintf(stderr, "rankmesh: %s; peers may wait for it, the job is ended\n", what.c_str());
    std::atexit(end_job);
    watchdog_->end_after(std::min<Duration>(timeout_, std::chrono::seconds(2)));
}

void Runtime::leave_by_exception() noexcept { leave(cat("rank ", process_rank, " left by an exception")); }

void Runtime::abort(const std::string& what) noexcept {
    Recorder::write_all("terminate", what);
    std::fprintf(stderr, "rankmesh: %s; the job is ended\n", what.c_str());
    end_job();
}

void Runtime::check_runs() {
    auto finalised = 0;
    MPI_Finalized(&finalised);
    if (finalised)
        throw UsageError(
            "MPI was called after MPI_Finalize; finalise it when the worlds and all that is made of them "
            "have "
            "gone");
}

void Runtime::throw_thread() {
    throw UsageError(
        "MPI was called from another thread than the world's; make the world with .multithreaded = true");
}

}  // namespace rankmesh::detail
