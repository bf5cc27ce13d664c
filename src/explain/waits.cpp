// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <rankmesh/explain/order.hpp>

#include "explain/agreement.hpp"
#include "explain/findings.hpp"

namespace rankmesh::detail::explaining {

namespace {

/// Returns where the lists of calls of ranks that wait for one another first differ, if most ranks agree.
std::optional<ListDifference> difference_of(const Evidence& evidence, const Standing& standing,
                                            const std::vector<int>& ranks) {
    const auto all = concerned(evidence, standing, ranks);
    for (const auto peers : {false, true})
        if (auto difference = first_difference(evidence, all, peers)) return difference;
    // Two ranks cannot outvote each other, but groups along the same axes may agree with one of them.
    auto difference = first_difference(evidence, concerned(evidence, standing, ranks, true));
    if (difference && std::ranges::includes(all, difference->ranks)) return difference;
    return std::nullopt;
}

Finding cycle_finding(const Evidence& evidence, const Standing& standing, const std::vector<int>& ranks) {
    auto deadlock = Deadlock{};
    deadlock.is_cycle = true;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const auto& entry = standing.entry(ranks[i]);
        const auto& communicator = evidence.communicator_of(entry);
        deadlock.chain.push_back({.rank = ranks[i],
                                  .operation = excerpt(words_of(*entry.call)),
                                  .communicator = communicator.label,
                                  .group = communicator.ranks,
                                  .is_group_inferred = communicator.is_inferred,
                                  .number = entry.number,
                                  .is_message = entry.is_message,
                                  .waits_for = ranks[(i + 1) % ranks.size()]});
    }
    const auto& entry = standing.entry(ranks.front());
    auto finding = finding_on(Finding::Kind::cycle, evidence.communicator_of(entry), entry.number, ranks);
    std::ranges::sort(finding.ranks);
    finding.text = cat(ranks.size(), " ranks wait for one another: ", text_of(deadlock, evidence.places()));
    if (const auto difference = difference_of(evidence, standing, ranks)) {
        finding.ranks = difference->ranks;
        finding.details.push_back(std::move(finding.text));
        finding.text = difference->text;
    }
    return finding;
}

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

/// Collectives that all members have made and that have not ended on all, and the ranks in them.
struct Unfinished {
    std::vector<Finding> findings;
    std::set<int> ranks;
};

Unfinished unfinished_calls(const Evidence& evidence, const Standing& standing,
                            const std::vector<Finding>& differing) {
    auto [findings, all] = Unfinished{};
    auto awaited = std::set<int>{};
    for (const auto* one : standing.waiting()) awaited.insert(one->missing.begin(), one->missing.end());
    const auto reports = std::ranges::any_of(evidence.records(), [](const auto& one) {
        return one.second->is_still || Evidence::says_wrong(*one.second);
    });
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

}  // namespace

std::vector<Finding> waits(const Evidence& evidence, const Messages& messages,
                           const std::vector<Finding>& differing) {
    auto findings = differing_messages(evidence, messages);
    const auto standing = Standing(evidence, messages);
    if (const auto cycle = standing.graph().cycle(); !cycle.empty())
        findings.push_back(cycle_finding(evidence, standing, standing.world_ranks(cycle)));
    const auto unfinished = unfinished_calls(evidence, standing, differing);
    findings.insert(findings.end(), unfinished.findings.begin(), unfinished.findings.end());
    const auto awaited = awaited_ranks(evidence, standing, unfinished.ranks);
    findings.insert(findings.end(), awaited.begin(), awaited.end());
    return findings;
}

}  // namespace rankmesh::detail::explaining
