// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/world.hpp>

#include "engine/channel.hpp"
#include "engine/timeout.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

/// Access to the state behind public objects, for engines that build on others, for native handles and for C.
struct Access {
    static const std::shared_ptr<WorldState>& state(const World& world) { return world.state_; }
    /// The same; throws UsageError if the world was moved from.
    static const std::shared_ptr<WorldState>& checked_state(const World& world) {
        if (!world.state_) throw UsageError("this world was moved from");
        return world.state_;
    }
    static CommunicatorState& state(const Communicator& communicator) { return communicator.state(); }
    /// The functions that a Communicator's operations call.
    static void run(Communicator& on, const Call& call) { on.run(call); }
    static Pending start(Communicator& on, const Call& call) { return on.start(call); }
    /// Waits for an operation that was asked about until now: so much of its timeout has passed.
    static void wait(Pending& pending, std::chrono::nanoseconds passed) {
        passed_before = passed;
        struct Reset {
            ~Reset() { passed_before = {}; }
        } reset;
        pending.wait();
    }
    /// What completes an operation in place whose input, or output, is this rank's own part of the buffer.
    static void own_part_in(const Communicator& on, Call& call) { on.own_part_in(std::move(call)); }
    static void own_part_out(const Communicator& on, Call& call) { on.own_part_out(std::move(call)); }
};

}  // namespace rankmesh::detail
