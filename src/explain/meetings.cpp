// SPDX-License-Identifier: Apache-2.0
#include "explain/meetings.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>

namespace rankmesh::detail::explaining {
namespace {

/// Returns true for a call whose times say when its rank entered and left it.
bool is_timed(const RecordedEntry& entry) {
    return entry.state == RecordedState::completed && entry.blocking && !entry.is_end_assumed &&
           entry.created_ns > 0 && entry.completed_ns >= entry.created_ns;
}

/// Returns for each call of a record the seconds since its rank left the call before.
std::unordered_map<const RecordedEntry*, double> computed_before(const FlightRecord& record) {
    auto entries = std::vector<const RecordedEntry*>{};
    for (const auto& entry : record.entries)
        if (is_timed(entry)) entries.push_back(&entry);
    std::ranges::sort(entries, {}, &RecordedEntry::created_ns);
    auto computed = std::unordered_map<const RecordedEntry*, double>{};
    auto left = std::int64_t{0};
    for (const auto* entry : entries) {
        if (left > 0)
            computed[entry] = 1e-9 * static_cast<double>(std::max<std::int64_t>(entry->created_ns - left, 0));
        left = std::max(left, entry->completed_ns);
    }
    return computed;
}

}  // namespace

double middle(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::ranges::nth_element(values, at);
    return *at;
}

double Meeting::transfer() const {
    auto least = std::numeric_limits<double>::max();
    for (const auto& visit : visits) least = std::min(least, visit.left - visit.entered);
    return least;
}

Meetings::Meetings(const Evidence& evidence) {
    auto computed = std::map<const FlightRecord*, std::unordered_map<const RecordedEntry*, double>>{};
    auto origin = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, record] : evidence.records()) {
        computed[record] = computed_before(*record);
        for (const auto& entry : record->entries)
            if (is_timed(entry)) origin = std::min(origin, entry.created_ns);
    }
    for (const auto& communicator : evidence.communicators()) {
        auto numbers = std::map<std::int64_t, Meeting>{};
        for (const auto& member : communicator.members)
            for (const auto* entry : member.collectives) {
                if (!is_timed(*entry)) continue;
                auto visit = Visit{.rank = member.rank,
                                   .entered = 1e-9 * static_cast<double>(entry->created_ns - origin),
                                   .left = 1e-9 * static_cast<double>(entry->completed_ns - origin)};
                const auto& known = computed[member.record];
                if (const auto found = known.find(entry); found != known.end())
                    visit.computed = found->second;
                numbers[entry->number].visits.push_back(visit);
            }
        for (auto& [number, meeting] : numbers) {
            if (meeting.visits.size() < 2 || meeting.visits.size() < communicator.members.size()) continue;
            meeting.communicator = &communicator;
            meeting.number = number;
            all.push_back(std::move(meeting));
        }
    }
    align_clocks(evidence);
    for (auto& meeting : all) std::ranges::sort(meeting.visits, {}, &Visit::entered);
}

/// Hosts that leave calls together have one time then: each host is aligned with one that is aligned already.
void Meetings::align_clocks(const Evidence& evidence) {
    const auto clock_of = [&](int rank) {
        const auto* record = evidence.record(rank);
        return record->host.empty() ? cat("rank ", rank) : record->host;
    };
    auto between = std::map<std::string, std::map<std::string, std::vector<double>>>{};
    for (const auto& meeting : all) {
        auto left_of = std::map<std::string, double>{};
        for (const auto& visit : meeting.visits) left_of.try_emplace(clock_of(visit.rank), visit.left);
        const auto& [first, left] =
            *left_of.begin();  // all are compared with one: pairs grow with the square
        for (const auto& [other, left_there] : left_of) {
            if (other == first) continue;
            between[first][other].push_back(left_there - left);
            between[other][first].push_back(left - left_there);
        }
    }
    auto ahead = std::map<std::string, double>{};
    auto errors = std::vector<double>{};
    for (const auto& [start, unused] : between) {
        if (!ahead.try_emplace(start, 0).second) continue;
        for (auto waiting = std::queue<std::string>({start}); !waiting.empty(); waiting.pop())
            for (const auto& [other, differences] : between[waiting.front()]) {
                const auto difference = middle(differences);
                for (const auto each : differences) errors.push_back(std::abs(each - difference));
                if (ahead.try_emplace(other, ahead[waiting.front()] + difference).second) waiting.push(other);
            }
    }
    clock_error = middle(errors);
    for (auto& meeting : all)
        for (auto& visit : meeting.visits)
            if (const auto found = ahead.find(clock_of(visit.rank)); found != ahead.end()) {
                visit.entered -= found->second;
                visit.left -= found->second;
            }
}

std::map<std::pair<std::string, std::int64_t>, std::vector<const Meeting*>> Meetings::alike() const {
    auto alike = std::map<std::pair<std::string, std::int64_t>, std::vector<const Meeting*>>{};
    for (const auto& meeting : all) {
        const auto& communicator = *meeting.communicator;
        const auto& kind = communicator.kind.empty() ? communicator.text : communicator.kind;
        alike[{kind, meeting.number}].push_back(&meeting);
    }
    return alike;
}

}  // namespace rankmesh::detail::explaining
