// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/error.hpp>

namespace rankmesh::dialect {

void check_rank(int rank, int world_size) {
    if (rank < 0 || rank >= world_size)
        throw Error(Fault::out_of_range, rankmesh::detail::cat("rank ", rank, " of a world of ", world_size,
                                                               "; ranks are 0..", world_size - 1));
}

}  // namespace rankmesh::dialect
