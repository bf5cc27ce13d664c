// SPDX-License-Identifier: Apache-2.0
// How a process enters a running job.
#pragma once

#include <optional>
#include <string>

#include "engine/membership/next_world.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Waits, in a process that enters a running job, until a world of the store's job grows and lets it in.
/// `place` is the place that it wishes, nothing for any. Throws Timeout after `timeout`.
NextWorld enter(Store& store, std::optional<int> place, const std::string& about, Duration timeout);

}  // namespace rankmesh::detail
