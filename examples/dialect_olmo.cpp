// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <rankmesh/dialect/olmo/process_groups.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>

void program(rankmesh::World& world) {
    using namespace rankmesh::olmo;
    const auto dp = DataParallelConfig{.name = DataParallelType::hsdp, .num_replicas = 2};
    const auto configs = ParallelConfigs{.dp = dp, .tp = {{1}}, .cp = {{1}}, .pp = {{.degree = 2}}};
    const auto me = world.join(plan(configs, world.size()));
    const auto mesh = WorldMesh(me.rank(), world.size()).build_world_mesh(configs);
    auto groups = ProcessGroups(me, mesh);
    for (auto name : {"pp", "dp_replicate", "dp_shard", "cp", "tp", "dp", "dp_cp"}) {
        auto first = me.rank();
        groups.get_group(mesh, name).all_reduce(first, rankmesh::min);
        if (first != mesh.get_group(name).front()) throw rankmesh::Error(name);
    }
    if (me.rank() == 0) std::printf("%s: every group answers\n", get_device_mesh_info(mesh).c_str());
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    program(*std::make_unique<rankmesh::World>(rankmesh::World::from_environment(argc, argv)));
}
