// SPDX-License-Identifier: Apache-2.0
// What Megatron's checks say of two partitions of the same ranks.
#pragma once

#include <string>

#include <rankmesh/core/group.hpp>

namespace rankmesh::megatron {

/// True if both have the same groups in the same order.
inline bool same_groups(const Partition& a, const Partition& b) {
    const auto firsts = [](const Partition& groups) { return Group(groups[0].front(), groups.across()); };
    return a[0] == b[0] && firsts(a) == firsts(b);
}

/// The groups as the original's messages write them, `[[0, 1], [2, 3]]`, the first few of many.
inline std::string listed(const Partition& groups) {
    constexpr auto most = 64;
    auto text = std::string("[");
    auto shown = 0;
    for (const auto& group : groups) {
        if (shown > 0) text += ", ";
        if (shown > most) return text + "...]";
        text += '[';
        for (auto rank : group) {
            if (rank != group.front()) text += ", ";
            if (shown++ > most) {
                text += "...";
                break;
            }
            text += std::to_string(rank);
        }
        text += ']';
    }
    return text + "]";
}

}  // namespace rankmesh::megatron
