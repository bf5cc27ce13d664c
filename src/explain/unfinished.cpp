// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "explain/agreement.hpp"
#include "explain/findings.hpp"

namespace rankmesh::detail::explaining {

namespace {

/// Returns true if the records of these ranks would contain the end of their current call.
bool note_ends(const Evidence& evidence, const std::vector<int>& ranks) {
    return std::ranges::all_of(ranks, [&](int rank) {
        const auto& record = *evidence.record(rank);
        return record.is_torch && !Evidence::notes_ends_late(record, *evidence.whereabouts(rank).entry);
    });
}

/// Returns true if a rank has made further calls since its current call.
bool has_called_more(const Evidence& evidence, int rank) {
    const auto& entries = evidence.record(rank)->entries;
    const auto& entry = *evidence.whereabouts(rank).entry;
    return !entries.empty() && (entries.back().group != entry.group || entries.back().number != entry.number);
}

/// Adds details to a call that all members have made: no program is to blame, and where to look.
void say_that_none_ends(const Evidence& evidence, const RecordedEntry& entry, Finding& finding) {
    const auto is_known = !Evidence::is_unrecorded(entry);
    finding.text = cat("all members have come to ", evidence.text(entry), ", and none has finished it",
                       !is_known ? ""
                       : ends_early(*entry.call) && !entry.call->argument
                           ? ": their calls agree, but for the root, which records do not have"
                           : ": their calls agree, so the program is not to blame");
    if (is_known && !Evidence::is_device(entry)) {
        finding.details.emplace_back("look at the network between the hosts");
        return;
    }
    finding.details.emplace_back(
        "look at the network between the hosts, at the devices (Xid errors in the kernel's log, clocks, "
        "kernels that do not end), and at what ranks log with NCCL_DEBUG=INFO");
    finding.details.emplace_back(
        "records of a job that still runs can look the same: write them again, and see whether the number of "
        "the call has risen");
}

}  // namespace

Unfinished unfinished_calls(const Evidence& evidence, const Standing& standing,
                            const std::vector<Finding>& differing) {
    auto [findings, all] = Unfinished{};
    auto awaited = std::set<int>{};
    for (const auto* one : standing.waiting()) awaited.insert(one->missing.begin(), one->missing.end());
    const auto reports = std::ranges::any_of(
        evidence.records(), [](const auto& one) { return Evidence::says_wrong(*one.second); });
    for (const auto& [call, ranks] : standing.unfinished()) {
        const auto& communicator = evidence.communicators()[at(call.first)];
        const auto differs = std::ranges::any_of(differing, [&, number = call.second](const Finding& other) {
            return other.group == communicator.ranks && other.communicator == communicator.label &&
                   other.call == number;
        });
        if (differs) {  // differing calls do not end
            all.insert(ranks.begin(), ranks.end());
            continue;
        }
        auto over = std::vector<int>{};
        auto started = std::vector<int>{};
        auto not_started = std::vector<int>{};
        for (const auto& member : communicator.members) {
            const auto* entry = member.find(call.second);
            if (entry ? Evidence::is_over(*entry) : member.completed >= call.second)
                over.push_back(member.rank);
            else
                (entry && entry->state == RecordedState::scheduled && Evidence::is_device(*entry)
                     ? not_started
                     : started)
                    .push_back(member.rank);
        }
        const auto& entry = *evidence.whereabouts(ranks.front()).entry;
        // If the call has ended on some ranks, the records of the others may be older, unless ranks wait for
        // these.
        const auto is_needed = [&](int rank) {
            return awaited.contains(rank) || has_called_more(evidence, rank);
        };
        if (!reports &&
            !(note_ends(evidence, ranks) && (over.empty() || std::ranges::any_of(ranks, is_needed))))
            continue;
        // Another member may be missing.
        if (over.empty() && communicator.is_inferred) continue;
        auto culprits = !over.empty()                              ? ranks
                        : !started.empty() && !not_started.empty() ? not_started
                                                                   : std::vector<int>{};
        auto finding = finding_on(Finding::Kind::unfinished, communicator, call.second, culprits);
        const auto told = std::ranges::find_if(
            ranks, [&](int rank) { return evidence.record(rank)->reason == "disagreement"; });
        if (told != ranks.end()) {
            finding.kind = Finding::Kind::calls_differ;
            finding.ranks = evidence.record(*told)->differ;
            finding.text = cat("the records show no difference in ", evidence.text(entry), ", but ",
                               evidence.places().rank(*told),
                               " reports: ", error_text(evidence.record(*told)->error, 400));
            auto first = std::int64_t{0};
            for (const auto& member : communicator.members)
                if (!member.collectives.empty()) first = std::max(first, member.collectives.front()->number);
            if (first > 1)
                finding.details.push_back(
                    cat("the records begin with call ", first,
                        ": an earlier call can differ, and RANKMESH_CHECK=1 on all ranks "
                        "stops at the first one that does"));
        } else if (culprits.empty()) {
            say_that_none_ends(evidence, entry, finding);
        } else {
            finding.text =
                cat(evidence.places().ranks(culprits),
                    over.empty()           ? culprits.size() == 1 ? " has not begun " : " have not begun "
                    : culprits.size() == 1 ? " has not finished "
                                           : " have not finished ",
                    evidence.text(entry), ", which ", evidence.places().ranks(over.empty() ? started : over),
                    over.empty() ? " began" : " finished");
        }
        findings.push_back(std::move(finding));
        all.insert(ranks.begin(), ranks.end());
    }
    return {std::move(findings), std::move(all)};
}

}  // namespace rankmesh::detail::explaining
