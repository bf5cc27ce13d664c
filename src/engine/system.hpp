// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// This process lacks what it needs for itself, such as a descriptor; no peer is to blame.
struct Shortage final : EngineFailure {
    using EngineFailure::EngineFailure;
};

/// True of an `errno` that says so.
inline bool is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/// Throws Shortage if that is what an `errno` says.
inline void throw_if_short(int error) {
    if (is_shortage(error))
        throw Shortage(cat("no descriptor can be opened here: ", std::strerror(error),
                           "; see the limits of this process (ulimit -n)"));
}

/// `size` bytes, at most 256, that nobody can guess; throws EngineFailure if the system gives none.
std::string random_bytes(std::size_t size);
/// 128 such bits in hexadecimal digits.
std::string new_secret();

/// Writes a file that does not exist in an open folder, following no link; returns 0, or the system's error
/// after removing the file.
int write_new_file(int folder, const std::string& name, std::string_view text, mode_t mode);

/// The name of this process's host: RANKMESH_HOST, else what the system says.
std::string host_name();

/// A thread to which no signal is delivered: those are the program's own threads'.
template <class Body>
std::thread thread_without_signals(Body&& body) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    auto thread = std::thread(std::forward<Body>(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

}  // namespace rankmesh::detail
