// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace rankmesh::detail {

// The library behind each engine and store, with its version; "" where it was not built.
std::string mpi_library();
std::string gloo_library();
std::string redis_library();
std::string pmix_library();
std::string nccl_library();

}  // namespace rankmesh::detail
