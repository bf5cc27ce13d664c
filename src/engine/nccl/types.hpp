// SPDX-License-Identifier: Apache-2.0
// The types and reductions that NCCL supports.
#pragma once

#include <nccl.h>

#include <optional>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// NCCL's type; nothing for a type that it does not reduce.
std::optional<ncclDataType_t> nccl_type(DType dtype);
/// NCCL's reduction; nothing for one that it does not have. Since true is 1, some logical reductions of bools
/// are numeric ones.
std::optional<ncclRedOp_t> nccl_reduction(Reduction reduction, DType dtype);

/// Throws UsageError for a call that NCCL does not support.
void check_nccl(const Call& call, const Label& label, int group_rank);

}  // namespace rankmesh::detail
