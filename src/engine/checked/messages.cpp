// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/messages.hpp"

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
    const auto& call = part.call;
    const auto receives = call.operation == Operation::recv;
    part.notice = {.receives = receives,
                   .dtype = call.dtype,
                   .tag = call.tag,
                   .count = receives ? call.out_count : call.in_count,
                   .unit = call.unit,
                   .member = MemberText::of(*part.label)};
    const auto notice = make_send(bytes_of(part.notice), call.argument, Tag(0));
    part.notice_ticket = channel_.start({&notice, 1}, *part.label);
    auto& lane = lanes_[call.argument];
    auto& early = lane.early[receives ? 0 : 1];
    lane.waiting[receives ? 0 : 1].push_back(&part);
    if (early.empty()) return;
    const auto first = early.front();
    early.pop_front();
    settle(call.argument, lane, first);
}

void Messages::withdraw(CheckedCall& part) {
    for (auto& [peer, lane] : lanes_)
        for (auto& waiting : lane.waiting) std::erase(waiting, &part);
}

void Messages::clear() {
    for (auto& [peer, lane] : lanes_) lane.waiting = {};
}

/// At most one receive of a notice is posted, and only while a notice is awaited: every one posted completes.
void Messages::listen(int peer, Lane& lane, const Label& label) {
    if (lane.ticket) return;
    const auto call = make_recv(bytes_of(lane.incoming), peer, Tag(0));
    lane.ticket = channel_.start({&call, 1}, label);
}

void Messages::advance() {
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
    auto& lane = lanes_.at(part.call.argument);
    listen(part.call.argument, lane, *part.label);
    channel_.wait(*lane.ticket, *part.label, timeout);
    take(part.call.argument, lane);
}

void Messages::take(int peer, Lane& lane) {
    lane.ticket = std::nullopt;
    const auto kind = lane.incoming.receives;
    if (lane.waiting[kind].empty())
        lane.early[kind].push_back(lane.incoming);
    else
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
    const auto end = [](int rank, const Notice& said) {
        return MessageEnd{rank, cat(rank, " [", said.member.text, "]"),
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
