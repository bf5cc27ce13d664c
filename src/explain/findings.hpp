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

/// Ranks that wait for one another, or for ranks that do not come; `differing` are those above.
std::vector<Finding> waits(const Evidence& evidence, const Messages& messages,
                           const std::vector<Finding>& differing);

/// Lists that block in another order of arrival.
std::vector<Finding> blocking_orders(const Evidence& evidence, const Messages& messages);

/// Why records in which nothing is found do not show that all went well; empty: they do.
std::vector<std::string> doubts(const Evidence& evidence, const Messages& messages);

/// Where the lists of these ranks first differ, over all communicators: a sentence, and the ranks that are
/// fewer. With `peers`, calls of send_recv to and from other neighbours differ.
struct ListDifference {
    std::string text;
    std::vector<int> ranks;
};
std::optional<ListDifference> first_difference(const Evidence& evidence, const std::vector<int>& ranks,
                                               bool peers = false);

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
