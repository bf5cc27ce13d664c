// SPDX-License-Identifier: Apache-2.0
// The calls that threads make without the GIL: how they are interrupted, and how they end before the
// interpreter does.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "values/convert.hpp"

namespace rankmesh::python {

/// Makes a call throw soon, for a reason such as "was interrupted by a signal"; empty where nothing can.
using Leave = std::function<void(const char* why)>;

inline constexpr auto interrupted_by_signal = "was interrupted by a signal";

/// What a call waits for: threads that run Python end in their own time.
enum class Waits : bool { for_peers, for_threads };

struct Call;

/// A call of this thread; made and destroyed with the GIL held.
class InFlight {
public:
    explicit InFlight(Leave leave = {}, Waits waits = Waits::for_peers);
    ~InFlight();
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

    /// Runs `body` without the GIL. Once the interpreter ends, threads other than its main one stay here for
    /// ever.
    void run(const std::function<void()>& body) const;
    /// True if interrupt() has made the call throw.
    bool interrupted() const;

private:
    const std::shared_ptr<Call> call_;
};

/// Makes the calls of a thread throw; false if it is in none that can. With the GIL held the answer stays
/// true.
bool interrupt(unsigned long thread, const char* why);

/// What end_calls has found on other threads: none, some that have ended, some that have not.
enum class Others : unsigned char { none, ended, remain };
/// Called by the main thread as the interpreter ends: no other thread comes back to Python from a call any
/// more. Those that wait for peers leave their worlds, and are waited for a short while.
Others end_calls();

/// The GIL for a thread of C++'s own; not `valid()` once the interpreter ends.
class Attached {
public:
    Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    bool valid() const { return gil_.has_value(); }

private:
    std::optional<nb::gil_scoped_acquire> gil_;
};

/// Calls a function of Python's on such a thread, which stays there for ever once the interpreter ends.
nb::object call_python(nb::handle function, const nb::tuple& args);

/// Stays here for ever.
[[noreturn]] void stay();
/// Called with the GIL held: once the interpreter ends, threads other than its main one go no further.
void stay_if_ending();

/// Forgets the calls of the process that this one was forked off.
void forget_calls() noexcept;

}  // namespace rankmesh::python
