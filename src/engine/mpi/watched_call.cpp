// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/watched_call.hpp"

#include "engine/mpi/types.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {

Call WatchedCall::StoredCall::load() const {
    const auto words = what.load(std::memory_order_relaxed);
    auto call = Call{};
    std::memcpy(static_cast<void*>(&call), &words, sizeof words);
    call.in_count = in_count.load(std::memory_order_relaxed);
    call.out_count = out_count.load(std::memory_order_relaxed);
    call.tag = tag.load(std::memory_order_relaxed);
    call.source = -1;  // not stored
    return call;
}

bool WatchedCall::is_collective() const {
    return !phrase_.load(std::memory_order_relaxed) && is_collective_of_mpi(call().operation);
}

std::string WatchedCall::collective(std::uint64_t number) const {
    const auto active = active_.load(std::memory_order_acquire);
    if (active == 0 || number == 0 || this->number() != number) return {};
    const auto call = this->call();
    if (phrase_.load(std::memory_order_relaxed) || is_point_to_point(call.operation)) return {};
    return is_still(active) ? to_string(Agreed::of(call), 1) : std::string{};
}

std::optional<bool> WatchedCall::started(std::uint64_t number) const {
    const auto reached = reached_.load(std::memory_order_acquire);
    const auto started = started_.load(std::memory_order_acquire);
    // The bit may have been replaced since by that of a call 64 later.
    if (number > reached || reached_.load(std::memory_order_relaxed) - number >= 63) return std::nullopt;
    return (started >> (number % 64) & 1) != 0;
}

std::optional<AwaitedCall> WatchedCall::awaited() const {
    const auto active = active_.load(std::memory_order_acquire);
    if (active == 0 || active != seen.active) return std::nullopt;
    auto awaited = AwaitedCall{.key = key_, .number = number(), .ranks = {}};
    const auto* label = label_.load(std::memory_order_relaxed);
    const auto message = is_message();
    const auto peer = call().argument;
    if (!is_still(active)) return std::nullopt;
    if (message) {
        awaited.number = 0;
        if (peer == any_source) {
            awaited.ranks = label->ranks.list();
            if (world_) std::erase(awaited.ranks, world_->rank());
        } else {
            awaited.ranks = {label->ranks[peer]};
        }
    } else if (awaited.number == 0) {
        return std::nullopt;
    } else {
        awaited.ranks = label->ranks.list();
    }
    return awaited;
}

std::string WatchedCall::text() const {
    if (const auto* phrase = phrase_.load(std::memory_order_relaxed)) return phrase;
    const auto& stored = has_purpose_.load(std::memory_order_relaxed) ? purpose_ : call_;
    const auto call = stored.load();
    const auto& label = *label_.load(std::memory_order_relaxed);
    return cat(to_string(call, &label.ranks), " (", std::max(call.in_bytes(), call.out_bytes()), " bytes), ",
               is_point_to_point(call.operation) ? "message" : "call", " number ",
               stored.number.load(std::memory_order_relaxed), " on ", label.text_with_group());
}

}  // namespace rankmesh::detail
