// SPDX-License-Identifier: Apache-2.0
// Engine objects that Python objects own. They end in order when the interpreter ends, and never in a forked
// child. Calls of threads without the GIL: how they end before the interpreter, and how Ctrl-C and exceptions
// of other signal handlers interrupt them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <rankmesh/engine/pending.hpp>
#include <rankmesh/engine/world.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// Makes a call throw soon, for a reason such as "was interrupted by a signal"; empty if that is impossible.
using Leave = std::function<void(const char* why)>;

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

/// True on the thread that runs Python's signal handlers.
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

/// Raises the error of a destructor as soon as this thread runs Python.
void raise_later(const nb::python_error& error) noexcept;

/// The number of forks between loading the module and this process.
unsigned forks();

/// An object that must end before the interpreter. Made and destroyed with the GIL held.
class Ending {
public:
    /// Objects of lower order end first; objects of one order end in the order of creation.
    explicit Ending(int order);
    virtual ~Ending();
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

    /// Ends the object. If an exception ends it, it does not wait for peers.
    virtual void end(bool by_exception) noexcept = 0;
    /// Abandons the object without ending it.
    virtual void forget() noexcept = 0;

private:
    const std::pair<int, std::uint64_t> key_;
};

/// A World, Member, Communicator or Pending that a Python object owns.
template <class T, int order>
class Handle final : public Ending {
public:
    /// `leave` makes calls of the object's world throw.
    explicit Handle(T&& own, Leave leave = {})
        : Ending(order), own_(std::make_shared<T>(std::move(own))), leave_(std::move(leave)) {}
    ~Handle() override { end(false); }

    /// Throws UsageError if the object has ended, or belongs to the parent process of a fork.
    T& get() const { return *hold(); }
    /// Returns a reference that keeps the object alive until the call is over.
    std::shared_ptr<T> hold() const {
        stay_if_ending();
        if (forks_ != forks())
            throw UsageError(
                "this belongs to the process that this one was forked off; make a world of its own after the "
                "fork");
        if (!own_)
            throw UsageError(
                "this world was closed, or its run has returned; nothing more can be asked of it");
        return own_;
    }
    bool ended() const { return !own_; }
    const Leave& leave() const { return leave_; }

    void end(bool by_exception) noexcept override {
        if (!own_) return;
        // A forked child shares the objects with its parent; only the parent may close connections.
        if (forks_ != forks()) return forget();
        auto gone = std::move(own_);  // from here on this object may be destroyed with its owner
        const auto in_flight = InFlight();
        in_flight.run([&] { drop(std::move(gone), by_exception); });
    }
    void forget() noexcept override { static_cast<void>(new std::shared_ptr<T>(std::move(own_))); }

    /// Ends the object and waits for it. An exception of a signal handler ends the wait and is thrown.
    void finish() {
        if (!own_ || forks_ != forks()) return end(false);
        auto gone = std::move(own_);
        try {
            without_gil(leave_, [&] { gone.reset(); });
        } catch (const nb::python_error&) {
            own_ = std::move(gone);
            end(true);
            throw;
        }
    }

private:
    static void drop(std::shared_ptr<T>&& it, bool by_exception) noexcept {
        if (!by_exception) return it.reset();
        try {
            // A complete operation does not need to leave the world.
            if constexpr (std::is_same_v<T, Pending>)
                if (it->done()) it->wait();
        } catch (const std::exception&) {  // the operation has failed; ignore the error
        }
        try {
            const auto gone = std::move(it);
            throw 0;  // unwinding makes destructors leave without waiting
        } catch (int) {
        }
    }

    std::shared_ptr<T> own_;
    const Leave leave_;
    const unsigned forks_ = forks();
};

using PendingHandle = Handle<Pending, 0>;
using CommunicatorHandle = Handle<Communicator, 1>;
using MemberHandle = Handle<Member, 2>;
using WorldHandle = Handle<World, 3>;

/// Calls a member function of the object of a handle.
template <class Owner, auto ask>
inline constexpr auto asking = [](const Owner& self) { return (self.get().*ask)(); };

}  // namespace rankmesh::python
