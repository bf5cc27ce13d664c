// SPDX-License-Identifier: Apache-2.0
// Receives and probes of any rank, which Gloo lacks: a receive is posted once a peer has announced its
// message.
#include <algorithm>
#include <exception>
#include <stdexcept>

#include "engine/gloo/channel.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {

/// Looks at the next message of each rank: of `from`, or of every rank `but` these. Returns the first
/// announced message with the tag of a receive.
std::optional<Message> GlooChannel::announced(int from, const Call& receive, std::span<const int> but) {
    for (const auto& each : connections_->messages().announced()) {
        if ((from != any_source && each.from != from) || std::ranges::count(but, each.from) > 0) continue;
        // Its mark hides its type and number: it is next if it has the mark of a next message.
        for (auto type = 0; type <= static_cast<int>(DType::f64); ++type) {
            auto call = Call{.operation = Operation::recv,
                             .dtype = static_cast<DType>(type),
                             .edge = receive.edge,
                             .tag = receive.tag};
            const auto width = size_of(call.dtype);
            if (each.bytes % width != 0) continue;
            call.out_count = each.bytes / width;
            const auto mark = monitor_->mark_of_next(each.from, call);
            if (Connections::slot_of(message_slot, mark, each.bytes) == each.slot)
                return Message{each.from, each.bytes};
        }
    }
    return std::nullopt;
}

/// Posts the receives whose sender is known by now. Called under receiving_.
void GlooChannel::post_announced() {
    auto tags = std::vector<std::uint16_t>{};  // of earlier receives from any rank that wait on
    auto ranks = std::vector<int>{};           // from which earlier receives wait on, unless matched by tag
    for (auto each = unposted_.begin(); each != unposted_.end();) {
        auto& [ticket, started] = *each;
        const auto& call = started->call;
        const auto source = peers_of(call, connections_->rank, connections_->size).from;
        const auto any = source == any_source;
        auto from = -1;
        if (!any && (matches_by_tag(call) ? std::ranges::count(tags, call.tag) == 0 : tags.empty()))
            from = source;
        else if (std::ranges::count(tags, call.tag) ==
                 0)  // else it is of the earlier receive, once announced
            if (const auto message = announced(source, call, ranks)) from = message->from;
        if (from < 0) {
            if (any)
                tags.push_back(call.tag);
            else if (!matches_by_tag(call))
                ranks.push_back(source);
            ++each;
            continue;
        }
        if (ticket->waited) monitor_->await(from);
        receive(*started, from);
        if (any) ticket->sender = from;
        --ticket->unposted;
        unposted_.erase(each);
        each = unposted_.begin();  // what comes next from that rank may be for an earlier one
        tags.clear();
        ranks.clear();
    }
    defers_ = !unposted_.empty();
}

/// Calls `look` after every announcement until it is true; throws if the channel breaks.
template <class Look>
void GlooChannel::await_announced(Look&& look) {
    for (;;) {
        const auto known = connections_->messages().announcements();
        if (look()) return;
        if (monitor_->is_broken()) throw std::runtime_error("the channel has failed");
        connections_->messages().await_announcement(known);
    }
}

void GlooChannel::await_posted(Ticket& ticket) {
    await_announced([&] {
        const auto lock = std::lock_guard(receiving_);
        post_announced();
        if (ticket.unposted == 0) return true;
        const auto first = std::ranges::find(unposted_, &ticket, &Unposted::ticket);
        monitor_->await(peers_of(first->started->call, connections_->rank, connections_->size).from, true);
        return false;
    });
}

/// The thread that posts receives while this rank is elsewhere: a sender may wait for one of them.
void GlooChannel::receive_announced() {
    try {
        await_announced([&] {
            const auto lock = std::lock_guard(receiving_);
            const auto before = unposted_.size();
            if (!stops_receiving_) post_announced();
            if (unposted_.size() < before) {  // this rank may wait for them
                connections_->messages().wake();
                monitor_->change([] {});
            }
            return stops_receiving_;
        });
    } catch (const std::exception& error) {
        if (!monitor_->is_broken()) monitor_->explain(error.what());
    }
}

/// Forgets the receives of a ticket that are not posted.
void GlooChannel::withdraw(Ticket& ticket) {
    if (!ticket.defers) return;
    const auto lock = std::lock_guard(receiving_);
    std::erase_if(unposted_, [&](const Unposted& each) { return each.ticket == &ticket; });
    defers_ = !unposted_.empty();
}

std::optional<Message> GlooChannel::probe(const Call& call, const Label& label,
                                          std::optional<Duration> timeout) {
    if (monitor_->is_broken()) fail_with({}, label);
    auto found = std::optional<Message>{};
    const auto look = [&] {
        if (defers_) {
            const auto lock = std::lock_guard(receiving_);
            post_announced();
        }
        found = announced(call.argument, call, {});
        return found.has_value();
    };
    if (timeout)
        monitor_->wait_for({.call = &call, .label = &label, .number = ++messages_, .timeout = *timeout});
    try {
        if (timeout) monitor_->await(call.argument, true);
        timeout ? await_announced(look) : static_cast<void>(look());
    } catch (const std::exception& error) {
        const auto text = std::string(error.what());
        monitor_->explain(text);
        monitor_->arrive();
        fail_with(text, label);
    }
    if (timeout) monitor_->arrive();
    if (timeout) cause_->clear();
    return found;
}

}  // namespace rankmesh::detail
