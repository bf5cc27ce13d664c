// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

/// True for a message that may overtake those of other tags between its two ranks, as torch matches messages;
/// on threads it may not. A message has no edges, so Edge::open says it.
inline bool matches_by_tag(const Call& call) { return call.edge == Edge::open; }

}  // namespace rankmesh::detail
