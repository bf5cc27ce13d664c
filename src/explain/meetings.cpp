// SPDX-License-Identifier: Apache-2.0
#include "explain/meetings.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>

namespace rankmesh::detail::explaining {
namespace {

/// When a rank entered and left a call, in nanoseconds of its clock.
struct Times {
    std::int64_t entered = 0;
    std::int64_t left = 0;  // 0: with the last rank, since the recorder of PyTorch's Gloo notes no ends
};

std::optional<Times> times_of(const FlightRecord& record, const RecordedEntry& entry) {
    if (entry.state != RecordedState::completed || entry.created_ns <= 0) return {};
    if (entry.is_end_assumed)
        return entry.call->backend == "gloo" ? std::optional(Times{entry.created_ns}) : std::nullopt;
    if (entry.completed_ns < entry.created_ns) return {};
    if (entry.duration_ns > 0) return Times{entry.completed_ns - entry.duration_ns, entry.completed_ns};
    // A program enqueues calls long before its device begins them.
    if (record.is_torch && Evidence::is_device(entry)) return {};
    return Times{entry.created_ns, entry.completed_ns};
}

/// The longest time until a process notices the end of a call on its device: PyTorch's watchdog looks each
/// 0.1 s.
constexpr auto noticed_ns = std::int64_t{100'000'000};

using AllTimes = std::unordered_map<const RecordedEntry*, Times>;

/// Adds for each call of a record the seconds since its rank called or left something before.
void add_computed(const FlightRecord& record, const AllTimes& times,
                  std::unordered_map<const RecordedEntry*, double>& computed) {
    auto calls = std::vector<std::pair<Times, const RecordedEntry*>>{};
    for (const auto& entry : record.entries)
        if (const auto found = times.find(&entry); found != times.end())
            calls.emplace_back(found->second, &entry);
    std::ranges::sort(calls, {}, [](const auto& call) { return call.first.entered; });
    auto ends = std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>>{};
    auto before = std::int64_t{0};
    for (const auto& [call, entry] : calls) {
        for (; !ends.empty() && ends.top() <= call.entered; ends.pop()) before = std::max(before, ends.top());
        if (before > 0)
            computed[entry] = 1e-9 * static_cast<double>(std::max(call.entered - before, -noticed_ns));
        // A device makes one call after another, though the process may notice an end after the next begin.
        before = std::max(before, entry->duration_ns > 0 ? call.left : call.entered);
        ends.push(call.left);
    }
}

/// Devices leave a call together, and each process notices it later. Returns false if no device measured the
/// call.
bool align_measured(Meeting& meeting, AllTimes& times) {
    auto together = std::numeric_limits<double>::max();
    for (const auto& visit : meeting.visits) {
        if (visit.entry->duration_ns == 0) return false;
        together = std::min(together, visit.left);
    }
    for (auto& visit : meeting.visits) {
        const auto later = visit.left - together;
        auto& [entered, left] = times.at(visit.entry);
        visit.entered -= later;
        visit.left -= later;
        entered -= static_cast<std::int64_t>(later * 1e9);
        left -= static_cast<std::int64_t>(later * 1e9);
    }
    return true;
}

/// Returns true if all members are on one host, whose clock they share.
bool share_clock(const Communicator& communicator) {
    return std::ranges::all_of(communicator.members, [&](const Member& member) {
        const auto* first = communicator.members.front().record;
        return member.record && !member.record->host.empty() && member.record->host == first->host;
    });
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
    auto times = AllTimes{};
    auto origin = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, record] : evidence.records())
        for (const auto& entry : record->entries)
            if (const auto known = times_of(*record, entry)) {
                times.emplace(&entry, *known);
                origin = std::min(origin, known->entered);
            }
    for (const auto& communicator : evidence.communicators()) {
        auto numbers = std::map<std::int64_t, Meeting>{};
        for (const auto& member : communicator.members)
            for (const auto* entry : member.collectives)
                if (times.contains(entry))
                    numbers[entry->number].visits.push_back({.rank = member.rank, .entry = entry});
        const auto may_assume_ends = share_clock(communicator);
        for (auto& [number, meeting] : numbers) {
            if (meeting.visits.size() < 2 || meeting.visits.size() < communicator.members.size()) continue;
            auto last = std::int64_t{0};
            auto has_ends = true;
            for (const auto& visit : meeting.visits) {
                last = std::max(last, times.at(visit.entry).entered);
                has_ends = has_ends && times.at(visit.entry).left > 0;
            }
            if (!has_ends && !may_assume_ends) continue;
            for (auto& visit : meeting.visits) {
                auto& [entered, left] = times.at(visit.entry);
                if (!has_ends) left = last;
                visit.entered = 1e-9 * static_cast<double>(entered - origin);
                visit.left = 1e-9 * static_cast<double>(left - origin);
            }
            meeting.communicator = &communicator;
            meeting.number = number;
            all.push_back(std::move(meeting));
        }
    }
    align_clocks(evidence);
    for (auto& meeting : all)
        if (align_measured(meeting, times)) noticed = 1e-9 * static_cast<double>(noticed_ns);
    auto computed = std::unordered_map<const RecordedEntry*, double>{};
    for (const auto& [rank, record] : evidence.records()) add_computed(*record, times, computed);
    for (auto& meeting : all) {
        for (auto& visit : meeting.visits)
            if (const auto found = computed.find(visit.entry); found != computed.end())
                visit.computed = found->second;
        std::ranges::sort(meeting.visits, {}, &Visit::entered);
    }
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
