// SPDX-License-Identifier: Apache-2.0
// The slots of messages that rankmesh sends over Gloo's connections.
#pragma once

#include <cstdint>

namespace rankmesh::detail {

/// What a message belongs to: the top byte of its slot. None of Gloo's collectives uses these.
enum class SlotKind : std::uint8_t {
    monitor = 0x40,
    message,
    shift,
    scan,
    fan_in,
    all_gather,
    exclusive_scan,
    parts_of_root
};

/// The first slot of a collective that is call number `tag` of its channel. It has 256 slots.
constexpr std::uint64_t first_slot(SlotKind kind, std::uint32_t tag = 0) {
    return (std::uint64_t{static_cast<std::uint8_t>(kind)} << 56) + (std::uint64_t{tag} << 8);
}

}  // namespace rankmesh::detail
