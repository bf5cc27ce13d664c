// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/threads.hpp>

#include "conformance.hpp"

void on_every_rank(const std::function<void(rankmesh::World&)>& program) {
    for (auto size : {1, 2, 4, 7, 8})
        rankmesh::threads::run(size, program, {.deadline = std::chrono::minutes(1)});
}
