// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/megatron.hpp>

void program(rankmesh::World& world) {
    const auto sizes = rankmesh::megatron::Settings{.tensor_model_parallel_size = 2,
                                                    .expert_model_parallel_size = 2,
                                                    .num_distributed_optimizer_instances = 2};
    auto mpu = rankmesh::megatron::ParallelState(world.join(plan(sizes, world.size())), sizes);
    const auto low = [&](auto& on, int rank) { return on.all_reduce(rank, rankmesh::min), rank; };
    const auto me = world.rank();
    auto ok = low(mpu.get_tensor_model_parallel_group(), me) == mpu.get_tensor_model_parallel_src_rank();
    ok &= low(mpu.get_data_parallel_group(), me) == mpu.get_data_parallel_src_rank();
    ok &= low(mpu.get_expert_model_parallel_group(), me) == mpu.get_expert_model_parallel_src_rank();
    ok &= low(mpu.get_intra_distributed_optimizer_instance_group(), me) == me / 4 * 4;
    if (!ok) throw rankmesh::Error("a group has other ranks");
    if (me == 0) std::puts("megatron: every group has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
