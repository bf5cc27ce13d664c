// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "engine/checked/collectives.hpp"

namespace rankmesh::detail {

/// Compares the send and the recv of each message: the two ranks send each other a notice of their calls, and
/// both compare.
///
/// A send therefore completes only after its recv was called, as on threads. Notices of sends and receives
/// arrive in one order; a notice that no call waits for yet is stored.
///
/// A recv from any rank takes the first notice of a send that no earlier recv waits for, and is from then on
/// a recv from that rank. Receives that are called meanwhile say nothing before it is known whose message is
/// theirs.
///
/// A rank that waits in a collective refuses the messages that its peers want of it. A peer that must have
/// one of them can never go on: its message meets the collective.
class Messages {
public:
    Messages(Channel& channel, const Ranks& ranks, int group_rank, std::function<void(CheckedCall&)> settle)
        : channel_(channel), ranks_(ranks), group_rank_(group_rank), settle_(std::move(settle)) {}

    void add(CheckedCall& part);
    void advance();
    /// The message that `call`, a probe, asks for; nothing if no sender has said that it sends one.
    std::optional<Message> probe(const Call& call, const Label& label);
    /// Waits for a notice that a probe or a recv from any rank may be about; then call `advance` or `probe`.
    void wait_for_any(int from, const Label& label, Duration timeout);
    /// Waits for a notice from the peer of `part`.
    void wait(const CheckedCall& part, Duration timeout);
    /// True if no rank knows of `part`: it may receive from several, or waits behind such a call.
    bool is_unbound(const CheckedCall& part) const { return std::ranges::count(unbound_, &part) > 0; }
    /// Asks the ranks from which `call`, an unbound part or a probe, may receive: once for each number of
    /// `collectives` that this rank has called.
    void ask(const Call& call, const Label& label, std::uint64_t collectives) {
        for (int peer = 0; peer < ranks_.size(); ++peer)
            if ((call.is_from_any() ? peer != group_rank_ && !channel_.has_left(peer)
                                    : peer == call.argument) &&
                std::exchange(lanes_[peer].asked_in, collectives + 1) <= collectives)
                say(peer, {.kind = Notice::question, .number = collectives + 1}, label);
    }
    /// True if `call` can never be settled: its peers wait in a collective that this rank has not called.
    bool is_stuck(const Call& call, std::uint64_t collectives) const;
    /// True if peers have something to say, or want what a rank in `collective` refuses.
    bool has_news(const Label& label, std::uint64_t collective) {
        const auto any = Call{.operation = Operation::probe, .argument = any_source};
        return std::ranges::any_of(lanes_, [&](const auto& each) { return each.second.wants(collective); }) ||
               channel_.probe(any, label, std::nullopt);
    }
    /// Hears what peers say, and refuses what they want of this rank while it is in `collective`.
    void refuse(const Label& label, std::uint64_t collective);
    /// Called once the peer has heard the notice of `part`, and so what was said before.
    void heard(const CheckedCall& part) {
        auto& sent = lanes_[part.call.argument].sent;
        for (; !sent.empty() && sent.front().order < part.notice_order; sent.pop_front())
            channel_.wait(sent.front().ticket, *part.label, Duration::max());
    }
    /// Forgets a part that is stuck, and says so to its peer with the next `gives_up`.
    void give_up(CheckedCall& part);
    /// By group rank.
    std::vector<GivenUp> gives_up() {
        given_up_.resize(static_cast<std::size_t>(ranks_.size()));
        return given_up_;
    }
    /// Drops the notices that others have given up, and waits until they have dropped those of this rank.
    void drop(const std::vector<GivenUp>& by_others, const Label& label);
    void withdraw(CheckedCall& part) {
        for (auto& [peer, lane] : lanes_)
            for (auto& waiting : lane.waiting) std::erase(waiting, &part);
        std::erase(unbound_, &part);
    }
    void clear() {
        unbound_.clear();
        given_up_.clear();
        for (auto& [peer, lane] : lanes_) lane.waiting = {};
    }

private:
    struct Sent {
        Notice notice;
        std::uint64_t order;
        std::uint64_t ticket = 0;
    };
    /// The notices from one rank, by kind: index 1 holds those of receives.
    struct Lane {
        Notice incoming = {};
        std::optional<std::uint64_t> ticket = std::nullopt;
        std::array<std::deque<CheckedCall*>, 2> waiting = {};
        std::array<std::deque<Notice>, 2> early = {};
        std::array<std::uint64_t, 2> posted = {};  // how many this rank has sent
        std::array<std::uint64_t, 2> heard = {};   // the number of the last one that has come
        std::deque<std::uint64_t> orders = {};     // of the early notices of sends
        int peer = -1;
        std::uint64_t waits_in = 0;    // the last collective in which the peer has refused messages
        std::uint64_t refused_in = 0;  // the same of this rank
        std::uint64_t asked_in = 0;    // the last one that this rank has asked about
        std::uint64_t asks_in = 0;     // the same of the peer
        bool has_ended = false;        // the peer has dropped what was given up
        std::uint64_t said = 0;        // how many notices this rank has sent
        std::deque<Sent> sent = {};    // those without a part that the peer may not have heard
        bool wants(std::uint64_t collective) const {
            return refused_in < collective &&
                   (asks_in >= collective || !early[0].empty() || !early[1].empty());
        }
        bool is_awaited() const { return !waiting[0].empty() || !waiting[1].empty(); }
    };

    void post(CheckedCall& part);
    void say(int peer, const Notice& notice, const Label& label);
    /// Waits for the next notice of a rank.
    void await(int peer, Lane& lane, const Label& label) {
        listen(peer, lane, label);
        channel_.wait(*lane.ticket, label, Duration::max());
        take(peer, lane);
    }
    void bind();
    void hear(const Label& label);
    const Lane* first_sent(const Call& call, const std::vector<int>& but) const;
    void listen(int peer, Lane& lane, const Label& label);
    void take(int peer, Lane& lane);
    void settle(int peer, Lane& lane, const Notice& notice);
    std::exception_ptr disagreement(int peer, const CheckedCall& part, const Notice& notice) const;

    Channel& channel_;
    const Ranks ranks_;
    const int group_rank_;
    const std::function<void(CheckedCall&)> settle_;
    std::map<int, Lane> lanes_;         // by group rank
    std::deque<CheckedCall*> unbound_;  // receives, from the first one whose sender is not known on
    std::uint64_t order_ = 0;
    std::vector<GivenUp> given_up_;  // by group rank; empty: nothing
};

}  // namespace rankmesh::detail
