// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/megatron2022.hpp>

void program(rankmesh::World& world) {
    const auto settings = rankmesh::megatron2022::Settings{2, 4, {}, 2};  // tensor 2, pipeline 4, split at 2
    auto mpu = rankmesh::megatron2022::ParallelState(world.join(plan(settings, world.size())), settings);
    const auto low = [](auto& on, int rank) { return on.all_reduce(rank, rankmesh::min), rank; };
    const auto me = world.rank(), start = mpu.get_pipeline_model_parallel_first_rank();
    auto ok = low(mpu.get_model_parallel_group(), me) == 2 * mpu.get_data_parallel_rank();
    ok &= low(mpu.get_tensor_model_parallel_group(), me) == mpu.get_tensor_model_parallel_src_rank();
    ok &= low(mpu.get_pipeline_model_parallel_group(), me) == start;
    ok &= low(mpu.get_data_parallel_group(), me) == mpu.get_data_parallel_src_rank();
    if (mpu.is_rank_in_embedding_group()) ok &= low(mpu.get_embedding_group(), me) == start;
    if (mpu.is_rank_in_position_embedding_group()) ok &= low(mpu.get_position_embedding_group(), me) == start;
    if (!ok) throw rankmesh::Error("a group has other ranks");
    if (me == 0) std::puts("megatron2022: every group has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
