// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "engine/mpi/watchdog.hpp"

namespace rankmesh::detail {

/// MPI in this process: initialised with the first world, finalised after the last user of it has gone.
class Runtime {
public:
    /// The one of this process; throws UsageError once MPI has been finalised.
    static std::shared_ptr<Runtime> acquire(int argc, char** argv, bool multithreaded, Duration timeout);
    ~Runtime();

    /// Throws UsageError on another thread than the world's, unless the world was made multithreaded.
    void check_thread() const {
        if (!multithreaded_ && std::this_thread::get_id() != thread_) throw_thread();
    }
    /// True if MPI calls still make sense: nobody has finalised it, no rank leaves by an exception.
    bool is_usable() const;
    /// Says why and ends the job: when the process exits, or after a short grace in which the program can
    /// still say what happened.
    void leave(const std::string& what) noexcept;
    void leave_by_exception() noexcept;
    /// Says why and ends the job now.
    [[noreturn]] void abort(const std::string& what) noexcept;

    Watchdog& watchdog() { return *watchdog_; }

private:
    Runtime(int argc, char** argv, bool multithreaded, Duration timeout);
    [[noreturn]] static void throw_thread();

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
