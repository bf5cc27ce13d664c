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
    /// Throws UsageError if the world was moved from.
    static const std::shared_ptr<WorldState>& checked_state(const World& world) {
        if (!world.state_) throw UsageError("this world was moved from");
        return world.state_;
    }
    static World world(std::shared_ptr<WorldState> state) { return World(std::move(state)); }
    static CommunicatorState& state(const Communicator& communicator) { return communicator.state(); }
    // The functions that a Communicator's operations call, with a Call or a StridedCall.
    static void run(Communicator& on, const auto& call) { on.perform(call); }
    static Pending start(Communicator& on, const auto& call) { return on.start(call); }
    static int run_from_any(Communicator& on, const auto& call) { return on.perform_from_any(call); }
    static void run_list(Communicator& on, const Call& like, const Buffers& list) {
        on.perform_list(like, list, list, {});
    }
    static std::optional<Message> probe(Communicator& on, int from, Tag tag, bool waits) {
        return on.run_probe(from, tag, waits);
    }
    static double sum_reproducibly(Communicator& on, const AnyBuffer<const void>& x,
                                   const std::optional<AnyBuffer<const void>>& y,
                                   const MemoryLayout& x_layout = {}, const MemoryLayout& y_layout = {}) {
        return on.sum_reproducibly(x, y, x_layout, y_layout);
    }
    static Pending pending(std::shared_ptr<CommunicatorState> state, std::uint64_t ticket,
                           RecordPlaces record, std::unique_ptr<Staged> staged) {
        return {std::move(state), ticket, record, std::move(staged)};
    }
    /// Waits for an operation that was asked about until now: so much of its timeout has passed.
    static void wait(Pending& pending, std::chrono::nanoseconds passed) {
        const auto before = PassedBefore(passed);
        pending.wait();
    }
    /// Null: somebody has waited for the operation, which only a device may still use.
    static std::shared_ptr<CommunicatorState> pending_state(const Pending& pending) {
        return pending.ordered_ ? nullptr : pending.state_;
    }
    static RecordPlaces record(const Pending& pending) { return pending.record_; }
    static const Pending* before(const Pending& pending) { return pending.before_.get(); }
    /// Makes waiting for `last` wait for `first` before.
    static Pending in_order(Pending&& first, Pending&& last) {
        last.before_ = std::make_unique<Pending>(std::move(first));
        return std::move(last);
    }
    // They complete a call, with this rank's own part of a buffer in place, or with counts that outlive it.
    static Call own_part(const Communicator& on, Call&& call) {
        on.take_own_part(call);
        return call;
    }
    static Call counted(const Communicator& on, Call&& call, const Counts& in_counts,
                        const Counts& out_counts) {
        on.set_counts(call, in_counts, out_counts);
        return call;
    }
    static Call counted_at_root(const Communicator& on, Call&& call, const Counts& counts) {
        on.set_counts_at_root(call, counts);
        return call;
    }
};

/// Waits until an operation is complete or its timeout, which runs since `since`, has expired, and returns
/// its index; whoever calls it then synchronizes with that operation. Ignores operations that were waited
/// for; returns nullopt if no other is left.
std::optional<std::size_t> first_complete(std::span<Pending* const> pendings,
                                          std::chrono::steady_clock::time_point since);

/// The buffers of a list.
struct ListAccess {
    template <class Void>
    static std::vector<AnyBuffer<Void>>& pieces(BufferList<Void>& list) {
        return list.pieces_;
    }
    template <class Void>
    static const std::vector<AnyBuffer<Void>>& pieces(const BufferList<Void>& list) {
        return list.pieces_;
    }
};

}  // namespace rankmesh::detail
