// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>

void program(rankmesh::World& world) {
    const auto topology = rankmesh::deepspeed::PipeModelDataParallelTopology(2, 2, 2);
    auto grid = rankmesh::deepspeed::PipelineParallelGrid(world.join(plan(topology)), topology);
    const auto low = [](auto& on, int rank) { return on.all_reduce(rank, rankmesh::min), rank; };
    const auto me = world.rank();
    auto ok = low(grid.get_model_parallel_group(), me) == grid.ds_model_group->front();
    ok &= low(grid.get_data_parallel_group(), me) == grid.get_data_parallel_group_ranks().front();
    ok &= low(grid.get_pipe_parallel_group(), me) == grid.stage_to_global(0);
    ok &= low(grid.get_slice_parallel_group(), me) == me - grid.get_slice_parallel_rank();
    if (!ok) throw rankmesh::Error("a group has other ranks");
    if (me == 0) std::puts("deepspeed: every group has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
