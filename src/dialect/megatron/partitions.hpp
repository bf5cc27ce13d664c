// SPDX-License-Identifier: Apache-2.0
// What Megatron's checks say of two partitions of the same ranks.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/core/group.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::megatron {

/// True if both have the same groups in the same order.
inline bool same_groups(const Partition& a, const Partition& b) {
    const auto firsts = [](const Partition& groups) { return Group(groups[0].front(), groups.across()); };
    return a[0] == b[0] && firsts(a) == firsts(b);
}

/// The groups as the original's messages write them, `[[0, 1], [2, 3]]`, the first few of many.
inline std::string listed(const Partition& groups) {
    constexpr auto most = 64;
    auto lists = std::vector<std::string>{};
    auto shown = 0;
    for (const auto& group : groups) {
        if (shown > most) {
            lists.emplace_back("...");
            break;
        }
        auto ranks = std::vector<std::string>{};
        for (auto rank : group) {
            ranks.push_back(shown > most ? "..." : std::to_string(rank));
            if (shown++ > most) break;
        }
        lists.push_back(detail::cat("[", detail::with_commas(ranks), "]"));
    }
    return detail::cat("[", detail::with_commas(lists), "]");
}

}  // namespace rankmesh::megatron
