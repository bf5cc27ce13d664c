// SPDX-License-Identifier: Apache-2.0
// What idle communicators hold is released, brought back, and counted.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <rankmesh/engine/usage.hpp>

#include "engine/join/join.hpp"

namespace rankmesh::detail {

/// Releases what connections hold, once all their ranks have called this. Does nothing with those that are
/// suspended. Throws UsageError, and changes nothing, if calls are pending on one.
void suspend(Joining& joining, std::span<Joining::Connection* const> connections);
/// Connects their ranks again. Does nothing with those that are not suspended.
void resume(Joining& joining, std::span<Joining::Connection* const> connections);
/// Counts what the connections hold now.
Usage usage_of(std::span<Joining::Connection* const> connections);

}  // namespace rankmesh::detail
