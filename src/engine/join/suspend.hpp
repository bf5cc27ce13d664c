// SPDX-License-Identifier: Apache-2.0
// What idle communicators hold is released, brought back, and counted.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <rankmesh/engine/usage.hpp>

#include "engine/join/join.hpp"

namespace rankmesh::detail {

/// Throws UsageError if calls on one of these that is not suspended are pending; changes nothing.
void check_idle(Joining& joining, std::span<const std::size_t> connections);
/// Releases what one connection holds, once all its ranks have called this; nothing where it is suspended.
void suspend(Joining& joining, std::size_t connection);
/// Connects its ranks again; nothing where it is not suspended.
void resume(Joining& joining, std::size_t connection);
/// What these hold now.
Usage usage_of(const Joining& joining, const std::vector<std::size_t>& connections);

}  // namespace rankmesh::detail
