// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/shared_group.hpp"

#include <algorithm>
#include <cstring>
#include <ranges>

#include <rankmesh/core/text.hpp>

#include "engine/agreed.hpp"
#include "engine/perform.hpp"
#include "engine/record/recorder.hpp"
#include "engine/roles.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
SharedGroup::SharedGroup(std::vector<int> ranks, Seen seen)
    : seen_(std::move(seen)),
      ranks_(std::move(ranks)),
      collectives_(ranks_.size(), 0),
      messages_(ranks_.size(), 0) {}

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
        if (overwrites_input && call.in_bytes() > 0) entry.call.copy_input();
        add(entry, label);
    }
    return ticket;
}

/// Adds an entry, and runs the operation if it was the last to arrive.
void SharedGroup::add(Entry& entry, const Label& label) {
    const auto& call = entry.call;
    if (is_point_to_point(call.operation)) {
        const auto [to, from] = peers_of(call, entry.group_rank, static_cast<int>(ranks_.size()));
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
    changed_.notify_all();
}

/// Copies the next message of a lane if both send and recv are posted.
void SharedGroup::match(int from, int to, const Label& label) {
    auto& lane = lanes_[{from, to}];
    if (lane.sends.empty() || lane.receives.empty()) return;
    auto& send = *lane.sends.front();
    auto& receive = *lane.receives.front();
    if (send.call.dtype == receive.call.dtype && send.call.in_count == receive.call.out_count &&
        send.call.tag == receive.call.tag) {
        if (send.call.in_bytes() > 0) std::memmove(receive.call.out, send.call.in, send.call.in_bytes());
    } else {
        const auto mismatch = std::make_shared<const Mismatch>(
            Mismatch{cat("on ", label.text(), " rank ", rank(from), " sends ", send.call.in_count, " ",
                         to_string(send.call.dtype), tag_text(send.call.tag), " to rank ", rank(to),
                         ", which receives ", receive.call.out_count, " ", to_string(receive.call.dtype),
                         tag_text(receive.call.tag)),
                     {rank(from), rank(to)}});
        send.mismatch = mismatch;
        receive.mismatch = mismatch;
    }
    --send.open;
    --receive.open;
    lane.sends.pop_front();
    lane.receives.pop_front();
    if (lane.sends.empty() && lane.receives.empty()) lanes_.erase({from, to});
    changed_.notify_all();
}

void SharedGroup::wait(std::uint64_t ticket, const Label& label, Duration timeout, std::string_view phrase) {
    auto lock = std::unique_lock(mutex_);
    auto& posted = posted_.at(ticket);
    posted.waited = true;
    const auto until = end_of_wait(timeout);
    const auto over = [&] { return posted.done() || failure_ || hopeless(posted); };
    const auto in_time = changed_.wait_until(lock, until, over);
    if (!posted.done() && !failure_) {
        const auto what = [&](const Entry& entry) {
            return phrase.empty() ? numbered(entry.call, entry.number) : std::string(phrase);
        };
        if (const auto* waiting = hopeless(posted)) {
            auto lost = ended(*waiting);
            failure_ = Failure{.kind = Failure::Kind::left,
                               .why = cat("rank ", lost.front(), " ", ended_.at(lost.front()),
                                          " without its part in ", what(*waiting)),
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
        changed_.notify_all();
    }
    if (!posted.done()) failure_->raise(label);
    auto mismatch = std::shared_ptr<const Mismatch>{};
    for (const auto& entry : posted.entries)
        if (entry.mismatch && !mismatch) mismatch = entry.mismatch;
    posted_.erase(ticket);
    if (mismatch) throw Disagreement(mismatch->text, mismatch->odd_ranks);
}

std::vector<int> SharedGroup::ended(const Entry& entry) const {
    if (ended_.empty() || entry.open == 0) return {};
    auto missing = attendance(entry).missing;
    std::erase_if(missing, [this](int rank) { return !ended_.contains(rank); });
    return missing;
}

const SharedGroup::Entry* SharedGroup::hopeless(const Posted& posted) const {
    for (const auto& entry : posted.entries)
        if (!ended(entry).empty()) return &entry;
    return nullptr;
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
    for (const auto& [ends, lane] : lanes_) {
        if (std::ranges::find(lane.sends, &entry) != lane.sends.end()) missing.push_back(rank(ends.second));
        if (std::ranges::find(lane.receives, &entry) != lane.receives.end())
            missing.push_back(rank(ends.first));
    }
    std::ranges::sort(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    return {{rank(entry.group_rank)}, std::move(missing)};
}

bool SharedGroup::done(std::uint64_t ticket) {
    const auto lock = std::lock_guard(mutex_);
    const auto& posted = posted_.at(ticket);
    return failure_ || posted.done() || hopeless(posted);
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
    changed_.notify_all();
}

void SharedGroup::fail(const Failure& failure) noexcept {
    const auto lock = std::lock_guard(mutex_);
    if (failure_) return;
    failure_ = failure;
    changed_.notify_all();
}

void SharedGroup::end(int rank, const std::string& how) noexcept {
    const auto lock = std::lock_guard(mutex_);
    ended_.emplace(rank, how);
    changed_.notify_all();
}

void SharedGroup::throw_if_failed(const Label& label) {
    const auto lock = std::lock_guard(mutex_);
    if (failure_) failure_->raise(label);
}

std::optional<Failure> SharedGroup::failure() {
    const auto lock = std::lock_guard(mutex_);
    return failure_;
}

std::shared_ptr<const SharedGroup::Mismatch> SharedGroup::compare(const Round& round,
                                                                  const Label& label) const {
    const auto& first = *round.entries[0];
    const auto agreed = Agreed::of(first.call);
    const auto same = [&](const Entry* entry) { return Agreed::of(entry->call).bytes() == agreed.bytes(); };
    auto mismatch = std::make_shared<Mismatch>();
    if (std::ranges::all_of(round.entries | std::views::drop(1), same)) {
        // The counts between two ranks must be equal at both ends.
        for (std::size_t from = 0; from < ranks_.size(); ++from)
            for (std::size_t to = 0; to < ranks_.size() && traits(first.call.operation).counts; ++to) {
                const auto& sender = *round.entries[from];
                const auto& receiver = *round.entries[to];
                const auto& sent = first.call.operation == Operation::all_gather_v
                                       ? sender.call.out_counts[from]
                                       : sender.call.in_counts[to];
                if (sent * sender.call.unit == receiver.call.out_counts[from] * receiver.call.unit) continue;
                mismatch->text =
                    cat("in ", to_string(first.call.operation), " on ", label.text(), " rank ", ranks_[from],
                        " sends ", sent, sent == 1 ? " element" : " elements", " to rank ", ranks_[to],
                        ", which expects ", receiver.call.out_counts[from]);
                mismatch->odd_ranks = {ranks_[from], ranks_[to]};
                return mismatch;
            }
        return nullptr;
    }
    auto classes = std::map<std::string, std::vector<int>>{};
    for (std::size_t p = 0; p < ranks_.size(); ++p) {
        const auto& call = round.entries[p]->call;
        classes[to_string(call) + list_text(call.list)].push_back(ranks_[p]);
    }
    auto sorted = std::vector<std::pair<std::string, std::vector<int>>>(classes.begin(), classes.end());
    std::ranges::stable_sort(sorted, [](auto& a, auto& b) { return a.second.size() > b.second.size(); });
    mismatch->text = cat("the ranks of ", label.text(), " call different operations:");
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        append(mismatch->text,
               cat(i > 0 ? ";" : "", " ", ranks_to_string(sorted[i].second), " ", sorted[i].first));
        if (i > 0)
            mismatch->odd_ranks.insert(mismatch->odd_ranks.end(), sorted[i].second.begin(),
                                       sorted[i].second.end());
    }
    std::ranges::sort(mismatch->odd_ranks);
    return mismatch;
}

}  // namespace rankmesh::detail
