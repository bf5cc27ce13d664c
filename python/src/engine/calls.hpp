// SPDX-License-Identifier: Apache-2.0
// Calls of threads without the GIL: how they are interrupted, and how they end before the interpreter.
#pragma once

#include <functional>
#include <memory>
#include <optional>

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

}  // namespace rankmesh::python
