// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// Nanoseconds of the monotonic clock as of the kernel's last tick, 1 to 10 ms ago: a third of what the exact
/// time costs.
inline std::int64_t coarse_now() noexcept {
    auto now = timespec{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// How far a recorded call has come: `scheduled` until a thread waits for it, `started` while one does.
enum class CallState : std::uint8_t { scheduled, started, completed, failed };

constexpr std::string_view to_string(CallState state) {
    constexpr std::string_view names[] = {"scheduled", "started", "completed", "failed"};
    return names[static_cast<std::size_t>(state)];
}

/// A call as its ring holds it; times are of `coarse_now`.
struct RecordedCall {
    std::uint64_t id = 0;  // orders the calls of a rank on all its communicators
    std::uint64_t place = 0;
    Call call;  // without pointers
    std::uint64_t number = 0;
    CallState state = CallState::scheduled;
    std::int64_t created = 0;
    std::int64_t changed = 0;  // when it got its state
    bool blocking = false;
    std::int64_t timeout_ms = 0;
    std::shared_ptr<const Label> label = nullptr;  // of the handle
};

/// The numbers of a world's ranks in the world of the record, which it is a part of; `roots` lists them, null
/// where they are the same. What is no rank of it stays.
std::vector<int> in_record(std::vector<int> ranks, const std::vector<int>* roots);

/// The last calls on one communicator: written by the thread that calls, read by any other at any time.
///
/// An entry is one cache line, stored between two values of its sequence number, by which a reader notices
/// that it was overwritten meanwhile. No fences: the thread sanitizer does not know them.
class CallRing {
public:
    static constexpr std::uint64_t length = 64;

    /// `key` is the same on all ranks of the group and differs between groups; `ids` counts the calls of the
    /// rank; `roots` are the numbers of the world's ranks in the world that it is a part of, null where they
    /// are the same.
    CallRing(std::string key, std::shared_ptr<std::atomic<std::uint64_t>> ids,
             std::shared_ptr<const std::vector<int>> roots)
        : key_(std::move(key)), ids_(std::move(ids)), roots_(std::move(roots)) {}

    /// Adds a handle's label; the number that its calls are recorded with.
    std::uint16_t add(std::shared_ptr<const Label> label);

    /// Records a call that begins; the place by which it is named.
    std::uint64_t begin(const Call& call, std::uint16_t label, Duration timeout, bool blocking) noexcept {
        const auto place = places_.load(std::memory_order_relaxed);
        auto& count = is_point_to_point(call.operation) ? messages_ : collectives_;
        const auto number = count.load(std::memory_order_relaxed) + 1;
        count.store(number, std::memory_order_relaxed);
        const auto now = coarse_now();
        const auto what = description(call);
        const auto id = ids_->fetch_add(1, std::memory_order_relaxed);
        auto& slot = slots_[place % length];
        slot.sequence.store(2 * id + 1, std::memory_order_relaxed);
        slot.created.store((now & ~std::int64_t{0xff}) | std::int64_t{blocking}, std::memory_order_release);
        slot.change.store(changed(now, blocking ? CallState::started : CallState::scheduled),
                          std::memory_order_release);
        slot.what.store(what, std::memory_order_release);
        slot.in.store(pack(call.in_count, call.unit <= 0xffff ? call.unit : 1), std::memory_order_release);
        slot.out.store(pack(call.out_count, label), std::memory_order_release);
        slot.number.store(pack(number, call.tag), std::memory_order_release);
        const auto milliseconds = static_cast<std::uint64_t>(timeout.count() / 1'000'000);
        slot.more.store(
            std::min(milliseconds, std::uint64_t{0xffffffff}) << 32 | static_cast<std::uint32_t>(call.source),
            std::memory_order_release);
        slot.sequence.store(2 * id + 2, std::memory_order_release);
        places_.store(place + 1, std::memory_order_release);
        return place;
    }
    /// Sets the state of the call at `place`, if that is still in the ring.
    void set(std::uint64_t place, CallState state) noexcept {
        if (places_.load(std::memory_order_relaxed) - place > length) return;
        slots_[place % length].change.store(changed(coarse_now(), state), std::memory_order_release);
    }
    /// Sets the peer of the message `call` at `place`, which was called from any rank.
    void set_peer(std::uint64_t place, Call call, int peer) noexcept {
        if (places_.load(std::memory_order_relaxed) - place > length) return;
        call.argument = peer;
        slots_[place % length].what.store(description(call), std::memory_order_release);
    }
    void set_peer(std::uint64_t place, int peer) noexcept {
        auto call = Call{};
        const auto what = slots_[place % length].what.load(std::memory_order_relaxed);
        std::memcpy(static_cast<void*>(&call), &what, sizeof what);
        set_peer(place, call, peer);
    }
    /// Takes back the call at `place`, and those after it, which the engine has refused.
    void retract(std::uint64_t place) noexcept;
    /// Marks the calls before `place` that nobody has waited for as completed: a device runs them in order.
    void complete_before(std::uint64_t place) noexcept;

    /// The calls that are in the ring, oldest first; without those that are overwritten while this reads.
    std::vector<RecordedCall> calls() const;
    /// How many collectives were called.
    std::uint64_t collectives() const { return collectives_.load(std::memory_order_acquire); }

    const std::string& key() const { return key_; }
    /// The label of the first handle.
    std::shared_ptr<const Label> label() const {
        const auto lock = std::lock_guard(mutex_);
        return labels_.empty() ? nullptr : labels_.front();
    }
    std::vector<std::shared_ptr<const Label>> labels() const {
        const auto lock = std::lock_guard(mutex_);
        return labels_;
    }
    /// The numbers of these ranks in the world that the record is about.
    std::vector<int> in_record(std::vector<int> ranks) const {
        return detail::in_record(std::move(ranks), roots_.get());
    }

private:
    struct alignas(64) Slot {
        std::atomic<std::uint64_t> sequence = 0;  // 0: empty; odd: being written; else 2 * id + 2
        std::atomic<std::int64_t> created = 0;    // the time, the lowest 8 bits: blocking
        std::atomic<std::int64_t> change = 0;     // the time, the lowest 8 bits: the state
        std::atomic<std::uint64_t> what = 0;
        std::atomic<std::uint64_t> in = 0;      // a count, and the unit
        std::atomic<std::uint64_t> out = 0;     // a count, and the number of the label
        std::atomic<std::uint64_t> number = 0;  // and the tag
        std::atomic<std::uint64_t> more = 0;    // the timeout in ms, and the source
    };
    static_assert(sizeof(Slot) == 64);

    /// The first eight bytes of a call.
    static std::uint64_t description(const Call& call) {
        auto what = std::uint64_t{};
        std::memcpy(&what, &call, sizeof what);
        return what;
    }
    static std::int64_t changed(std::int64_t now, CallState state) {
        return (now & ~std::int64_t{0xff}) | static_cast<std::int64_t>(state);
    }
    static std::uint64_t pack(std::uint64_t count, std::uint64_t small) {
        return count << 16 | (small & 0xffff);
    }

    std::array<Slot, length> slots_;
    std::atomic<std::uint64_t> places_ = 0;  // how many calls were recorded
    std::atomic<std::uint64_t> collectives_ = 0;
    std::atomic<std::uint64_t> messages_ = 0;
    const std::string key_;
    const std::shared_ptr<std::atomic<std::uint64_t>> ids_;
    const std::shared_ptr<const std::vector<int>> roots_;
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<const Label>> labels_;
};

static_assert(offsetof(Call, argument) == 4 && sizeof(Call::argument) == 4);

}  // namespace rankmesh::detail
