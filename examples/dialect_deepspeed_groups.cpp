// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/dialect/deepspeed/groups.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>

void program(rankmesh::World& world) {
    const auto experts = rankmesh::deepspeed::_create_expert_and_data_parallel(8, 4);
    const auto sizes = rankmesh::deepspeed::GroupSizes{8, 2, 2, 4, 4, {experts}};
    auto g = rankmesh::deepspeed::Groups(world.join(plan(sizes)), sizes);
    const auto low = [](auto& on, int rank) { return on.all_reduce(rank, rankmesh::min), rank; };
    const auto ok = [&](auto&... on) { return ((low(on, world.rank()) == on.world_rank(0)) && ...); };
    auto right = ok(g.get_data_parallel_group(), g.get_tensor_model_parallel_group(), g._clone_world_group());
    right &= ok(g._get_data_parallel_group(), g._get_sequence_parallel_group());
    right &= ok(g._get_expert_parallel_group("ep_size_4"), g._get_expert_data_parallel_group("ep_size_4"));
    right &= ok(g._get_zero_param_intra_parallel_group());
    for (auto& [name, on] : g._get_local_all_to_all_group()) right &= ok(on);
    if (!right) throw rankmesh::Error("a group has other ranks");
    if (world.rank() == 0) std::puts("deepspeed groups.py: every group has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
