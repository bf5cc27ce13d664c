// SPDX-License-Identifier: Apache-2.0
#include "engine/record/call_ring.hpp"

namespace rankmesh::detail {

std::vector<int> in_record(std::vector<int> ranks, const std::vector<int>* roots) {
    if (roots)
        for (auto& rank : ranks)
            if (rank >= 0 && rank < static_cast<int>(roots->size()))
                rank = (*roots)[static_cast<std::size_t>(rank)];
    return ranks;
}

std::uint16_t CallRing::add(std::shared_ptr<const Label> label) {
    const auto lock = std::lock_guard(mutex_);
    const auto found = std::ranges::find(labels_, label);
    if (found != labels_.end()) return static_cast<std::uint16_t>(found - labels_.begin());
    if (labels_.size() > 0xffff) return 0;
    labels_.push_back(std::move(label));
    return static_cast<std::uint16_t>(labels_.size() - 1);
}

void CallRing::retract(std::uint64_t place) noexcept {
    for (auto places = places_.load(std::memory_order_relaxed); places > place; --places) {
        auto& slot = slots_[(places - 1) % length];
        const auto what = slot.what.load(std::memory_order_relaxed);
        auto call = Call{};
        std::memcpy(static_cast<void*>(&call), &what, sizeof what);
        auto& count = is_point_to_point(call.operation) ? messages_ : collectives_;
        count.store(count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
        slot.sequence.store(0, std::memory_order_release);
        places_.store(places - 1, std::memory_order_release);
    }
}

void CallRing::complete_before(std::uint64_t place) noexcept {
    const auto places = places_.load(std::memory_order_relaxed);
    for (auto at = places - std::min(places, length); at < place; ++at) {
        const auto state = slots_[at % length].change.load(std::memory_order_relaxed) & 0xff;
        if (state == static_cast<std::int64_t>(CallState::scheduled)) set(at, CallState::completed);
    }
}

std::vector<RecordedCall> CallRing::calls() const {
    const auto labels = this->labels();
    auto calls = std::vector<RecordedCall>{};
    const auto places = places_.load(std::memory_order_acquire);
    for (auto place = places - std::min(places, length); place < places; ++place) {
        const auto& slot = slots_[place % length];
        const auto sequence = slot.sequence.load(std::memory_order_acquire);
        if (sequence == 0 || sequence % 2 == 1) continue;
        auto recorded = RecordedCall{};
        recorded.id = sequence / 2 - 1;
        recorded.place = place;
        const auto created = slot.created.load(std::memory_order_acquire);
        const auto change = slot.change.load(std::memory_order_acquire);
        const auto what = slot.what.load(std::memory_order_acquire);
        const auto in = slot.in.load(std::memory_order_acquire);
        const auto out = slot.out.load(std::memory_order_acquire);
        const auto more = slot.more.load(std::memory_order_acquire);
        const auto number = slot.number.load(std::memory_order_acquire);
        if (slot.sequence.load(std::memory_order_relaxed) != sequence) continue;
        auto& call = recorded.call;
        std::memcpy(static_cast<void*>(&call), &what, sizeof what);
        call.in_count = in >> 16;
        call.out_count = out >> 16;
        call.unit = std::max<std::size_t>(in & 0xffff, 1);
        call.tag = static_cast<std::uint16_t>(number);
        recorded.number = number >> 16;
        call.source = static_cast<int>(static_cast<std::uint32_t>(more));
        recorded.created = created & ~std::int64_t{0xff};
        recorded.blocking = (created & 1) != 0;
        recorded.changed = change & ~std::int64_t{0xff};
        recorded.state = static_cast<CallState>(change & 0xff);
        recorded.timeout_ms = static_cast<std::int64_t>(more >> 32);
        if (const auto label = out & 0xffff; label < labels.size()) recorded.label = labels[label];
        calls.push_back(std::move(recorded));
    }
    std::ranges::sort(calls, {}, &RecordedCall::id);
    return calls;
}

}  // namespace rankmesh::detail
