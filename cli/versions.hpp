// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "explain/read/versions.hpp"

namespace rankmesh::cli {

/// Returns the versions of the libraries that rankmesh was built with, of the `python3` and `c++` of PATH,
/// and of that Python's PyTorch. `nccl` is the version of NCCL; "": none.
of_versions::Versions found_versions(const std::string& nccl);

}  // namespace rankmesh::cli
