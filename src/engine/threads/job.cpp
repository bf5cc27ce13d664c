// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/job.hpp"

#include <exception>

#include "engine/diagnosis/attendance.hpp"
#include "engine/membership/renewal.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

std::vector<int> Job::awaited(int rank) {
    auto lock = std::unique_lock(mutex_);
    const auto groups = alive_[static_cast<std::size_t>(rank)];
    lock.unlock();
    for (const auto& weak : groups)
        if (const auto group = weak.lock())
            if (auto ranks = group->awaited(rank); !ranks.empty()) return ranks;
    return {};
}

std::string Job::seen(const std::vector<int>& missing, const Label& label) {
    auto ranks = missing;
    auto waits = std::map<int, std::vector<int>>{};
    for (std::size_t i = 0; i < std::min(ranks.size(), most_described); ++i) {
        const auto rank = ranks[i];
        waits[rank] = awaited(rank);
        for (const auto each : waits[rank])
            if (ranks.size() < most_described && !contains(ranks, each)) ranks.push_back(each);
    }
    return last_seen(ranks, label, [&](int rank) {
        const auto& for_whom = waits[rank];
        if (for_whom.empty()) return doing(rank);
        return cat(doing(rank), ", waiting for ", ranks_text(for_whom));
    });
}

std::shared_ptr<SharedGroup> Job::group(int rank, const std::string& key, const std::vector<int>& ranks) {
    const auto lock = std::lock_guard(mutex_);
    const auto name = std::pair(key, ranks.front());
    auto& entry = groups_[name];
    if (!entry.object) {
        entry.object = group_of(ranks);
        for (const auto& [gone, why] : failed_)
            if (contains(ranks, gone)) entry.object->fail(why);
        if (renewed_) entry.object->fail(*renewed_);
        for (auto gone : ended_) entry.object->end(gone, how_ended(gone));
    }
    auto group = entry.object;
    // A group is kept until all its ranks have it, so that a rank that leaves early still leaves a failed
    // group for the others.
    entry.taken.push_back(rank);
    if (entry.taken.size() == ranks.size()) {
        for (const auto member : ranks) {
            auto& own = alive_[static_cast<std::size_t>(member)];
            std::erase_if(own, [](const auto& weak) { return weak.expired(); });
            own.push_back(group);
        }
        groups_.erase(name);
    }
    return group;
}

std::shared_ptr<Job> Job::sub(int rank, const std::vector<int>& ranks, int turn) {
    const auto lock = std::lock_guard(mutex_);
    const auto name = std::pair(ranks, turn);
    auto& entry = making_[name];
    if (!entry.object) {
        entry.object = std::make_shared<Job>(static_cast<int>(ranks.size()), shared_from_this(), ranks);
        std::erase_if(subs_, [](const auto& weak) { return weak.expired(); });
        subs_.push_back(entry.object);
        for (const auto& [gone, why] : failed_) entry.object->fail_by_parent(gone, why);
        if (renewed_) entry.object->renew(renewal_in_part(*renewed_, ranks));
        for (auto gone : ended_)  // before it made its own
            if (const auto number = entry.object->number_of(gone); number >= 0) entry.object->end(number);
    }
    auto job = entry.object;
    entry.taken.push_back(rank);
    if (entry.taken.size() == ranks.size()) making_.erase(name);
    return job;
}

void Job::fail_by_parent(int rank, Failure failure) noexcept {
    const auto number = number_of(rank);
    if (number < 0) return;
    for (auto* ranks : {&failure.lost, &failure.arrived, &failure.missing}) {
        for (auto& each : *ranks) each = number_of(each);
        std::erase(*ranks, -1);
    }
    if (failure.lost.empty() && failure.missing.empty())
        failure = {.kind = Failure::Kind::left, .why = failure.why, .lost = {number}};
    fail(number, failure);
}

void Job::fail(int rank, const Failure& why) noexcept {
    const auto lock = std::lock_guard(mutex_);
    depart(rank, why);
    if (std::ranges::find(failed_, rank, &std::pair<int, Failure>::first) != failed_.end()) return;
    failed_.emplace_back(rank, why);
    world->fail(why);
    for (auto& [name, entry] : groups_)
        if (contains(entry.object->ranks(), rank)) entry.object->fail(why);
    for (auto& weak : alive_[static_cast<std::size_t>(rank)])
        if (auto group = weak.lock()) group->fail(why);
    for (auto& weak : subs_)
        if (auto sub = weak.lock()) sub->fail_by_parent(rank, why);
}

void Job::renew(const Failure& why) noexcept {
    const auto lock = std::lock_guard(mutex_);
    for (auto& [weak, ranks] : made_)
        if (const auto job = weak.lock()) job->renew(renewal_in_part(why, ranks));
    if (renewed_) return;
    renewed_ = why;
    world->fail(why);
    for (auto& [name, entry] : groups_) entry.object->fail(why);
    for (int rank = 0; rank < size; ++rank) {
        depart(rank, why);
        for (auto& weak : alive_[static_cast<std::size_t>(rank)])
            if (auto group = weak.lock()) group->fail(why);
    }
    for (auto& weak : subs_)
        if (auto sub = weak.lock()) sub->renew(renewal_in_part(why, sub->members_));
}

void Job::end(int rank) noexcept {
    const auto lock = std::lock_guard(mutex_);
    ended_.push_back(rank);
    const auto how = how_ended(rank);
    world->end(rank, how);
    for (auto& [name, entry] : groups_) entry.object->end(rank, how);
    for (auto& weak : alive_[static_cast<std::size_t>(rank)])
        if (auto group = weak.lock()) group->end(rank, how);
    depart(rank, {.kind = Failure::Kind::left, .why = cat("rank ", rank, " ", how), .lost = {rank}});
    // A job of some ranks that this one has joined outlives its world here.
    for (auto& [name, entry] : making_)
        if (const auto number = entry.object->number_of(rank);
            number >= 0 && std::ranges::find(entry.taken, rank) == entry.taken.end())
            entry.object->end(number);
}

std::string Mailbox::take(const Departures& left, int from, Duration timeout) {
    auto lock = std::unique_lock(mutex_);
    const auto next = [&] { return std::ranges::find(messages_, from, &std::pair<int, std::string>::first); };
    const auto until = from_now(timeout);
    auto gone = std::optional<Failure>{};
    ++waiting_;
    const auto in_time = arrived_.wait_until(lock, until, [&] {
        gone = left.why(from);
        return gone || next() != messages_.end();
    });
    --waiting_;
    if (!in_time)
        throw Timeout(cat("the timeout of ", to_text(timeout), " expired in join, waiting for rank ", from),
                      {}, {from});
    if (next() == messages_.end()) std::rethrow_exception(gone->error());
    auto message = std::move(next()->second);
    messages_.erase(next());
    return message;
}

std::vector<std::pair<int, std::string>> Mailbox::collect(const Departures& left, const std::string& phase,
                                                          std::span<const int> from,
                                                          std::chrono::steady_clock::time_point until) {
    auto lock = std::unique_lock(mutex_);
    auto heard = std::vector<std::pair<int, std::string>>{};
    const auto has_left = [&](int each) { return left.why(each).has_value(); };
    ++waiting_;
    arrived_.wait_until(lock, until, [&] {
        for (const auto each : from) {
            const auto next = posts_.find(each);
            if (next == posts_.end()) continue;
            heard.emplace_back(each, std::move(next->second.front()));
            next->second.pop_front();
            if (next->second.empty()) posts_.erase(next);
        }
        return !heard.empty() || std::ranges::any_of(from, has_left);
    });
    --waiting_;
    if (!heard.empty()) return heard;
    for (const auto each : from)
        if (auto why = left.why(each)) {
            append(why->why, cat("; ", phase, " cannot be completed"));
            std::rethrow_exception(why->error());
        }
    return {};
}

std::vector<std::optional<std::string>> JobStore::get(const std::vector<std::string>& names, Instant) {
    const auto lock = std::lock_guard(mutex_);
    auto texts = std::vector<std::optional<std::string>>{};
    for (const auto& name : names) {
        const auto found = entries_.find(name);
        texts.push_back(found == entries_.end() ? std::nullopt : std::optional(found->second));
    }
    return texts;
}

std::shared_ptr<Job> JobStore::job(const std::string& key, int size) {
    const auto lock = std::lock_guard(mutex_);
    auto& made = made_[key];
    if (!made.job) made.job = std::make_shared<Job>(size);
    auto job = made.job;
    if (++made.taken == size) made_.erase(key);
    return job;
}

}  // namespace rankmesh::detail
