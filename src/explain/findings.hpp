// SPDX-License-Identifier: Apache-2.0
// What `explain` looks for, each in a file.
#pragma once

#include <vector>

#include <rankmesh/explain/explain.hpp>

#include "explain/evidence.hpp"
#include "explain/messages.hpp"

namespace rankmesh::detail::explaining {

/// Members of a communicator that called something else than the others as the same call.
std::vector<Finding> differing_calls(const Evidence& evidence);

/// Ranks that wait for one another, or for ranks that do not come.
std::vector<Finding> waits(const Evidence& evidence, const Messages& messages);

/// Lists that block in another order of arrival.
std::vector<Finding> blocking_orders(const Evidence& evidence, const Messages& messages);

/// Where the lists of these ranks first differ, over all communicators: a sentence, and the ranks that are
/// fewer.
struct ListDifference {
    std::string text;
    std::vector<int> ranks;
};
std::optional<ListDifference> first_difference(const Evidence& evidence, const std::vector<int>& ranks);

/// A finding of a kind about a communicator.
inline Finding finding_on(Finding::Kind kind, const Communicator& communicator, std::int64_t call,
                          std::vector<int> ranks) {
    return {.kind = kind,
            .ranks = std::move(ranks),
            .coordinates = {},
            .communicator = communicator.label,
            .axes = communicator.axes,
            .group = communicator.ranks,
            .call = call,
            .text = {},
            .details = {}};
}

}  // namespace rankmesh::detail::explaining
