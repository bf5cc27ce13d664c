// SPDX-License-Identifier: Apache-2.0
// How the monitors of a channel find out that its ranks have made different calls, when a call takes long.
#include <utility>
#include <vector>

#include "engine/diagnosis/failure.hpp"
#include "engine/gloo/monitor/peer_monitor.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Kind = CallHistory::Kind;

/// `all_reduce of 4 f32 by sum`; with counts also what goes to and comes from `peer`, a world rank.
std::string text_of(const CallHistory::Entry& entry, std::size_t peer, int rank_of_peer) {
    if (entry.kind != Kind::collective)
        return elements_text(entry.agreed.length, entry.agreed.dtype, entry.unit) +
               tag_text(static_cast<int>(entry.agreed.tag));
    auto text = to_string(entry.agreed, entry.unit);
    if (entry.has_counts())
        append(text, cat(", ", elements_text(entry.gives[peer], entry.agreed.dtype, 1), " to rank ",
                         rank_of_peer, " and ", entry.expects[peer], " from it"));
    return text;
}

}  // namespace

std::uint64_t PeerMonitor::called(const Call& call, std::uint64_t number) {
    const auto lock = std::lock_guard(mutex_);
    collectives_.store(number, std::memory_order_release);
    return history_.add(call, number, size());
}

std::uint64_t PeerMonitor::called(CallHistory::Kind kind, int peer, const Call& call) {
    const auto lock = std::lock_guard(mutex_);
    return history_.add(kind, peer, call);
}

/// Sends the last calls of this rank to the ranks next to it, once for each call that takes long: if any two
/// ranks differ, two neighbours differ. Returns true while calls are known to differ.
bool PeerMonitor::compare_calls() {
    if (dispute_) {
        settle_dispute();
        return true;
    }
    auto messages = std::vector<std::pair<int, std::string>>{};
    {
        const auto lock = std::lock_guard(mutex_);
        if (!waiting_ || std::chrono::steady_clock::now() < compare_at_) return false;
        compare_at_ = TimePoint::max();
        compare_after_ += before_comparison;  // a long job sends few of them
        compared_ = waiting_->label;
        alarm_.set(until_);
        const auto with = [&](int peer) {
            const auto sent = std::ranges::find(messages, peer, &std::pair<int, std::string>::first);
            if (peer != group_rank_ && sent == messages.end() && !gone_[static_cast<std::size_t>(peer)])
                messages.emplace_back(peer, history_.list_for(peer, group_rank_));
        };
        if (waiting_->awaited >= 0)
            with(waiting_->awaited);
        else if (traits(waiting_->call->operation).counts)
            for (int peer = 0; peer < size(); ++peer) with(peer);
        else
            for (auto step : {1, size() - 1}) with((group_rank_ + step) % size());
    }
    for (const auto& [peer, text] : messages) messages_.send(peer, MessageKind::calls, 0, 0, text);
    return false;
}

/// Replies to a peer's last calls with the first of them that differs here. Sends nothing if all are equal.
void PeerMonitor::handle_calls(int from, const Message& message) {
    auto text = std::string{};
    auto number = std::uint64_t{};
    auto value = std::uint32_t{};  // the kind in the lowest byte, and the lane
    {
        const auto lock = std::lock_guard(mutex_);
        const auto* entry = history_.first_difference(from, group_rank_, message.text, sizeof message.text);
        if (!entry) return;
        text = text_of(*entry, static_cast<std::size_t>(from), ranks_[static_cast<std::size_t>(from)]);
        number = entry->number;
        value = static_cast<std::uint32_t>(entry->kind) | entry->lane << 8;
    }
    messages_.send(from, MessageKind::difference, number, value, text);
}

/// A peer has called something else.
void PeerMonitor::handle_difference(int from, const Message& message) {
    if (dispute_ || !compared_) return;
    const auto f = static_cast<std::size_t>(from);
    const auto own = CallHistory::other_end(static_cast<Kind>(message.value & 0xff));
    auto text = std::string{};
    auto with_all = false;
    auto timeout_at = TimePoint();
    {
        const auto lock = std::lock_guard(mutex_);
        const auto* entry = history_.find(own, from, message.number, message.value >> 8);
        if (!entry) return;
        text = text_of(*entry, f, ranks_[f]);
        with_all = own == Kind::collective && !entry->has_counts();
        if (waiting_) timeout_at = until_;
    }
    dispute_ = Dispute{message.number, std::vector<std::optional<std::string>>(ranks_.size())};
    dispute_->texts[f] = message.text;
    dispute_->texts[static_cast<std::size_t>(group_rank_)] = text;
    if (own != Kind::collective) {
        const auto end = [&](int group_rank, const std::string& what) {
            const auto rank = ranks_[static_cast<std::size_t>(group_rank)];
            return MessageEnd{rank, compared_->named({rank}), what};
        };
        const auto here = end(group_rank_, text);
        const auto there = end(from, message.text);
        return fail(differing_ends(message.number, *compared_, own == Kind::send ? here : there,
                                   own == Kind::send ? there : here));
    }
    dispute_->of_two = !with_all;
    dispute_->until = std::max(from_now(reply_time), std::min(from_now(reply_time_in_dispute), timeout_at));
    reply_alarm_.set(dispute_->until);
    for (int to = 0; to < size(); ++to)
        if (with_all && to != group_rank_ && to != from && !gone_[static_cast<std::size_t>(to)])
            messages_.send(to, MessageKind::call_query, message.number, 0, {});
        else if (!dispute_->texts[static_cast<std::size_t>(to)])
            dispute_->texts[static_cast<std::size_t>(to)] = "";
    settle_dispute();
}

/// Sends a peer what this rank called.
void PeerMonitor::answer_call_query(int from, std::uint64_t number) {
    auto text = std::string{};
    {
        const auto lock = std::lock_guard(mutex_);
        const auto* entry = history_.find(Kind::collective, -1, number);
        if (entry) text = to_string(entry->agreed, entry->unit);
    }
    messages_.send(from, MessageKind::call_reply, number, 0, text);
}

void PeerMonitor::handle_call_reply(int from, const Message& message) {
    if (!dispute_ || dispute_->number != message.number) return;
    dispute_->texts[static_cast<std::size_t>(from)] = message.text;
    settle_dispute();
}

/// Fails with what each rank has called, once all ranks have replied or the time for replies is over.
void PeerMonitor::settle_dispute() {
    const auto all = std::ranges::all_of(dispute_->texts, [](const auto& each) { return each.has_value(); });
    if (is_broken() || (!all && std::chrono::steady_clock::now() < dispute_->until)) return;
    auto calls = std::vector<DifferingCall>{};
    auto silent = std::vector<int>{};
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
        if (!dispute_->texts[i]) silent.push_back(ranks_[i]);
        const auto text = dispute_->texts[i].value_or("");
        if (!text.empty()) add_call(calls, text, ranks_[i]);  // else it has not called it, or long ago
    }
    fail(differing_calls(dispute_->number, *compared_, std::move(calls), silent, dispute_->of_two));
}

}  // namespace rankmesh::detail
