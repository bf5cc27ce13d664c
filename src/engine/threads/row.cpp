// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/launcher.hpp>

#include "engine/access.hpp"
#include "engine/engines.hpp"
#include "engine/threads/world.hpp"

namespace rankmesh::detail {

Engine threads_engine() {
    return {.name = "threads", .create = [](int, char**, const WorldOptions& options) -> World {
                check_announced("threads", 1);
                return Access::world(std::make_shared<ThreadsWorld>(
                    std::make_shared<Job>(1), std::make_shared<JobStore>(), 0, options));
            }};
}

}  // namespace rankmesh::detail
