// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/messages.hpp"

#include <algorithm>
#include <utility>

#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/diagnosis/difference.hpp"

namespace rankmesh::detail {
namespace {

AnyBuffer<void> bytes_of(Notice& notice) { return {&notice, sizeof notice}; }

}  // namespace

Messages::Messages(Channel& channel, const Ranks& ranks, int group_rank,
                   std::function<void(CheckedCall&)> settle)
    : channel_(channel), ranks_(ranks), group_rank_(group_rank), settle_(std::move(settle)) {}

void Messages::add(CheckedCall& part) {
    part.from_any = part.call.is_from_any();
    if (part.from_any || (part.call.operation == Operation::recv && !unbound_.empty())) {
        unbound_.push_back(&part);
        bind();
    } else {
        post(part);
    }
}

void Messages::post(CheckedCall& part) {
    const auto& call = part.call;
    const auto receives = call.operation == Operation::recv;
    part.notice = {.receives = receives,
                   .dtype = call.dtype,
                   .tag = call.tag,
                   .count = receives ? call.out_count : call.in_count,
                   .unit = call.unit};
    const auto notice = make_send(bytes_of(part.notice), call.argument, Tag(0));
    part.notice_ticket = channel_.start({&notice, 1}, *part.label);
    auto& lane = lanes_[call.argument];
    auto& early = lane.early[receives ? 0 : 1];
    lane.waiting[receives ? 0 : 1].push_back(&part);
    if (early.empty()) return;
    const auto first = early.front();
    early.pop_front();
    if (receives) lane.orders.pop_front();
    settle(call.argument, lane, first);
}

void Messages::withdraw(CheckedCall& part) {
    for (auto& [peer, lane] : lanes_)
        for (auto& waiting : lane.waiting) std::erase(waiting, &part);
    std::erase(unbound_, &part);
}

void Messages::clear() {
    unbound_.clear();
    for (auto& [peer, lane] : lanes_) lane.waiting = {};
}

/// At most one receive of a notice is posted, and only while a notice is awaited: every one posted completes.
void Messages::listen(int peer, Lane& lane, const Label& label) {
    if (lane.ticket) return;
    const auto call = make_recv(bytes_of(lane.incoming), peer, Tag(0));
    lane.ticket = channel_.start({&call, 1}, label);
}

/// Takes the notices that have come and that no receive was posted for.
void Messages::hear(const Label& label) {
    const auto any = Call{.operation = Operation::probe, .argument = any_source};
    while (const auto found = channel_.probe(any, label, std::nullopt)) {
        auto& lane = lanes_[found->from];
        listen(found->from, lane, label);
        channel_.wait(*lane.ticket, label, Duration::max());
        take(found->from, lane);
    }
}

/// The lane of the first notice of a send that `call`, a recv or probe, would take, not from one of the ranks
/// `but`; null if there is none.
const Messages::Lane* Messages::first_sent(const Call& call, const std::vector<int>& but) const {
    const Lane* first = nullptr;
    for (const auto& [peer, lane] : lanes_) {
        if (!lane.waiting[0].empty() || lane.early[0].empty() || contains(but, peer)) continue;
        if (!call.is_from_any() && peer != call.argument) continue;
        if (lane.early[0].front().tag == call.tag && (!first || lane.orders.front() < first->orders.front()))
            first = &lane;
    }
    return first;
}

/// Posts the receives from any rank whose sender is now known.
void Messages::bind() {
    auto tags = std::vector<int>{};   // of earlier receives from any rank that wait on
    auto ranks = std::vector<int>{};  // from which earlier receives wait on
    for (auto each = unbound_.begin(); each != unbound_.end();) {
        auto& part = **each;
        const auto* sent =
            part.from_any || !contains(tags, part.call.tag) ? first_sent(part.call, ranks) : nullptr;
        if (!sent && (part.from_any || !tags.empty())) {
            if (part.from_any)
                tags.push_back(part.call.tag);
            else
                ranks.push_back(part.call.argument);
            ++each;
            continue;
        }
        unbound_.erase(each);
        if (part.from_any) part.call.argument = sent->peer;
        post(part);
        each = unbound_.begin();
        tags.clear();
        ranks.clear();
    }
}

std::optional<Message> Messages::probe(const Call& call, const Label& label) {
    hear(label);
    bind();
    const auto* sent = first_sent(call, {});
    if (!sent) return std::nullopt;
    const auto& notice = sent->early[0].front();
    return Message{sent->peer, notice.count * size_of(notice.dtype)};
}

void Messages::wait_for_any(int from, const Label& label, Duration timeout) {
    const auto call = Call{.operation = Operation::probe, .argument = from};
    channel_.probe(call, label, timeout);
}

void Messages::advance() {
    if (!unbound_.empty()) {
        hear(*unbound_.front()->label);
        bind();
    }
    for (auto& [peer, lane] : lanes_)
        while (lane.is_awaited()) {
            const auto& part = *(lane.waiting[0].empty() ? lane.waiting[1] : lane.waiting[0]).front();
            listen(peer, lane, *part.label);
            if (!channel_.done(*lane.ticket)) break;
            channel_.wait(*lane.ticket, *part.label, Duration::max());
            take(peer, lane);
        }
}

void Messages::wait(const CheckedCall& part, Duration timeout) {
    if (std::ranges::count(unbound_, &part) > 0) {
        wait_for_any(part.call.argument, *part.label, timeout);
        return advance();
    }
    auto& lane = lanes_.at(part.call.argument);
    listen(part.call.argument, lane, *part.label);
    channel_.wait(*lane.ticket, *part.label, timeout);
    take(part.call.argument, lane);
}

void Messages::take(int peer, Lane& lane) {
    lane.ticket = std::nullopt;
    const auto kind = lane.incoming.receives;
    lane.peer = peer;
    if (lane.waiting[kind].empty()) {
        lane.early[kind].push_back(lane.incoming);
        if (kind == 0) lane.orders.push_back(++order_);
    } else
        settle(peer, lane, lane.incoming);
}

/// Gives the notice to the first call that awaits one of its kind.
void Messages::settle(int peer, Lane& lane, const Notice& notice) {
    auto& part = *lane.waiting[notice.receives].front();
    lane.waiting[notice.receives].pop_front();
    const auto number = ++lane.numbers[notice.receives];
    if (notice.dtype != part.notice.dtype || notice.count != part.notice.count ||
        notice.tag != part.notice.tag)
        part.error = disagreement(peer, part, notice, number);
    settle_(part);
}

std::exception_ptr Messages::disagreement(int peer, const CheckedCall& part, const Notice& notice,
                                          std::uint64_t number) const {
    const auto end = [&](int rank, const Notice& said) {
        return MessageEnd{rank, part.label->named({rank}),
                          elements_text(said.count, said.dtype, said.unit) + tag_text(said.tag)};
    };
    auto sender = end(ranks_[group_rank_], part.notice);
    auto receiver = end(ranks_[peer], notice);
    if (part.notice.receives) std::swap(sender, receiver);
    auto failure = differing_ends(number, *part.label, sender, receiver);
    append(failure.why, "; nothing was sent");
    return failure.error();
}

}  // namespace rankmesh::detail
