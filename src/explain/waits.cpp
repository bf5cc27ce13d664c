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
