// SPDX-License-Identifier: Apache-2.0
// What the members of a group must agree on in one call.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/explain/record.hpp>

namespace rankmesh::detail::explaining {

/// The parts of a call that must be the same on all members; empty where an operation has none, or where a
/// record does not say it.
struct Agreement {
    std::string operation;
    std::string dtype;
    std::string count;  ///< elements of each buffer that must match, in and out
    std::string reduction;
    std::string argument;  ///< the root, or the distance of a shift
    bool has_open_edges = false;
    friend auto operator<=>(const Agreement&, const Agreement&) = default;
};

Agreement agreement_of(const RecordedOperation& call);

/// True if its call can end on a member before all others have made it: it has a root.
bool ends_early(const RecordedOperation& call);

/// What differs between two of them: `the operation`, `the number of elements`.
std::vector<std::string> differences(const Agreement& a, const Agreement& b);

/// `all_reduce of 4 f32 by sum`, as errors of the engines call it.
std::string words_of(const RecordedOperation& call);

/// The elements that a message has at the end of `call`: of a send those that it sends.
std::int64_t elements_sent(const RecordedOperation& call);
std::int64_t elements_received(const RecordedOperation& call);

}  // namespace rankmesh::detail::explaining
