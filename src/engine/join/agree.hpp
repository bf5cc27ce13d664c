// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/exchange.hpp"

namespace rankmesh::detail {

/// Returns if all ranks of the world give the same `description`; otherwise throws Disagreement on every
/// rank, with each distinct description and its ranks, largest class first. A rank throws only once all ranks
/// know what it throws, since the first to throw may leave.
///
/// Costs one reduction of 32 bytes while they agree, and 2 log2(size) rounds of messages and another
/// reduction more when they do not.
void agree(Exchange& exchange, const std::string& description);

}  // namespace rankmesh::detail
