// SPDX-License-Identifier: Apache-2.0
// The entries by which a world and the processes that wait to enter it agree.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include <rankmesh/core/text.hpp>

#include "engine/store/store.hpp"

namespace rankmesh::detail::grow_entries {

/// The longest time that a process which waits to enter has to confirm that it is there.
inline constexpr auto longest_patience = std::chrono::seconds(2);

/// What a candidate says of itself: secret, place that it wishes, about.
inline std::string slot_key(int slot) { return cat("candidate.", slot); }
/// Offers the candidate of that secret a round of a world's growth.
inline std::string offer_key(const std::string& secret) { return cat("offer.", secret); }
/// The confirmation, in a round, of a rank or of the candidate of a secret.
inline std::string yes_key(const std::string& scope, int round, const std::string& who) {
    return cat(scope, "yes.", round, ".", who);
}

/// Pauses as a rank does that waits since `begin`.
inline void pause(const Store& store, Store::Instant begin) {
    pause_between_polls(
        begin, std::max<std::chrono::nanoseconds>(store.longest_pause(), std::chrono::milliseconds(5)));
}

}  // namespace rankmesh::detail::grow_entries
