// SPDX-License-Identifier: Apache-2.0
// What the rows of Megatron-core call.
#pragma once

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks::of_megatron {

// Kinds whose names go on with a number.
constexpr std::string_view hybrid = "HYBRID_DP_CP_GROUP",
                           hierarchical = "HIERARCHICAL_CONTEXT_PARALLEL_GROUP";

/// The hierarchical_context_parallel_sizes, innermost first; empty for None.
const std::vector<int>& levels(const Given& given);

void check(Given& given);
void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds& kinds);

std::vector<AccessorRow> accessors();

}  // namespace rankmesh::frameworks::of_megatron
