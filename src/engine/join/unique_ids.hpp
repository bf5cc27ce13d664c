// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rankmesh::detail {

/// One id serves so many ranks at the start of a communicator. Tests lower it.
inline int nccl_ranks_per_id = 128;

/// How many ids a communicator of `size` ranks begins with.
inline int nccl_id_count(int size) { return (size - 1) / nccl_ranks_per_id + 1; }

}  // namespace rankmesh::detail
