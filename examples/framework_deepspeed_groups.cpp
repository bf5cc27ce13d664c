// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/deepspeed_groups.hpp>

void program(rankmesh::World& world) {
    auto state = rankmesh::deepspeed_groups::State(world.rank(), world.size());
    state._init_tp_mesh_device(2);
    state.sequence_parallel_mesh(2);
    state._create_expert_and_data_parallel(4);
    state._create_zero_param_parallel_group(4);
    state._get_local_all_to_all_group(4);
    auto g = rankmesh::deepspeed_groups::Groups(world.join(state.plan()), state);
    const auto low = [](auto& on, int rank) { return on.all_reduce(rank, rankmesh::min), rank; };
    const auto ok = [&](auto&... on) { return ((low(on, world.rank()) == on.world_rank(0)) && ...); };
    auto right = ok(g.get_data_parallel_group(), g.get_tensor_model_parallel_group(), g._clone_world_group());
    right &= ok(g._get_data_parallel_group(), g._get_sequence_parallel_group());
    right &= ok(g._get_expert_parallel_group("ep_size_4"), g._get_expert_data_parallel_group("ep_size_4"));
    right &= ok(*g._get_zero_param_intra_parallel_group());
    right &= ok(g.all_to_all_group("local"), g.all_to_all_group("global"));
    if (!right) throw rankmesh::Error("a group has other ranks");
    if (world.rank() == 0) std::puts("deepspeed groups.py: every group has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
