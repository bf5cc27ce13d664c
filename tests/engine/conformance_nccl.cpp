// SPDX-License-Identifier: Apache-2.0
// The suite on NCCL, the fake one where this machine has no other: on host memory that is copied to the
// device and back. Ranks are threads; `conformance_nccl N` starts N processes of itself, on Gloo.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/nccl.hpp>
#include <rankmesh/engine/threads.hpp>

#include "conformance.hpp"
#include "conformance_processes.hpp"
#include "engine/nccl/operations.hpp"
#include "operations.hpp"
#include "support/staged_world.hpp"

namespace {

using rankmesh::Reduction;

rankmesh::World* the_world = nullptr;  // of processes; null: ranks are threads

bool nccl_takes(rankmesh::detail::Operation operation, Reduction reduction, rankmesh::DType dtype) {
    if (operation == rankmesh::detail::Operation::scan && reduction != Reduction::sum) return false;
    return rankmesh::detail::nccl_type(dtype) && rankmesh::detail::nccl_reduction(reduction, dtype);
}

}  // namespace

void on_every_rank(const std::function<void(rankmesh::World&)>& program) {
    if (the_world) return program(*the_world);
    auto sizes = std::vector{1, 2, 4, 8};
    if (const auto* given = std::getenv("RANKMESH_TEST_RANKS")) sizes = {std::atoi(given)};
    for (auto size : sizes)
        rankmesh::threads::run(size,
                               [&](rankmesh::World& host) {
                                   auto devices = rankmesh::nccl::World(host);
                                   auto world = support::StagedWorld(devices);
                                   program(world);
                               },
                               {.timeout = std::chrono::minutes(1)});
}

int main(int argc, char** argv) {
    setenv("FAKE_DEVICES", "8", 0);
    operations::takes = nccl_takes;
    const auto is_rank = std::getenv("RANKMESH_STORE") != nullptr;
    if (!is_rank && argc > 1 && std::atoi(argv[1]) > 0) {
        const auto folder = support::Folder();
        return launch(argv[0], std::atoi(argv[1]), folder.path() + "/store", {argv + 2, argv + argc});
    }
    testing::InitGoogleTest(&argc, argv);
    if (!is_rank) return RUN_ALL_TESTS();
    auto host = rankmesh::gloo::World({.timeout = std::chrono::minutes(2)});
    auto devices = rankmesh::nccl::World(host);
    auto world = support::StagedWorld(devices);
    the_world = &world;
    print_as(world.rank());
    return RUN_ALL_TESTS();
}
