// SPDX-License-Identifier: Apache-2.0
// What Python objects own of the engine: it ends in order when the interpreter does, and never in a forked
// child.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <rankmesh/engine/pending.hpp>
#include <rankmesh/engine/world.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// How often this process was forked off since the module was loaded.
unsigned forks();

/// Something that must end before the interpreter does; made and destroyed with the GIL held.
class Ending {
public:
    /// Those of a lower order end first.
    explicit Ending(int order);
    virtual ~Ending();
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

    /// Ends it; by an exception, nobody waits for peers.
    virtual void end(bool by_exception) noexcept = 0;

    /// Ends all that there are, in order.
    static void end_all(bool by_exception) noexcept;

private:
    const int order_;
};

/// A World, Member, Communicator or Pending that a Python object owns, or a World that is lent to it.
template <class T, int order>
class Handle final : public Ending {
public:
    explicit Handle(T&& own) : Ending(order), own_(std::make_unique<T>(std::move(own))), it_(own_.get()) {}
    explicit Handle(T& lent) : Ending(order), it_(&lent) {}
    ~Handle() override { end(false); }

    /// Throws UsageError where it has ended, or belongs to the process that this one was forked off.
    T& get() const {
        if (forks_ != forks())
            throw UsageError(
                "this belongs to the process that this one was forked off; make a world of its own after the "
                "fork");
        if (!it_)
            throw UsageError(
                "this world was closed, or its run has returned; nothing more can be asked of it");
        return *it_;
    }
    bool ended() const { return !it_; }

    void end(bool by_exception) noexcept override {
        it_ = nullptr;
        if (!own_) return;
        // What a forked child has is its parent's too: only the parent may close connections.
        if (forks_ != forks()) return static_cast<void>(own_.release());
        const auto release =
            nb::gil_scoped_release();  // it may wait for peers, which are threads of Python perhaps
        if (!by_exception) return own_.reset();
        try {
            const auto gone = std::move(own_);
            throw 0;  // what it unwinds leaves without waiting
        } catch (int) {
        }
    }

private:
    std::unique_ptr<T> own_;
    T* it_;
    const unsigned forks_ = forks();
};

using PendingHandle = Handle<Pending, 0>;
using CommunicatorHandle = Handle<Communicator, 1>;
using MemberHandle = Handle<Member, 2>;
using WorldHandle = Handle<World, 3>;

}  // namespace rankmesh::python
