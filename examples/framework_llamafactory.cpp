// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/llamafactory.hpp>

void program(rankmesh::World& world) {
    using namespace rankmesh::llamafactory;
    const auto settings = Settings{.mp_replicate_size = 2, .cp_size = 2};
    auto interface = DistributedInterface(world.join(plan(settings, world.size())), settings);
    for (const auto* dim : {"mp_replicate", "mp_shard", "dp", "cp"}) {
        auto ranks = std::vector<int>(static_cast<std::size_t>(interface.get_world_size(dim)));
        interface.get_group(dim).all_gather(interface.get_rank(), ranks);
        if (!std::ranges::equal(ranks, interface.get_device_mesh(dim).mesh())) throw rankmesh::Error(dim);
    }
    auto mean = static_cast<double>(interface.get_rank());
    interface.get_group("dp").all_reduce(mean, rankmesh::mean);  // what the original's all_reduce computes
    if (interface.get_rank() == 0) std::printf("llamafactory: every dimension, mean %g\n", mean);
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
