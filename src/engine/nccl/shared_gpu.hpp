// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string_view>

namespace rankmesh::detail {

/// True if NCCL was told to take two ranks on one GPU, as it can from version 2.30 (src/init.cc:1055 of 2.30.7).
inline bool may_share_a_gpu() {
    const auto* text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return text && std::string_view(text) != "0";
}

}  // namespace rankmesh::detail
