// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/dialect/areal/parallel_grid.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
void program(rankmesh::World& world) {
    const auto topo = rankmesh::areal::PipeDataTensorParallelTopology(2, 2, 2, true, false, false);
    auto g = rankmesh::areal::ParallelGrid(world.join(plan(topo)), topo);
    const auto check = [&](const auto& group, auto&... on) {  // nothing where this rank is in no such group
        const auto low = [](auto& each, int rank) { return each.all_reduce(rank, rankmesh::min), rank; };
        if (group && ((low(*on, world.rank()) != group->front()) || ...)) throw rankmesh::Error("ranks");
    };
    check(g.ds_model_group, g.ds_model_proc_group, g.ds_model_proc_group_gloo);
    check(g.dp_group, g.dp_proc_group, g.dp_proc_group_gloo);
    check(g.pp_group, g.pp_proc_group, g.pp_proc_group_gloo);
    check(g.slice_group, g.slice_proc_group, g.slice_proc_group_gloo);
    check(g.embedding_group, g.embedding_proc_group), check(g.tp_dp_group, g.tp_dp_proc_group);
    check(g.position_embedding_group, g.position_embedding_proc_group);
    if (world.rank() == 0) std::puts("areal: every group has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
