// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/mpi/watchdog.hpp"

namespace rankmesh::detail {

/// MPI in this process: initialised with the first world, finalised after its last user.
class Runtime {
public:
    /// The instance of this process; throws UsageError once MPI has been finalised.
    static std::shared_ptr<Runtime> acquire(int argc, char** argv, bool multithreaded, Duration timeout);
    ~Runtime();

    /// Throws UsageError on another thread than the world's, unless the world was made multithreaded, and
    /// once MPI has been finalised.
    void check_thread() const {
        if (!multithreaded_ && std::this_thread::get_id() != thread_) throw_thread();
        if (finalised_.load(std::memory_order_relaxed)) throw_finalised();
    }
    /// Agrees with all ranks of the job, which call this, whether all of them end by this runtime: then none
    /// enters MPI_Finalize before all are there.
    void agree_on_end();
    /// True if MPI may still be called: it is not finalised, and no exception ends this rank.
    bool is_usable() const;
    /// Prints the reason and ends the job: when the process exits, or after a short grace in which the
    /// program can still print its own error.
    void leave(const std::string& what) noexcept;
    void leave_by_exception() noexcept;
    /// Prints the reason and ends the job now.
    [[noreturn]] void abort(const std::string& what) noexcept;

    /// True if MPI was initialised here, not by the program.
    bool has_initialised() const { return finalises_; }
    Watchdog& watchdog() { return *watchdog_; }

private:
    Runtime(int argc, char** argv, bool multithreaded, Duration timeout);
    [[noreturn]] static void throw_thread();
    [[noreturn]] static void throw_finalised();
    void start(int argc, char** argv, bool multithreaded);
    void await_all() const;
    void await_end();

    inline static std::atomic<Runtime*> running_ = nullptr;
    inline static std::atomic<bool> finalised_ = false;  // since MPI_Finalized costs 14 ns a call
    bool finalises_ = false;                             // this runtime has initialised MPI
    bool multithreaded_ = false;
    bool left_ = false;
    std::thread::id thread_;
    Duration timeout_;
    int size_ = 1;        // of MPI_COMM_WORLD
    int exceptions_ = 0;  // in flight when it was made
    bool ends_together_ = false;
    Label label_;                     // of all ranks of the job, as far as the launcher tells
    std::shared_ptr<PeerQuery> job_;  // their watchdogs, null if the launcher does not identify them
    std::unique_ptr<WatchedCall> start_;
    std::unique_ptr<WatchedCall> end_;
    std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace rankmesh::detail
