// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <rankmesh/dialect/torchtitan/process_groups.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>

void program(rankmesh::World& world) {
    using namespace rankmesh::torchtitan;
    auto loss = 1.0f;
    const auto dims = ParallelDims({.dp_replicate = 2, .tp = 2, .ep = 4}, world.size());
    auto groups = ProcessGroups(world.join(plan(dims)), dims);
    groups.get_group(groups.get_mesh("loss")).all_reduce(loss, rankmesh::mean);
    if (loss != 1.0f) throw rankmesh::Error("loss");
    for (const auto& [name, mesh] : groups.get_all_one_dimensional_meshes()) {
        auto first = mesh.get_rank();
        groups.get_group(mesh).all_reduce(first, rankmesh::min);
        if (first != mesh.mesh().front()) throw rankmesh::Error(name);
    }
    if (world.rank() == 0) std::printf("dp_shard=%d: every group answers\n", dims.dp_shard);
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    program(*std::make_unique<rankmesh::World>(rankmesh::World::from_environment(argc, argv)));
}
