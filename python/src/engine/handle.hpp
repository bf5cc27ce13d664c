// SPDX-License-Identifier: Apache-2.0
// Engine objects that Python objects own. They end in order when the interpreter ends, and never in a forked
// child.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include <rankmesh/engine/pending.hpp>
#include <rankmesh/engine/world.hpp>

#include "engine/calls.hpp"

namespace rankmesh::python {

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

    /// Ends all objects in order, without waiting for pending operations.
    static void end_all(bool by_exception) noexcept;
    /// Forgets all objects, because threads may be inside; pending operations release their arrays.
    static void forget_all() noexcept;

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
