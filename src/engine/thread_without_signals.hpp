// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace rankmesh::detail {

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
