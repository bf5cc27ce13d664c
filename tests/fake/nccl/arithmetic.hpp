// SPDX-License-Identifier: Apache-2.0
// Reductions of all types and operations of nccl.h.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fake_nccl {

/// The reduction of equally long pieces, in their order.
std::string reduced(ncclDataType_t type, ncclRedOp_t reduction, const std::vector<std::string>& pieces);
/// Each element times the scalar.
std::string scaled(ncclDataType_t type, const std::string& piece, const char* scalar);

}  // namespace fake_nccl
