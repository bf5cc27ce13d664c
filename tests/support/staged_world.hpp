// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <rankmesh/engine/world.hpp>

namespace support {

/// A world that works on host memory by way of the devices of another: each buffer is copied there and back.
///
/// So what was written for engines of hosts can be asked of one of devices, its splits at join included.
class StagedWorld : public rankmesh::World {
public:
    explicit StagedWorld(rankmesh::World& devices);
};

}  // namespace support
