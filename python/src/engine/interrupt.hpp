// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, and exceptions of other signal handlers, while a thread waits for peers in the engine.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "engine/calls.hpp"

namespace rankmesh::python {

/// Records which thread runs Python's signal handlers. Called when the module is loaded.
void note_main_thread();
bool is_main_thread();

/// Runs `call` without the GIL. If SIGINT arrives on the main thread with Python's own handler, calls
/// `leave`, then throws KeyboardInterrupt instead of the exception of `call`. Handlers of other signals run
/// after the call.
///
/// On any thread, interrupt() has the same effect.
void without_gil(Leave leave, const std::function<void()>& call, Waits waits = Waits::for_peers);
/// Like without_gil, and returns the result of `call`.
template <class Call>
auto result_without_gil(Leave leave, const Call& call) {
    auto result = std::optional<decltype(call())>{};
    without_gil(std::move(leave), [&] { result.emplace(call()); });
    return std::move(*result);
}

/// On the main thread, runs `call` on its own thread while Python's handlers of all signals run. If a handler
/// raises, calls `leave`, and throws the handler's exception after `call` has returned. Abandons the thread
/// after 2 s, when a handler raises again, or if leaving is impossible; therefore `call` must own all data
/// that it uses.
void without_gil_or_given_up(Leave leave, std::function<void()> call);

/// True if an abandoned thread is still running.
bool any_given_up();
/// Counts one more abandoned thread.
void give_up();
/// Ends the process before objects that abandoned threads use are destroyed at exit.
void end_at_once_if_given_up();

/// Raises the error of a destructor as soon as this thread runs Python.
void raise_later(const nb::python_error& error) noexcept;

/// Makes Ctrl-C work in a forked child.
void restart_interrupts() noexcept;

}  // namespace rankmesh::python
