// SPDX-License-Identifier: Apache-2.0
// The properties of each operation, in one table.
#pragma once

#include <cstddef>

#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

struct Traits {
    bool rooted = false;    ///< one rank of the group is the root
    bool counts = false;    ///< the length between two ranks is given by counts on both
    bool in_place = false;  ///< may read and write one buffer
    /// The length that must be the same on all ranks.
    enum class Length { none, in, out } length = Length::in;
};

constexpr Traits traits(Operation operation) {
    using enum Operation;
    switch (operation) {
        case all_reduce:
        case scan:
        case all_to_all:
        case shift:
            return {.in_place = true};
        case reduce:
            return {.rooted = true, .in_place = true};
        case broadcast:
        case gather:
            return {.rooted = true};
        case scatter:
            return {.rooted = true, .length = Traits::Length::out};
        case all_gather_v:
        case all_to_all_v:
            return {.counts = true, .length = Traits::Length::none};
        case reduce_scatter:
        case all_gather:
        case barrier:
        case monitored_barrier:
        case send:
        case recv:
        case send_recv:
            break;
    }
    return {};
}

/// The length that must be the same on all ranks, or 0.
constexpr std::size_t common_length(const Call& call) {
    const auto length = traits(call.operation).length;
    if (length == Traits::Length::none) return 0;
    return length == Traits::Length::out ? call.out_count : call.in_count;
}

}  // namespace rankmesh::detail
