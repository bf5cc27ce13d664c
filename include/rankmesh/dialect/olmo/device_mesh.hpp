// SPDX-License-Identifier: Apache-2.0
// torch's DeviceMesh in OLMo-core's namespace.
#pragma once

#include <rankmesh/dialect/device_mesh.hpp>

namespace rankmesh::olmo {

using dialect::DeviceMesh;
using dialect::DimNames;
using dialect::init_device_mesh;
using dialect::new_groups;
using dialect::NewGroups;
using dialect::to_string;

}  // namespace rankmesh::olmo
