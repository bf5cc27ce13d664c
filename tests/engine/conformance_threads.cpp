// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/threads.hpp>

#include "conformance.hpp"

void on_every_rank(const std::function<void(rankmesh::World&)>& program) {
    auto sizes = std::vector{1, 2, 4, 7, 8};
    if (const auto* given = std::getenv("RANKMESH_TEST_RANKS")) sizes = {std::atoi(given)};
    for (auto size : sizes) rankmesh::threads::run(size, program, {.timeout = std::chrono::minutes(1)});
}
