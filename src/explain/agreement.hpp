// SPDX-License-Identifier: Apache-2.0
// The parts of a call on which the members of a group must agree.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/explain/record.hpp>

namespace rankmesh::detail::explaining {

/// The parts of a call that must be equal on all members. A part is empty if the operation does not have it
/// or a record does not contain it.
struct Agreement {
    std::string operation;
    std::string dtype = {};
    std::string count = {};  ///< elements of each input and output buffer that must match
    std::string reduction = {};
    std::string argument = {};  ///< the root, or the distance of a shift
    bool has_open_edges = false;
    friend auto operator<=>(const Agreement&, const Agreement&) = default;
};

Agreement agreement_of(const RecordedOperation& call);

/// Returns true if the call can end on a member before all others have made it, because it has a root.
bool ends_early(const RecordedOperation& call);

/// Returns the parts that differ: `the operation`, `the number of elements`.
std::vector<std::string> differences(const Agreement& a, const Agreement& b);

/// True for a recv or probe of rankmesh from any rank; once it is complete its record names the sender.
bool is_from_any(const RecordedOperation& call);
/// Returns the call as text, like errors of the engines: `all_reduce of 4 f32 by sum`.
std::string words_of(const RecordedOperation& call);

/// Returns the number of elements of a message at this end; for a send, those that it sends.
std::int64_t elements_sent(const RecordedOperation& call);
std::int64_t elements_received(const RecordedOperation& call);

}  // namespace rankmesh::detail::explaining
