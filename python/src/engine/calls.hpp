// SPDX-License-Identifier: Apache-2.0
// Calls of threads without the GIL: how they end before the interpreter, and how Ctrl-C and exceptions of
// other signal handlers interrupt them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "values/convert.hpp"

namespace rankmesh::python {

/// Makes a call throw soon, for a reason such as "was interrupted by a signal"; empty if that is impossible.
using Leave = std::function<void(const char* why)>;

inline constexpr auto interrupted_by_signal = "was interrupted by a signal";

/// What a call waits for; threads that run Python are not interrupted.
enum class Waits : bool { for_peers, for_threads };

struct Call;

/// A call of this thread. Made and destroyed with the GIL held.
class InFlight {
public:
    explicit InFlight(Leave leave = {}, Waits waits = Waits::for_peers);
    ~InFlight();
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

    /// Runs `body` without the GIL. After the interpreter has ended, threads other than the main thread never
    /// return.
    void run(const std::function<void()>& body) const;
    /// True if interrupt() has made the call throw.
    bool interrupted() const;

private:
    const std::shared_ptr<Call> call_;
};

/// Makes the calls of a thread throw. Returns false if no call of the thread can throw. The answer stays
/// valid while the GIL is held.
bool interrupt(unsigned long thread, const char* why);

/// The calls that end_calls found on other threads: none, all ended, some not ended.
enum class Others : unsigned char { none, ended, remain };
/// Called by the main thread when the interpreter ends. Afterwards no other thread returns to Python from a
/// call. Threads that wait for peers leave their worlds; this waits for them for a short time.
Others end_calls();

/// The GIL for a C++ thread; not `valid()` after the interpreter has ended.
class Attached {
public:
    Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    bool valid() const { return gil_.has_value(); }

private:
    std::optional<nb::gil_scoped_acquire> gil_;
};

/// Calls a Python function on a C++ thread, which never returns after the interpreter has ended.
nb::object call_python(nb::handle function, const nb::tuple& args);

/// Never returns.
[[noreturn]] void stay();
/// Requires the GIL. After the interpreter has ended, threads other than the main thread stop here.
void stay_if_ending();

/// Forgets the calls of the parent process after a fork.
void forget_calls() noexcept;

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
