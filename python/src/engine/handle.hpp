// SPDX-License-Identifier: Apache-2.0
// What Python objects own of the engine: it ends in order when the interpreter does, and never in a forked
// child.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include <rankmesh/engine/pending.hpp>
#include <rankmesh/engine/world.hpp>

#include "engine/interrupt.hpp"

namespace rankmesh::python {

/// How often this process was forked off since the module was loaded.
unsigned forks();

/// Something that must end before the interpreter does; made and destroyed with the GIL held.
class Ending {
public:
    /// Those of a lower order end first, those of one order as they were made.
    explicit Ending(int order);
    virtual ~Ending();
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

    /// Ends it; by an exception, nobody waits for peers.
    virtual void end(bool by_exception) noexcept = 0;
    /// Leaves it as it is, for ever.
    virtual void forget() noexcept = 0;

    /// Ends all that there are, in order; nothing that is pending is waited for.
    static void end_all(bool by_exception) noexcept;
    /// Forgets all, since threads may be inside; what is pending lets go of its arrays.
    static void forget_all() noexcept;

private:
    const std::pair<int, std::uint64_t> key_;
};

/// A World, Member, Communicator or Pending that a Python object owns.
template <class T, int order>
class Handle final : public Ending {
public:
    /// `leave` makes calls of its world throw.
    explicit Handle(T&& own, Leave leave = {})
        : Ending(order), own_(std::make_shared<T>(std::move(own))), leave_(std::move(leave)) {}
    ~Handle() override { end(false); }

    /// Throws UsageError where it has ended, or belongs to the process that this one was forked off.
    T& get() const { return *hold(); }
    /// The same, which lives until the call is over that holds it.
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
        // What a forked child has is its parent's too: only the parent may close connections.
        if (forks_ != forks()) return forget();
        auto gone = std::move(own_);  // from here on this object may be gone with what holds it
        const auto in_flight = InFlight();
        in_flight.run([&] { drop(std::move(gone), by_exception); });
    }
    void forget() noexcept override { static_cast<void>(new std::shared_ptr<T>(std::move(own_))); }

    /// Ends it and waits for it; what a handler of a signal raises meanwhile ends the wait, and is thrown.
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
            // An operation that is over needs nobody to leave.
            if constexpr (std::is_same_v<T, Pending>)
                if (it->done()) it->wait();
        } catch (const std::exception&) {  // it has failed: nobody hears of it
        }
        try {
            const auto gone = std::move(it);
            throw 0;  // what it unwinds leaves without waiting
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

}  // namespace rankmesh::python
