// SPDX-License-Identifier: Apache-2.0
// The reductions of a call, in the order of the ranks, where an engine does not have them itself.
#pragma once

#include <functional>
#include <span>

#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

/// True for a reduction that needs all inputs at once, because its results cannot be combined again.
constexpr bool needs_all(Reduction reduction) { return reduction == Reduction::reproducible_sum; }
/// True for a reduction that no engine has.
constexpr bool is_own(Reduction reduction) { return by_function(reduction) || needs_all(reduction); }

/// Combines `count` elements of `call.dtype` of each rank, in the order of ranks, in `out`, which may be one
/// of `ins`. A mean is a sum until it is divided.
void combine(const Call& call, std::span<const void* const> ins, void* out, std::size_t count);

/// Replaces `count` elements of `into` by the combination of those of `before`, from lower ranks, with them.
void combine_before(const Call& call, const void* before, void* into, std::size_t count);

/// Fills the output of an exclusive_scan on rank 0: with what changes nothing. A function has no such value.
void fill_with_nothing(const Call& call);

/// Makes the results of a logical reduction 0 or 1, which one rank alone has not combined with anything.
void make_logical(const Call& call);

/// Runs one collective on the inputs of all `n` ranks: `call(p)` is that of group rank p. Writes every `out`
/// that is not null. Reductions combine the ranks in their order.
void perform(std::size_t n, const std::function<const Call&(std::size_t)>& call);

}  // namespace rankmesh::detail
