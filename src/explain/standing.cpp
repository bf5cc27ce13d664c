// SPDX-License-Identifier: Apache-2.0
#include "explain/standing.hpp"

#include <algorithm>

namespace rankmesh::detail::explaining {

namespace {

/// Returns the entries that may hold the rank.
std::vector<const RecordedEntry*> candidates(const FlightRecord& record, const RecordedEntry& first) {
    auto all = std::vector<const RecordedEntry*>{&first};
    for (const auto& entry : record.entries) {
        if (&entry == &first || Evidence::is_over(entry)) continue;
        const auto is_one_batch = entry.is_message && first.is_message && entry.number == first.number &&
                                  entry.group == first.group;
        if (record.is_torch ? is_one_batch : entry.state == RecordedState::started) all.push_back(&entry);
    }
    return all;
}

}  // namespace

Standing::Standing(const Evidence& evidence, const Messages& messages)
    : evidence_(evidence), messages_(messages), graph_(evidence.ranks().size()) {
    for (const auto& [rank, record] : evidence.records())
        if (const auto* entry = evidence.whereabouts(rank).entry; entry && !entry->is_message)
            awaited_[evidence.number_of(*entry)].numbers.insert(entry->number);
    for (const auto& [rank, record] : evidence.records()) place(rank, *record);
    graph_.narrow(from_any_);
}

std::vector<const Standing::Waiting*> Standing::waiting() const {
    auto all = std::vector<const Waiting*>{};
    for (const auto& one : waiting_) all.push_back(&one);
    std::ranges::stable_sort(
        all, {}, [](const Waiting* one) { return std::pair(one->missing.size(), -std::ssize(one->ranks)); });
    return all;
}

std::vector<int> Standing::world_ranks(const std::vector<int>& places) const {
    auto ranks = std::vector<int>{};
    for (const auto place : places) ranks.push_back(evidence_.ranks()[at(place)]);
    return ranks;
}

void Standing::place(int rank, const FlightRecord& record) {
    const auto* first = evidence_.whereabouts(rank).entry;
    if (!first) return;
    for (const auto* entry : candidates(record, *first)) {
        const auto call = entry->is_message ? message(rank, *entry) : collective(*entry);
        if (call < 0) continue;
        graph_.hold(evidence_.place(rank), call);
        waiting_[at(call)].ranks.push_back(rank);
        held_[rank] = entry;
        return;
    }
    if (!first->is_message) unfinished_[{evidence_.number_of(*first), first->number}].push_back(rank);
}

int Standing::add(const RecordedEntry& entry, std::vector<int> missing) {
    if (missing.empty()) return -1;
    auto places = std::vector<int>{};
    for (const auto rank : missing) places.push_back(evidence_.place(rank));
    waiting_.push_back({&entry, {}, std::move(missing)});
    return graph_.call(std::move(places));
}

int Standing::message(int rank, const RecordedEntry& entry) {
    const auto call = add(entry, messages_.missing(rank, entry));
    if (call >= 0 && is_from_any(*entry.call)) from_any_.push_back(call);
    return call;
}

int Standing::collective(const RecordedEntry& entry) {
    const auto [call, is_new] = calls_.try_emplace({evidence_.number_of(entry), entry.number}, -1);
    if (!is_new) return call->second;
    auto ranks = missing(evidence_.number_of(entry), entry.number);
    if (ranks.empty()) ranks = evidence_.communicator_of(entry).likely;
    return call->second = add(entry, std::move(ranks));
}

/// Returns the ranks that have not come to a call. Of many, only those beyond the ranks for which an earlier
/// call waits: if each rank is in a call of its own, all would be as many as the square of the ranks.
std::vector<int> Standing::missing(int communicator, std::int64_t number) {
    constexpr auto most = 64;
    auto& [numbers, members] = awaited_[communicator];
    if (members.empty()) {
        for (const auto& member : evidence_.communicators()[at(communicator)].members)
            members.emplace_back(last_call(member), member.rank);
        std::ranges::sort(members);
    }
    const auto before = [&](std::int64_t call) {
        return std::ranges::lower_bound(members, call, {}, &std::pair<std::int64_t, int>::first);
    };
    const auto earlier = numbers.lower_bound(number);
    auto begin = members.begin();
    if (before(number) - begin > most && earlier != numbers.begin()) begin = before(*std::prev(earlier));
    auto ranks = std::vector<int>{};
    for (const auto end = before(number); begin != end; ++begin) ranks.push_back(begin->second);
    std::ranges::sort(ranks);
    return ranks;
}

/// Returns the last call to which a member has come. A device first runs earlier enqueued calls.
std::int64_t Standing::last_call(const Member& member) const {
    if (!member.record) return -1;
    const auto* doing = evidence_.whereabouts(member.rank).entry;
    auto last = member.last;
    for (auto entry = member.collectives.rbegin(); doing && entry != member.collectives.rend(); ++entry) {
        const auto& one = **entry;
        if (one.state != RecordedState::scheduled || !Evidence::is_device(one) ||
            (doing->group == one.group && doing->number == one.number))
            break;
        last = std::min(last, one.number - 1);
    }
    return last;
}

std::vector<int> concerned(const Evidence& evidence, const Standing& standing, const std::vector<int>& ranks,
                           bool alike) {
    auto communicators = std::set<const Communicator*>{};
    auto kinds = std::set<std::string>{};
    for (const auto rank : ranks) {
        const auto& communicator = evidence.communicator_of(standing.entry(rank));
        communicators.insert(&communicator);
        if (alike && !communicator.kind.empty()) kinds.insert(communicator.kind);
    }
    auto all = std::set<int>{};
    for (const auto& other : evidence.communicators())
        if (communicators.contains(&other) || kinds.contains(other.kind))
            all.insert(other.ranks.begin(), other.ranks.end());
    return {all.begin(), all.end()};
}

std::string waits_text(const Evidence& evidence, const Standing::Waiting& waiting) {
    return cat(evidence.places().ranks(waiting.ranks), waiting.ranks.size() == 1 ? " waits in " : " wait in ",
               evidence.text(*waiting.entry), ", for ", evidence.places().ranks(waiting.missing));
}

}  // namespace rankmesh::detail::explaining
