// SPDX-License-Identifier: Apache-2.0
// What one rank does in a call: which buffers it uses, and the ranks at the other ends of its messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

/// True if a rank is one of the `users` of a buffer of the call.
inline bool is_one_of(Users users, const Call& call, int group_rank) {
    if (users == Users::root) return call.argument == group_rank;
    if (users == Users::others) return call.argument != group_rank;
    return users == Users::all;
}
inline bool reads(const Call& call, int group_rank) {
    return is_one_of(traits(call.operation).reads, call, group_rank);
}
inline bool writes(const Call& call, int group_rank) {
    return is_one_of(traits(call.operation).writes, call, group_rank);
}

/// The length of the buffer that every rank has; all have the same one unless there are counts.
constexpr std::size_t common_length(const Call& call) {
    return traits(call.operation).reads == Users::all ? call.in_count : call.out_count;
}

/// The elements of dtype that a rank gives to a group rank in an operation with counts.
inline std::size_t given_to(const Call& call, int group_rank) {
    switch (call.operation) {
        case Operation::all_gather_v:
            return call.in_count;
        case Operation::gather_v:
            return group_rank == call.argument ? call.in_count : 0;
        default:  // all_to_all_v, scatter_v
            return call.in_counts ? call.in_counts[group_rank] * call.unit : 0;
    }
}
/// The elements of dtype that a rank expects from a group rank in an operation with counts.
inline std::size_t expected_from(const Call& call, int group_rank) {
    if (call.operation == Operation::scatter_v) return group_rank == call.argument ? call.out_count : 0;
    return call.out_counts ? call.out_counts[group_rank] * call.unit : 0;
}

/// True if input and output are one buffer, or the shorter one is this rank's part of the longer one.
inline bool is_in_place(const Call& call, int group_rank) {
    const auto& operation = traits(call.operation);
    if (operation.in_place != InPlace::own_part)
        return operation.in_place == InPlace::same && call.in == call.out;
    const auto* in = static_cast<const char*>(call.in);
    const auto* out = static_cast<const char*>(call.out);
    const auto r = static_cast<std::size_t>(group_rank);
    return operation.out_parts ? in == out + r * call.in_bytes() : out == in + r * call.out_bytes();
}

/// The group rank that is `by` ranks above `rank` in a shift; -1 past an open edge.
inline int shifted(int rank, std::int64_t by, int size, Edge edge) {
    const auto at = rank + by;
    if (edge == Edge::wrap) return static_cast<int>((at % size + size) % size);
    return at < 0 || at >= size ? -1 : static_cast<int>(at);
}

/// The group ranks that a rank sends to and receives from; -1: none.
struct Peers {
    int to = -1;
    int from = -1;  ///< or any_source
};
/// The peers of a rank in a message or a shift.
inline Peers peers_of(const Call& call, int group_rank, int size) {
    switch (call.operation) {
        case Operation::send:
            return {.to = call.argument};
        case Operation::recv:
        case Operation::probe:
            return {.from = call.argument};
        case Operation::shift:
            return {shifted(group_rank, call.argument, size, call.edge),
                    shifted(group_rank, -std::int64_t{call.argument}, size, call.edge)};
        default:  // send_recv
            return {call.argument, call.source};
    }
}

}  // namespace rankmesh::detail
