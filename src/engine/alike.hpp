// SPDX-License-Identifier: Apache-2.0
// What all members of a collective must give alike.
#pragma once

#include <rankmesh/engine/call.hpp>

namespace rankmesh::detail {

/// True where what goes between two members is as long as those two say.
constexpr bool has_counts(Operation operation) {
    return operation == Operation::all_gather_v || operation == Operation::all_to_all_v;
}

/// The length that all members must give alike, or 0.
constexpr std::size_t common_length(const Call& call) {
    if (has_counts(call.operation)) return 0;
    return call.operation == Operation::scatter ? call.out_count : call.in_count;
}

}  // namespace rankmesh::detail
