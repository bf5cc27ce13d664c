// SPDX-License-Identifier: Apache-2.0
// What idle communicators hold is released, brought back, and counted.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <rankmesh/engine/usage.hpp>

#include "engine/join/join.hpp"

namespace rankmesh::detail {

/// Throws UsageError if calls are pending on a connection that is not suspended; changes nothing.
void check_idle(std::span<Joining::Connection* const> connections);
/// Releases what a connection holds, once all its ranks have called this. Does nothing if it is suspended.
void suspend(Joining& joining, Joining::Connection& connection);
/// Connects its ranks again. Does nothing if it is not suspended.
void resume(Joining& joining, Joining::Connection& connection);
/// Counts what the connections hold now.
Usage usage_of(std::span<Joining::Connection* const> connections);

}  // namespace rankmesh::detail
