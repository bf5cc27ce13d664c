// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include <rankmesh/engine/nccl.hpp>
#include <rankmesh/engine/threads.hpp>

#include "support/text_of.hpp"

/// Runs `program` on ranks that are threads, each with a device of the fake NCCL.
inline void on_devices(int size, const std::function<void(rankmesh::nccl::World&)>& program,
                       const rankmesh::WorldOptions& options = {.timeout = std::chrono::seconds(20)}) {
    rankmesh::threads::run(
        size,
        [&](rankmesh::World& host) {
            auto world = rankmesh::nccl::World(host);
            program(world);
        },
        options);
}
