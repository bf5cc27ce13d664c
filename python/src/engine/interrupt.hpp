// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while a thread waits in the engine for peers.
#pragma once

#include <functional>
#include <memory>

#include "values/convert.hpp"

namespace rankmesh::python {

/// Notes which thread runs Python's handlers of signals, when the module is loaded.
void note_main_thread();

/// Runs `call` without the GIL. Where a SIGINT arrives meanwhile whose handler is Python's own, `leave` is
/// called, on another thread: it makes `call` throw soon; then KeyboardInterrupt is thrown instead of what
/// `call` throws.
///
/// On threads other than the main one nothing but the GIL is released: Python raises KeyboardInterrupt on the
/// main thread.
void without_gil(const std::function<void()>& leave, const std::function<void()>& call);

/// The same for a call that nothing can make throw, on a thread of its own, which is given up where
/// KeyboardInterrupt is thrown: `call` must own all that it uses.
void without_gil_or_given_up(std::function<void()> call);

}  // namespace rankmesh::python
