// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "engine/membership/grown_world.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Waits, in a process that enters a running job, until a world of the store's job grows and lets it in.
/// `place` is the place that it wishes, nothing for any. Throws Timeout after `timeout`.
GrownWorld enter(Store& store, std::optional<int> place, const std::string& about, Duration timeout);

}  // namespace rankmesh::detail
