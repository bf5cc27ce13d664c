// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/areal.hpp>
#include <rankmesh/frameworks/topology.hpp>
void program(rankmesh::World& world) {
    const auto topo = rankmesh::areal::PipeDataTensorParallelTopology(2, 2, 2, true, false, false);
    const auto settings = rankmesh::areal::Settings{.axes = topo.axes(), .dims = topo.dims()};
    auto g = rankmesh::areal::ParallelGrid(world.join(plan(settings, world.size())), settings);
    const auto& ranks = static_cast<const rankmesh::areal::State&>(g);  // of which a group is its ranks
    const auto check = [&](const auto& group, auto*... on) {  // nothing where this rank is in no such group
        const auto low = [](auto& each, int rank) { return each.all_reduce(rank, rankmesh::min), rank; };
        if (group && ((low(*on, world.rank()) != group->front()) || ...)) throw rankmesh::Error("ranks");
    };
    check(ranks.ds_model_proc_group(), g.ds_model_proc_group(), g.ds_model_proc_group_gloo());
    check(ranks.dp_proc_group(), g.dp_proc_group(), g.dp_proc_group_gloo());
    check(ranks.pp_proc_group(), g.pp_proc_group(), g.pp_proc_group_gloo());
    check(ranks.slice_proc_group(), g.slice_proc_group(), g.slice_proc_group_gloo());
    check(ranks.embedding_proc_group(), g.embedding_proc_group());
    check(ranks.position_embedding_proc_group(), g.position_embedding_proc_group());
    check(ranks.tp_dp_proc_group(), g.tp_dp_proc_group());
    if (world.rank() == 0) std::puts("areal: every group has its ranks");
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
