// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace rankmesh::detail {

/// The name of this process's host: RANKMESH_HOST, else what the system says.
std::string host_name();

}  // namespace rankmesh::detail
