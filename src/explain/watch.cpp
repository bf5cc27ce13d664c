// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/explain/watch.hpp>

#include <time.h>

#include <algorithm>
#include <optional>

#include "explain/evidence.hpp"

namespace rankmesh {

using detail::cat;
using detail::explaining::Evidence;
using detail::explaining::few;
using detail::explaining::time_text;

namespace {

constexpr std::size_t most_blamed = 4;
constexpr auto tick_ns = std::int64_t{20'000'000};  // by which records differ in the time of one call

/// Returns the ranks that wait: those that made a call too many, or the group without those to blame, unless
/// all are.
std::vector<int> waiting(const Finding& finding) {
    if (finding.kind == Finding::Kind::extra) return finding.ranks;
    auto ranks = finding.group;
    std::erase_if(ranks, [&](int rank) { return std::ranges::binary_search(finding.ranks, rank); });
    return ranks.empty() ? finding.group : ranks;
}

/// Two findings are of one stop if they blame the same ranks, or nobody in the same group.
bool is_same(const Finding& a, const Finding& b) {
    return a.ranks == b.ranks && (!a.ranks.empty() || a.group == b.group);
}

std::int64_t last_time(const FlightRecord& record) {
    auto last = std::int64_t{0};
    for (const auto& entry : record.entries) last = std::max({last, entry.created_ns, entry.completed_ns});
    return last;
}

/// Returns the first time after another in the records of these ranks.
std::optional<std::int64_t> first_after(const std::vector<FlightRecord>& records,
                                        const std::vector<int>& ranks, std::int64_t after) {
    auto first = std::optional<std::int64_t>{};
    for (const auto& record : records) {
        if (std::ranges::find(ranks, record.rank) == ranks.end()) continue;
        for (const auto& entry : record.entries)
            for (const auto time : {entry.created_ns, entry.completed_ns})
                if (time > after + tick_ns) first = std::min(first.value_or(time), time);
    }
    return first;
}

std::string clock_text(std::int64_t ns) {
    const auto seconds = static_cast<time_t>(ns / 1'000'000'000);
    auto parts = tm{};
    localtime_r(&seconds, &parts);
    char text[16] = {};
    strftime(text, sizeof text, "%H:%M:%S", &parts);
    return text;
}

/// Returns how to see what the first rank to blame does.
std::string stack_of(const std::vector<FlightRecord>& records, const std::vector<int>& ranks) {
    if (ranks.empty()) return "";
    const auto record = std::ranges::find(records, ranks.front(), &FlightRecord::rank);
    if (record == records.end() || record->pid == 0) return "";
    const auto on = record->host.empty() ? "" : cat("ssh ", detail::excerpt(record->host), " ");
    return cat(on, "py-spy dump --pid ", record->pid);
}

}  // namespace

std::vector<WatchEvent> Watch::look(std::vector<FlightRecord> records, std::span<const UnreadFile> unread) {
    ++look_;
    ++silent_;
    for (auto rest = std::span(records); !rest.empty();) {
        const auto of_rank =
            static_cast<std::size_t>(std::ranges::count(rest, rest.front().rank, &FlightRecord::rank));
        note(rest.first(of_rank));
        rest = rest.subspan(of_rank);
    }
    auto events = std::vector<WatchEvent>{};
    end_stops(records, events);
    if (has_failed_) return events;  // records of ranks that failed stay as they are
    const auto fails = std::ranges::any_of(records, Evidence::says_wrong);
    if (!fails && std::ranges::none_of(records, &FlightRecord::is_still)) return events;
    for (auto& finding : explain(records, unread).findings) {
        const auto is_known = [&](const WatchEvent& each) { return is_same(each.finding, finding); };
        if (fails) {
            has_failed_ = true;
            events.push_back({.kind = WatchEvent::Kind::failed, .finding = std::move(finding)});
            return events;
        }
        if (!is_stopped(finding) || std::ranges::any_of(stopped_, is_known)) continue;
        stopped_.push_back({.finding = std::move(finding)});
        auto& event = stopped_.back();
        event.since_ns = since(event.finding);
        event.stack = stack_of(records, event.finding.ranks);
        events.push_back(event);
    }
    return events;
}

void Watch::note(std::span<FlightRecord> records) {
    auto& seen = seen_[records.front().rank];
    auto now = Seen{.moved = look_, .written = {}};
    for (const auto& record : records) {
        now.written_ns = std::max(now.written_ns, record.written_ns.value_or(0));
        now.id += record.entries.empty() ? -1 : record.entries.back().id;
        now.over += std::ranges::count_if(record.entries, Evidence::is_over);
        now.last_ns = std::max(now.last_ns, last_time(record));
    }
    if (now.written_ns != seen.written_ns) {
        silent_ = 0;
        if (seen.moved == 0 || now.id != seen.id || now.over != seen.over) {
            seen = now;
        } else {
            seen.written_ns = now.written_ns;
            seen.written.push_back(look_);
            if (std::ssize(seen.written) > records_) seen.written.erase(seen.written.begin());
        }
    }
    for (auto& record : records) record.is_still = std::ssize(seen.written) == records_;
}

bool Watch::is_stopped(const Finding& finding) const {
    if (finding.kind >= Finding::Kind::failed) return false;
    const auto moved = std::max(last_moved(finding.group), last_moved(finding.ranks));
    return std::ranges::any_of(waiting(finding), [&](int rank) {
        const auto seen = seen_.find(rank);
        return seen != seen_.end() && std::ssize(seen->second.written) == records_ &&
               seen->second.written.front() > moved;
    });
}

int Watch::last_moved(const std::vector<int>& ranks) const {
    auto last = 0;
    for (const auto rank : ranks)
        if (const auto seen = seen_.find(rank); seen != seen_.end())
            last = std::max(last, seen->second.moved);
    return last;
}

std::int64_t Watch::since(const Finding& finding) const {
    auto last = std::int64_t{0};
    for (const auto rank : finding.group)
        if (const auto seen = seen_.find(rank); seen != seen_.end())
            last = std::max(last, seen->second.last_ns);
    return last;
}

void Watch::end_stops(const std::vector<FlightRecord>& records, std::vector<WatchEvent>& events) {
    std::erase_if(stopped_, [&](WatchEvent& event) {
        const auto ranks = waiting(event.finding);
        if (last_moved(ranks) < look_) return false;
        event.kind = WatchEvent::Kind::goes_on;
        for (const auto& record : records)
            if (Evidence::says_wrong(record) && std::ranges::count(ranks, record.rank) > 0)
                return true;  // it failed, which another event says
        // A recorder that notes no ends of calls has the next call of a rank that was waited for.
        event.until_ns =
            first_after(records, ranks, event.since_ns)
                .value_or(first_after(records, event.finding.ranks, event.since_ns).value_or(event.since_ns));
        events.push_back(std::move(event));
        return true;
    });
}

std::string_view to_string(WatchEvent::Kind kind) {
    constexpr std::string_view names[] = {"stopped", "goes_on", "failed"};
    return names[static_cast<std::size_t>(kind)];
}

std::string to_string(const WatchEvent& event) {
    const auto& finding = event.finding;
    if (event.kind == WatchEvent::Kind::failed) return cat("failed: ", finding.text);
    if (event.kind == WatchEvent::Kind::stopped)
        return cat("stopped since ", clock_text(event.since_ns), ": ", finding.text,
                   event.stack.empty() ? "" : cat("; to see its stack, run ", event.stack));
    auto who = std::string{};
    for (std::size_t i = 0; i < finding.ranks.size() && i < most_blamed; ++i) {
        const auto& place = finding.coordinates[i];
        detail::append(who, cat(i == 0 ? " for rank " : ", ", finding.ranks[i],
                                place.empty() ? "" : cat(" (", place, ")")));
    }
    return cat("goes on since ", clock_text(event.until_ns), ", after ",
               time_text(static_cast<double>(event.until_ns - event.since_ns) / 1e9), ": call ", finding.call,
               " on ", finding.communicator, " ", few(finding.group), ", which waited", who);
}

}  // namespace rankmesh
