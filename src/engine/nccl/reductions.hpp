// SPDX-License-Identifier: Apache-2.0
// What NCCL reduces, and by what.
#pragma once

#include <nccl.h>

#include <optional>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// Nothing for a type that NCCL does not reduce.
std::optional<ncclDataType_t> nccl_type(DType dtype);
/// Nothing for a reduction that NCCL has not; true is 1, so that some of bools are those of numbers.
std::optional<ncclRedOp_t> nccl_reduction(Reduction reduction, DType dtype);

/// Throws UsageError for a call that cannot be made of NCCL's.
void check_nccl(const Call& call, const Label& label, int group_rank);

}  // namespace rankmesh::detail
