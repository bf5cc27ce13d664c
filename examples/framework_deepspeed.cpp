// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/deepspeed.hpp>
#include <rankmesh/frameworks/topology.hpp>

void program(rankmesh::World& world) {
    const auto topology = rankmesh::deepspeed::PipeModelDataParallelTopology(2, 2, 2);
    const auto settings = rankmesh::deepspeed::Settings{.axes = topology.axes(), .dims = topology.dims()};
    auto grid = rankmesh::deepspeed::PipelineParallelGrid(world.join(plan(settings, world.size())), settings);
    const auto low = [](auto& on, int rank) { return on.all_reduce(rank, rankmesh::min), rank; };
    const auto me = world.rank();
    const auto& ranks =
        static_cast<const rankmesh::deepspeed::State&>(grid);  // of which a group is its ranks
    auto ok = low(grid.get_model_parallel_group(), me) == ranks.ds_model_proc_group().front();
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
