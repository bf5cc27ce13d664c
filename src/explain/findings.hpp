// SPDX-License-Identifier: Apache-2.0
// The kinds of problems that `explain` finds; each is in its own file.
#pragma once

#include <set>
#include <span>
#include <vector>

#include <rankmesh/explain/explain.hpp>

#include "explain/evidence.hpp"
#include "explain/messages.hpp"
#include "explain/standing.hpp"

namespace rankmesh::detail::explaining {

/// Returns the mesh of the records with the most ranks.
Places places_of(std::span<const FlightRecord> records);

/// Finds members of a communicator that made another call than the others.
std::vector<Finding> differing_calls(const Evidence& evidence);

/// Finds ranks that wait for one another, or for ranks that do not arrive. `differing` is the result of the
/// above.
std::vector<Finding> waits(const Evidence& evidence, const Messages& messages,
                           const std::vector<Finding>& differing);

/// Finds the ranks for which others wait and that do not wait themselves.
std::vector<Finding> awaited_ranks(const Evidence& evidence, const Standing& standing,
                                   const std::set<int>& unfinished);

/// Finds lists of calls that deadlock without buffering.
std::vector<Finding> blocking_orders(const Evidence& evidence, const Messages& messages);

/// Returns why records without findings do not prove that nothing is wrong; empty: they do.
std::vector<std::string> doubts(const Evidence& evidence, const Messages& messages);

/// Where the lists of these ranks first differ, over all communicators: a sentence, and the ranks in the
/// minority. With `peers`, send_recv calls with other neighbours differ.
struct ListDifference {
    std::string text;
    std::vector<int> ranks;
};
std::optional<ListDifference> first_difference(const Evidence& evidence, const std::vector<int>& ranks,
                                               bool peers = false);

/// Sets the coordinates and hosts of a finding's ranks.
template <class Found>
void set_places(const Evidence& evidence, Found& finding) {
    for (const auto rank : finding.ranks) {
        const auto place = evidence.places().coord(rank);
        finding.coordinates.push_back(place ? to_string(*place) : std::string{});
        const auto* record = evidence.record(rank);
        finding.hosts.push_back(record ? record->host : "");
    }
}

/// Makes a finding about a communicator.
inline Finding finding_on(Finding::Kind kind, const Communicator& communicator, std::int64_t call,
                          std::vector<int> ranks) {
    return {.kind = kind,
            .ranks = std::move(ranks),
            .communicator = communicator.label,
            .axes = communicator.axes,
            .group = communicator.ranks,
            .is_group_inferred = communicator.is_inferred,
            .call = call};
}

}  // namespace rankmesh::detail::explaining
