// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace rankmesh::tests {

/// As on a machine of so many devices, where the fake NCCL stands for the real one.
inline std::string with_devices(int count) {
    return "export LD_LIBRARY_PATH='" RANKMESH_FAKE_NCCL "' FAKE_DEVICES=" + std::to_string(count) + "; ";
}

}  // namespace rankmesh::tests
