// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/olmo.hpp>

void program(rankmesh::World& world) {
    using namespace rankmesh::olmo;
    const auto configs =
        Settings{.dp_type = "hsdp", .num_replicas = 2, .shard_degree = {}, .tp = 1, .cp = 1, .pp = 2};
    const auto me = world.join(plan(configs, world.size()));
    auto groups = WorldMesh(me, configs);
    const auto mesh = *groups.get_world_mesh();
    const auto model = groups.get_dp_model_mesh(mesh);  // makes the mesh indexable by dp_cp
    for (auto name : {"pp", "dp_replicate", "dp_shard", "cp", "tp", "dp", "dp_cp"}) {
        auto first = me.rank();
        groups.get_group(name).all_reduce(first, rankmesh::min);
        if (first != mesh.get_group(name).front()) throw rankmesh::Error(name);
    }
    if (me.rank() == 0)
        std::printf("%s, %d ranks with a model's data: every group answers\n",
                    groups.get_device_mesh_info(mesh).c_str(), model.size());
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    program(*std::make_unique<rankmesh::World>(rankmesh::World::from_environment(argc, argv)));
}
