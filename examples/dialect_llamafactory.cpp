// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <rankmesh/dialect/llamafactory/interface.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>

void program(rankmesh::World& world) {
    using namespace rankmesh::llamafactory;
    const auto config = Config{.mp_replicate_size = 2, .cp_size = 2};
    const auto interface = DistributedInterface(world.join(plan(config, world.size())), config);
    for (auto dim : {Dim::mp_replicate, Dim::mp_shard, Dim::dp, Dim::cp}) {
        const auto group = *interface.get_group(dim);
        const auto ranks = interface.all_gather(interface.get_rank(), dim);
        if (!std::ranges::equal(ranks, group)) throw rankmesh::Error(std::string(to_string(dim)));
    }
    const auto all = interface.all_reduce(1, ReduceOp::sum, {});
    if (all != interface.get_world_size()) throw rankmesh::Error("world");
    if (interface.get_rank() == 0) std::puts("llamafactory: every dimension has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
