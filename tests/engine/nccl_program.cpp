// SPDX-License-Identifier: Apache-2.0
// Makes a world on devices of whatever NCCL the machine has, and prints the result.
#include <cstdio>
#include <exception>

#include <rankmesh/engine/nccl.hpp>

int main() {
    try {
        auto host = rankmesh::World::from_environment({.engine = "threads"});
        const auto world = rankmesh::nccl::World(host);
        std::printf("device %d\n", world.device());
    } catch (const std::exception& error) {
        std::puts(error.what());
    }
    return 0;
}
