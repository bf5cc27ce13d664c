// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/dialect/megatron/parallel_state.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>

void program(rankmesh::World& world) {
    const auto sizes = rankmesh::megatron::Sizes{.tensor_model_parallel_size = 2,
                                                 .expert_model_parallel_size = 2,
                                                 .num_distributed_optimizer_instances = 2};
    const auto mpu = rankmesh::megatron::ParallelState(world.join(plan(sizes, world.size())), sizes);
    const auto names = mpu.process_groups().descriptions();
    for (const auto& name : names) {  // TENSOR_MODEL_PARALLEL_GROUP and so on
        auto first = world.rank();
        mpu.group(name)->all_reduce(first, rankmesh::min);
        if (first != mpu.find(name)->front()) throw rankmesh::Error(name);
    }
    if (world.rank() == 0) std::printf("megatron: %zu kinds of groups have their ranks\n", names.size());
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
