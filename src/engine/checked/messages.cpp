// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/messages.hpp"

#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {
namespace {

AnyBuffer<void> bytes_of(Notice& notice) { return {&notice, sizeof notice}; }

}  // namespace

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
    auto& lane = lanes_[call.argument];
    part.notice = {.kind = receives ? Notice::recv : Notice::send,
                   .dtype = call.dtype,
                   .tag = call.tag,
                   .count = receives ? call.out_count : call.in_count,
                   .unit = call.unit,
                   .number = ++lane.posted[receives ? 1 : 0]};
    const auto notice = make_send(bytes_of(part.notice), call.argument, Tag(0));
    part.notice_ticket = channel_.start({&notice, 1}, *part.label);
    part.notice_order = ++lane.said;
    auto& early = lane.early[receives ? 0 : 1];
    lane.waiting[receives ? 0 : 1].push_back(&part);
    if (early.empty()) return;
    const auto first = early.front();
    early.pop_front();
    if (receives) lane.orders.pop_front();
    settle(call.argument, lane, first);
}

/// Sends a notice that no part has.
void Messages::say(int peer, const Notice& notice, const Label& label) {
    auto& lane = lanes_[peer];
    auto& sent = lane.sent.emplace_back(Sent{notice, ++lane.said});
    const auto call = make_send(bytes_of(sent.notice), peer, Tag(0));
    sent.ticket = channel_.start({&call, 1}, label);
}

bool Messages::is_stuck(const Call& call, std::uint64_t collectives) const {
    const auto refuses = [&](int peer) {
        const auto lane = lanes_.find(peer);
        return lane != lanes_.end() && lane->second.waits_in > collectives;
    };
    if (!call.is_from_any()) return refuses(call.argument);
    for (int peer = 0; peer < ranks_.size(); ++peer)
        if (peer != group_rank_ && !refuses(peer)) return false;
    return true;
}

void Messages::refuse(const Label& label, std::uint64_t collective) {
    hear(label);
    bind();
    for (auto& [peer, lane] : lanes_) {
        if (!lane.wants(collective)) continue;
        lane.refused_in = collective;
        say(peer, {.kind = Notice::refusal, .number = collective}, label);
    }
}

void Messages::give_up(CheckedCall& part) {
    if (std::erase(unbound_, &part) > 0 || part.call.operation == Operation::probe) return;
    const auto kind = part.notice.kind;
    std::erase(lanes_.at(part.call.argument).waiting[1 - kind], &part);
    given_up_.resize(static_cast<std::size_t>(ranks_.size()));
    auto& [first, last] = given_up_[static_cast<std::size_t>(part.call.argument)][kind];
    last = part.notice.number;
    if (first == 0) first = last;
}

void Messages::drop(const std::vector<GivenUp>& by_others, const Label& label) {
    for (int peer = 0; peer < ranks_.size(); ++peer) {
        const auto& dropped = by_others[static_cast<std::size_t>(peer)];
        if (dropped == GivenUp{}) continue;
        auto& lane = lanes_[peer];
        for (std::size_t kind = 0; kind < dropped.size(); ++kind) {
            const auto [first, last] = dropped[kind];
            auto& early = lane.early[kind];
            while (lane.heard[kind] < last) await(peer, lane, label);
            for (std::size_t i = early.size(); i-- > 0;) {
                if (early[i].number < first || early[i].number > last) continue;
                early.erase(early.begin() + static_cast<std::ptrdiff_t>(i));
                if (kind == Notice::send)
                    lane.orders.erase(lane.orders.begin() + static_cast<std::ptrdiff_t>(i));
            }
        }
        say(peer, {.kind = Notice::end}, label);
    }
    const auto own = std::exchange(given_up_, {});
    for (int peer = 0; peer < ranks_.size(); ++peer)
        if (own[static_cast<std::size_t>(peer)] != GivenUp{}) {
            auto& lane = lanes_[peer];
            while (!lane.has_ended) await(peer, lane, label);
            lane.has_ended = false;
        }
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
    if (is_unbound(part)) {
        wait_for_any(part.call.argument, *part.label, timeout);
        return advance();
    }
    auto& lane = lanes_.at(part.call.argument);
    listen(part.call.argument, lane, *part.label);
    channel_.wait_for(*lane.ticket, *part.label, timeout, {&part.call, part.number});
    take(part.call.argument, lane);
}

void Messages::take(int peer, Lane& lane) {
    lane.ticket = std::nullopt;
    const auto kind = lane.incoming.kind;
    lane.peer = peer;
    if (kind == Notice::refusal) lane.waits_in = lane.incoming.number;
    if (kind == Notice::question) lane.asks_in = lane.incoming.number;
    if (kind == Notice::end) lane.has_ended = true;
    if (kind > Notice::recv) return;
    lane.heard[kind] = lane.incoming.number;
    if (lane.waiting[kind].empty()) {
        lane.early[kind].push_back(lane.incoming);
        if (kind == 0) lane.orders.push_back(++order_);
    } else
        settle(peer, lane, lane.incoming);
}

/// Gives the notice to the first call that awaits one of its kind.
void Messages::settle(int peer, Lane& lane, const Notice& notice) {
    auto& part = *lane.waiting[notice.kind].front();
    lane.waiting[notice.kind].pop_front();
    if (notice.dtype != part.notice.dtype || notice.count != part.notice.count ||
        notice.tag != part.notice.tag)
        part.error = disagreement(peer, part, notice);
    settle_(part);
}

std::exception_ptr Messages::disagreement(int peer, const CheckedCall& part, const Notice& notice) const {
    const auto end = [&](int rank, const Notice& said) {
        return MessageEnd{rank, part.label->named({rank}),
                          elements_text(said.count, said.dtype, said.unit) + tag_text(said.tag)};
    };
    auto sender = end(ranks_[group_rank_], part.notice);
    auto receiver = end(ranks_[peer], notice);
    if (part.notice.kind == Notice::recv) std::swap(sender, receiver);
    auto failure = differing_ends(notice.number, *part.label, sender, receiver);
    append(failure.why, "; nothing was sent");
    return failure.error();
}

}  // namespace rankmesh::detail
