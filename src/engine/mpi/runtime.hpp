// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <thread>

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
        check_runs();
    }
    /// True if MPI may still be called: it is not finalised, and no exception ends this rank.
    bool is_usable() const;
    /// Prints the reason and ends the job: when the process exits, or after a short grace in which the
    /// program can still print its own error.
    void leave(const std::string& what) noexcept;
    void leave_by_exception() noexcept;
    /// Prints the reason and ends the job now.
    [[noreturn]] void abort(const std::string& what) noexcept;

    Watchdog& watchdog() { return *watchdog_; }

private:
    Runtime(int argc, char** argv, bool multithreaded, Duration timeout);
    [[noreturn]] static void throw_thread();
    static void check_runs();

    bool finalises_ = false;  // this runtime has initialised MPI
    bool multithreaded_ = false;
    bool left_ = false;
    std::thread::id thread_;
    Duration timeout_;
    int size_ = 1;        // of MPI_COMM_WORLD
    int exceptions_ = 0;  // in flight when it was made
    std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace rankmesh::detail
