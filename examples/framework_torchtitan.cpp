// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/torchtitan.hpp>

void program(rankmesh::World& world) {
    using namespace rankmesh::torchtitan;
    const auto settings = Settings{.dp_replicate = 2, .tp = 2, .ep = 4};
    auto dims = ParallelDims(world.join(plan(settings, world.size())), settings);
    auto loss = 1.0f;
    dims.get_group("loss").all_reduce(loss, rankmesh::mean);
    if (loss != 1.0f) throw rankmesh::Error("loss");
    for (const auto& name : dims.groups().kinds()) {  // what is enabled
        auto first = dims.rank();
        dims.get_group(name).all_reduce(first, rankmesh::min);
        if (first != dims.get_mesh(name).mesh().front()) throw rankmesh::Error(name);
    }
    if (world.rank() == 0)
        std::printf("dp_shard=%d: every group answers\n", dims.get_mesh("dp_shard").size());
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    program(*std::make_unique<rankmesh::World>(rankmesh::World::from_environment(argc, argv)));
}
