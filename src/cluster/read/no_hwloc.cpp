// SPDX-License-Identifier: Apache-2.0
#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

std::optional<Levels> see_hwloc() { return std::nullopt; }

}  // namespace rankmesh::cluster_files
