// SPDX-License-Identifier: Apache-2.0
// In which entries ranks say where their peers reach them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/exchange.hpp"

namespace rankmesh::detail {

/// Groups of up to so many ranks share an entry.
inline constexpr int largest_sharing = 16;
/// In larger ones the addresses for so many peers are an entry: a rank that reads it reads few that are not
/// for it, however large the group is.
inline constexpr int peers_of_an_entry = 8;

/// Which of a rank's entries holds the address for `peer`, a group rank: "" is the one that small groups
/// share.
inline std::string address_entry(const ChannelRequest& request, int peer) {
    if (request.label->ranks.size() <= largest_sharing) return {};
    return cat(".", request.item, ".", peer / peers_of_an_entry);
}

/// How many entries a rank writes for these groups, and how many addresses it reads to find its own.
struct AddressCounts {
    std::int64_t written = 0;
    std::int64_t addresses = 0;
    std::int64_t read = 0;  // where its peers have groups of the same sizes
};
inline AddressCounts address_counts(std::span<const ChannelRequest> requests) {
    auto counts = AddressCounts{};
    auto small = std::int64_t{0};  // addresses in the shared entry
    for (const auto& request : requests) {
        const auto size = request.label->ranks.size();
        counts.addresses += size - 1;
        if (size <= largest_sharing)
            small += size - 1;
        else
            counts.written += (size + peers_of_an_entry - 1) / peers_of_an_entry;
    }
    if (small > 0) ++counts.written;
    for (const auto& request : requests) {
        const auto size = request.label->ranks.size();
        counts.read += (size - 1) * (size <= largest_sharing ? small : peers_of_an_entry);
    }
    return counts;
}

}  // namespace rankmesh::detail
