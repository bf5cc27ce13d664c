// SPDX-License-Identifier: Apache-2.0
#include "engine/host.hpp"

#include <unistd.h>

#include <cstdlib>

namespace rankmesh::detail {

std::string host_name() {
    if (const auto* given = std::getenv("RANKMESH_HOST")) return given;
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace rankmesh::detail
