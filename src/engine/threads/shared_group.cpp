// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/shared_group.hpp"

#include <cstring>
#include <ranges>

#include "engine/combine.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

std::shared_ptr<const Failure> disagreement(std::string why, std::vector<int> ranks) {
    return std::make_shared<Failure>(
        Failure{.kind = Failure::Kind::disagreement, .why = std::move(why), .lost = std::move(ranks)});
}

}  // namespace

bool SharedGroup::Posted::done() const {
    return std::ranges::all_of(entries, [](const Entry& entry) { return entry.open == 0; });
}

std::uint64_t SharedGroup::post(int group_rank, std::span<const Call> calls, const Label& label) {
    const auto lock = std::lock_guard(mutex_);
    if (failure_) failure_->raise(label);
    const auto ticket = next_ticket_++;
    auto& posted = posted_[ticket];
    for (const auto& call : calls) {
        auto& counter =
            (is_point_to_point(call.operation) ? messages_
                                               : collectives_)[static_cast<std::size_t>(group_rank)];
        auto& entry = posted.entries.emplace_back(
            Entry{.group_rank = group_rank, .number = ++counter, .call = OwnedCall(call, ranks_.size())});
        const auto overwrites_input = call.in == call.out && (call.operation == Operation::all_to_all ||
                                                              call.operation == Operation::shift);
        // In checked mode a rank may end before its peer receives what it has said.
        constexpr auto longest_notice = std::size_t{64};
        const auto outlives = call.operation == Operation::send && call.in_bytes() <= longest_notice;
        if ((overwrites_input || outlives) && call.in_bytes() > 0) entry.call.copy_input();
        add(entry, label);
    }
    return ticket;
}

/// Adds an entry, and runs the operation if it was the last to arrive.
void SharedGroup::add(Entry& entry, const Label& label) {
    const auto& call = entry.call;
    if (is_point_to_point(call.operation)) {
        const auto [to, from] = peers_of(call, entry.group_rank, static_cast<int>(ranks_.size()));
        entry.order = ++order_;
        if (call.operation == Operation::probe) {
            probes_[static_cast<std::size_t>(entry.group_rank)].push_back(&entry);
            return answer_probes(entry.group_rank);
        }
        if (from == any_source) {
            from_any_[static_cast<std::size_t>(entry.group_rank)].push_back(&entry);
            if (const auto* sent = first_sent(entry.group_rank, call))
                match(sent->group_rank, entry.group_rank, label);
            return;
        }
        entry.open = (to >= 0 ? 1 : 0) + (from >= 0 ? 1 : 0);
        if (to >= 0) {
            lanes_[{entry.group_rank, to}].sends.push_back(&entry);
            match(entry.group_rank, to, label);
        }
        if (from >= 0) {
            lanes_[{from, entry.group_rank}].receives.push_back(&entry);
            match(from, entry.group_rank, label);
        }
        return;
    }
    const auto index = static_cast<std::size_t>(entry.number - first_);
    if (index == rounds_.size()) rounds_.emplace_back().entries.resize(ranks_.size());
    auto& round = rounds_[index];
    round.entries[static_cast<std::size_t>(entry.group_rank)] = &entry;
    if (++round.posted < static_cast<int>(ranks_.size())) return;
    // Ranks post in order, so the complete round is the first one.
    const auto mismatch = compare(round, label);
    if (!mismatch)
        perform(ranks_.size(), [&](std::size_t p) -> const Call& { return round.entries[p]->call; });
    for (auto* each : round.entries) {
        each->mismatch = mismatch;
        each->open = 0;
    }
    rounds_.pop_front();
    ++first_;
    tell_change();
}

/// Returns the message that `call`, a recv or probe of `to`, would receive now. Only the next message of each
/// rank counts; the earliest is taken. Null if there is none.
const SharedGroup::Entry* SharedGroup::first_sent(int to, const Call& call) const {
    const Entry* first = nullptr;
    for (const auto& [ends, lane] : lanes_) {
        if (ends.second != to || lane.sends.empty() || !lane.receives.empty()) continue;
        const auto* next = lane.sends.front();
        if (!call.is_from_any() && next->group_rank != call.argument) continue;
        if (next->call.tag == call.tag && (!first || next->order < first->order)) first = next;
    }
    return first;
}

/// Gives the next message of a lane to the first recv that is posted for it.
void SharedGroup::match(int from, int to, const Label& label) {
    auto& lane = lanes_[{from, to}];
    if (lane.sends.empty()) return;
    auto& send = *lane.sends.front();
    auto& any = from_any_[static_cast<std::size_t>(to)];
    const auto first = from_any(to, send.call.tag);
    if (first != any.end() && (lane.receives.empty() || (*first)->order < lane.receives.front()->order)) {
        auto& receive = **first;
        receive.sender = from;
        any.erase(first);
        move(send, receive, to, label);
    } else if (!lane.receives.empty()) {
        auto& receive = *lane.receives.front();
        lane.receives.pop_front();
        move(send, receive, to, label);
    } else {
        return answer_probes(to);
    }
    lane.sends.pop_front();
    if (lane.sends.empty() && lane.receives.empty())
        lanes_.erase({from, to});
    else
        match(from, to, label);  // a recv from any rank may have waited behind that message
}

/// Completes the probes of a rank whose message is there.
void SharedGroup::answer_probes(int group_rank) {
    const auto answered = std::erase_if(probes_[static_cast<std::size_t>(group_rank)], [&](Entry* probe) {
        if (!first_sent(group_rank, probe->call)) return false;
        probe->open = 0;
        return true;
    });
    if (answered > 0) tell_change();
}

/// Copies a message.
void SharedGroup::move(Entry& send, Entry& receive, int to, const Label& label) {
    const auto from = send.group_rank;
    if (send.call.dtype == receive.call.dtype && send.call.in_count == receive.call.out_count &&
        send.call.tag == receive.call.tag) {
        if (send.call.in_bytes() > 0) std::memmove(receive.call.out, send.call.in, send.call.in_bytes());
    } else {
        send.mismatch = receive.mismatch =
            disagreement(cat("on ", label.text(), " rank ", rank(from), " sends ", send.call.in_count, " ",
                             to_string(send.call.dtype), tag_text(send.call.tag, receive.call.tag),
                             " to rank ", rank(to), ", which receives ", receive.call.out_count, " ",
                             to_string(receive.call.dtype), tag_text(receive.call.tag, send.call.tag),
                             receive.call.is_from_any() ? " from any rank" : ""),
                         {std::min(rank(from), rank(to)), std::max(rank(from), rank(to))});
    }
    --send.open;
    --receive.open;
    tell_change();
}

std::optional<Message> SharedGroup::probe(int group_rank, const Call& call, const Label& label,
                                          std::optional<Duration> timeout) {
    const auto found = [&]() -> std::optional<Message> {
        const auto lock = std::lock_guard(mutex_);
        if (failure_) failure_->raise(label);
        const auto* sent = first_sent(group_rank, call);
        if (!sent) return std::nullopt;
        return Message{sent->group_rank, sent->call.in_bytes()};
    };
    if (!timeout) return found();
    const auto ticket = post(group_rank, {&call, 1}, label);
    wait(ticket, label, *timeout);
    return found();
}

std::optional<int> SharedGroup::wait(std::uint64_t ticket, const Label& label, Duration timeout,
                                     std::string_view phrase, const std::function<bool()>& is_interrupted) {
    auto lock = std::unique_lock(mutex_);
    auto& posted = posted_.at(ticket);
    posted.waited = true;
    const auto until = end_of_wait(timeout);
    const auto over = [&] { return posted.done() || failure_ || hopeless(posted); };
    const auto until_look = [&] {
        return is_interrupted ? std::min(until, from_now(Channel::between_looks)) : until;
    };
    auto next = until_look();
    auto in_time = false;
    while (!(in_time = changed_.wait_until(lock, next, over)) && next < until) {
        lock.unlock();
        const auto interrupted = is_interrupted();
        lock.lock();
        if (interrupted) posted.waited = false;
        if (interrupted) return std::nullopt;
        next = until_look();
    }
    if (!posted.done() && !failure_) {
        const auto what = [&](const Entry& entry) {
            return phrase.empty() ? numbered(entry.call, entry.number, &label.ranks) : std::string(phrase);
        };
        if (const auto* waiting = hopeless(posted)) {
            auto lost = ended(*waiting);
            failure_ = Failure{.kind = Failure::Kind::left,
                               .why = cat("rank ", lost.front(), " ", ended_.at(lost.front()),
                                          ", and is missing in ", what(*waiting)),
                               .lost = std::move(lost)};
        } else if (!in_time) {
            const auto& entry =
                *std::ranges::find_if(posted.entries, [](const Entry& e) { return e.open > 0; });
            auto ranks = attendance(entry);
            lock.unlock();
            ranks.seen = seen_(ranks.missing, label);
            lock.lock();
            if (!posted.done() && !failure_)
                failure_ =
                    timeout_failure(timeout, rank(entry.group_rank), what(entry), label, std::move(ranks));
        }
        tell_change();
    }
    if (!posted.done()) failure_->raise(label);
    auto mismatch = std::shared_ptr<const Failure>{};
    auto sender = -1;
    for (const auto& entry : posted.entries) {
        if (entry.mismatch && !mismatch) mismatch = entry.mismatch;
        if (entry.sender >= 0) sender = entry.sender;
    }
    posted_.erase(ticket);
    if (mismatch) std::rethrow_exception(mismatch->error());
    return sender;
}

std::vector<int> SharedGroup::ended(const Entry& entry) const {
    if (ended_.empty() || entry.open == 0) return {};
    auto missing = attendance(entry).missing;
    const auto left = std::erase_if(missing, [this](int rank) { return !ended_.contains(rank); });
    // One rank that may still send is enough.
    return entry.call.is_from_any() && left > 0 ? std::vector<int>{} : missing;
}

Attendance SharedGroup::attendance(const Entry& entry) const {
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    if (!is_point_to_point(entry.call.operation)) {
        const auto& round = rounds_[static_cast<std::size_t>(entry.number - first_)];
        for (std::size_t p = 0; p < ranks_.size(); ++p)
            (round.entries[p] ? arrived : missing).push_back(ranks_[p]);
        return {std::move(arrived), std::move(missing)};
    }
    if (entry.call.is_from_any()) {
        missing = ranks_;
        std::erase(missing, rank(entry.group_rank));
    } else if (entry.call.operation == Operation::probe) {
        missing = {rank(entry.call.argument)};
    }
    for (const auto& [ends, lane] : lanes_) {
        if (std::ranges::find(lane.sends, &entry) != lane.sends.end()) missing.push_back(rank(ends.second));
        if (std::ranges::find(lane.receives, &entry) != lane.receives.end())
            missing.push_back(rank(ends.first));
    }
    std::ranges::sort(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    return {{rank(entry.group_rank)}, std::move(missing)};
}

std::vector<int> SharedGroup::awaited(int rank) {
    const auto lock = std::lock_guard(mutex_);
    for (const auto& [ticket, posted] : posted_)
        for (const auto& entry : posted.entries)
            if (!failure_ && posted.waited && entry.open > 0 && this->rank(entry.group_rank) == rank)
                return attendance(entry).missing;
    return {};
}

void SharedGroup::withdraw(std::uint64_t ticket, const Label& label, const Cause& cause) noexcept {
    const auto lock = std::lock_guard(mutex_);
    if (failure_) return;  // no rank uses the buffers any more: copies are made under the lock
    const auto& entries = posted_.at(ticket).entries;
    const auto pending = std::ranges::find_if(entries, [](const Entry& entry) {
        return entry.open > 0 || !is_point_to_point(entry.call.operation);
    });
    if (pending == entries.end()) {  // messages that have arrived
        posted_.erase(ticket);
        return;
    }
    const auto left = rank(pending->group_rank);
    failure_ = cause.of_leaving(left, cat("rank ", left, " left by an exception with a pending ",
                                          to_string(pending->call), " on ", label.text()));
    tell_change();
}

std::shared_ptr<const Failure> SharedGroup::compare(const Round& round, const Label& label) const {
    const auto& first = *round.entries[0];
    const auto counts = traits(first.call.operation).counts;
    const auto agreed = Agreed::of(first.call);
    const auto same = [&](const Entry* entry) { return Agreed::of(entry->call).bytes() == agreed.bytes(); };
    if (std::ranges::all_of(round.entries | std::views::drop(1), same)) {
        // The counts between two ranks must be equal at both ends.
        for (std::size_t from = 0; from < ranks_.size(); ++from)
            for (std::size_t to = 0; to < ranks_.size() && counts; ++to) {
                const auto& sender = round.entries[from]->call;
                const auto& receiver = round.entries[to]->call;
                const auto given = given_to(sender, static_cast<int>(to));
                const auto expected = expected_from(receiver, static_cast<int>(from));
                if (given == expected) continue;
                const auto sent = given / sender.unit;
                return disagreement(
                    cat("in ", to_string(first.call.operation), " on ", label.text(), " rank ", ranks_[from],
                        " sends ", sent, sent == 1 ? " element" : " elements", " to rank ", ranks_[to],
                        ", which expects ", expected / receiver.unit),
                    {ranks_[from], ranks_[to]});
            }
        return nullptr;
    }
    auto calls = std::vector<DifferingCall>{};
    for (std::size_t p = 0; p < ranks_.size(); ++p) {
        const auto& call = round.entries[p]->call;
        add_call(calls, to_string(Agreed::of(call), call.unit), ranks_[p]);
    }
    return std::make_shared<Failure>(differing_calls(first.number, label, std::move(calls)));
}

}  // namespace rankmesh::detail
