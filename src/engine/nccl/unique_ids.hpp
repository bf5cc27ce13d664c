// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rankmesh::detail {

/// The most ranks for which one unique id is used. Tests lower it.
inline int nccl_ranks_per_id = 128;

/// The number of unique ids that a communicator of `size` ranks is created from.
inline int nccl_id_count(int size) { return (size - 1) / nccl_ranks_per_id + 1; }

}  // namespace rankmesh::detail
