// SPDX-License-Identifier: Apache-2.0
// What the rows of Megatron-core call.
#pragma once

#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_megatron {

// Kinds whose names go on with a number.
constexpr std::string_view hybrid = "HYBRID_DP_CP_GROUP",
                           hierarchical = "HIERARCHICAL_CONTEXT_PARALLEL_GROUP";

/// The hierarchical_context_parallel_sizes, innermost first; empty for None.
const std::vector<int>& levels(const Given& given);

std::vector<AccessorRow> accessors();

/// `dp-cp` as `dp` and `cp`; of `a--b` the second is empty.
std::vector<std::string> tokens(std::string_view joined);
/// `order` with `gtp_remat` after the axis `after`, else after tp, else first; `order` itself if it has it.
RANKMESH_EXPORT std::string inject_gtp_remat_axis(std::string_view order, std::string_view after);

/// Axes as an order lists them.
struct Ordered {
    std::string text;  ///< the order in small letters, with the axes of size 1 that it lacked appended
    std::vector<std::pair<std::string, int>> axes;  ///< outermost first
};
/// The axes tp, pp, dp, ep, cp and gtp_remat, whose `sizes` these are, in that order.
///
/// Throws Error if `order` lacks an axis of more than one rank or names an unknown one, and Refusal for a
/// size below 1, a negative offset or a size listed twice.
RANKMESH_EXPORT Ordered in_order(std::string_view order, const std::vector<int>& sizes, int rank_offset);

}  // namespace rankmesh::frameworks::of_megatron
