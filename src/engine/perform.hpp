// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

/// Runs one collective on the inputs of all `n` ranks: `call(p)` is that of group rank p. Writes every `out`
/// that is not null. Reductions combine the ranks in their order.
void perform(std::size_t n, const std::function<const Call&(std::size_t)>& call);

}  // namespace rankmesh::detail
