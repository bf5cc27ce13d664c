// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

namespace rankmesh::detail {

/// The most elements that one MPI call is given; MPI-3.1 counts are ints. Tests lower it.
inline std::size_t mpi_count_limit = static_cast<std::size_t>(std::numeric_limits<int>::max());

}  // namespace rankmesh::detail
