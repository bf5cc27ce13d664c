// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, and what other handlers of signals raise, while a thread waits in the engine for peers.
#pragma once

#include <functional>

#include "engine/calls.hpp"

namespace rankmesh::python {

/// Notes which thread runs Python's handlers of signals, when the module is loaded.
void note_main_thread();
bool is_main_thread();

/// Runs `call` without the GIL. On the main thread, where a SIGINT arrives meanwhile whose handler is
/// Python's own, `leave` is called; then KeyboardInterrupt is thrown instead of what `call` throws. Handlers
/// of other signals run after the call.
///
/// On any thread, interrupt() does the same.
void without_gil(Leave leave, const std::function<void()>& call, Waits waits = Waits::for_peers);

/// The same, on the main thread for a call on a thread of its own, while Python's handlers of all signals
/// run: where one raises, `leave` is called, and what was raised is thrown once `call` has returned. After
/// two seconds, when a handler raises again, and where nothing can leave, the thread is given up: `call` must
/// own all that it uses.
void without_gil_or_given_up(Leave leave, std::function<void()> call);

/// True if a thread was given up that still runs.
bool any_given_up();
/// Counts one more such thread.
void give_up();
/// What such threads use is not destroyed beneath them: when the process exits, it ends before.
void end_at_once_if_given_up();

/// Raises an error of a destructor's as soon as this thread runs Python.
void raise_later(const nb::python_error& error) noexcept;

/// Makes Ctrl-C work in a process that was forked off.
void restart_interrupts() noexcept;

}  // namespace rankmesh::python
