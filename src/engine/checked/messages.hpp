// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "engine/checked/checked_call.hpp"

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
class Messages {
public:
    Messages(Channel& channel, const Ranks& ranks, int group_rank, std::function<void(CheckedCall&)> settle);

    void add(CheckedCall& part);
    void advance();
    /// The message that `call`, a probe, asks for; nothing if no sender has said that it sends one.
    std::optional<Message> probe(const Call& call, const Label& label);
    /// Waits for a notice that a probe or a recv from any rank may be about; then call `advance` or `probe`.
    void wait_for_any(int from, const Label& label, Duration timeout);
    /// Waits for a notice from the peer of `part`.
    void wait(const CheckedCall& part, Duration timeout);
    void withdraw(CheckedCall& part);
    void clear();

private:
    /// The notices from one rank, by kind: index 1 holds those of receives.
    struct Lane {
        Notice incoming = {};
        std::optional<std::uint64_t> ticket = std::nullopt;
        std::array<std::deque<CheckedCall*>, 2> waiting = {};
        std::array<std::deque<Notice>, 2> early = {};
        std::array<std::uint64_t, 2> numbers = {};
        std::deque<std::uint64_t> orders = {};  // of the early notices of sends
        int peer = -1;
        bool is_awaited() const { return !waiting[0].empty() || !waiting[1].empty(); }
    };

    void post(CheckedCall& part);
    void bind();
    void hear(const Label& label);
    const Lane* first_sent(const Call& call, const std::vector<int>& but) const;
    void listen(int peer, Lane& lane, const Label& label);
    void take(int peer, Lane& lane);
    void settle(int peer, Lane& lane, const Notice& notice);
    std::exception_ptr disagreement(int peer, const CheckedCall& part, const Notice& notice,
                                    std::uint64_t number) const;

    Channel& channel_;
    const Ranks ranks_;
    const int group_rank_;
    const std::function<void(CheckedCall&)> settle_;
    std::map<int, Lane> lanes_;         // by group rank
    std::deque<CheckedCall*> unbound_;  // receives, from the first one whose sender is not known on
    std::uint64_t order_ = 0;
};

}  // namespace rankmesh::detail
