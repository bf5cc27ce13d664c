// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's PipelineParallelGrid: axes pipe, data and maybe model and others, over the whole world.
#include "frameworks/grid.hpp"

namespace rankmesh::frameworks::of_deepspeed {

/// Throws for a topology that is not of the world, or lacks an axis.
void check(Given& given) {
    if (given.is_none("dims")) {
        const auto made = deepspeed::default_topology(given.world_size());
        given.derive("axes", made.axes());
        given.derive("dims", made.dims());
    }
    const auto topology = ProcessTopology(of_grid::axes(given), given.numbers("dims"));
    refuse_if(topology.world_size() != given.world_size(), Fault::sizes, "Invalid Grid");
    for (const auto* axis : {"pipe", "data"})
        if (topology.get_dim(axis) == 0)
            throw Error(Fault::unknown, "the topology ", to_string(topology.mesh()), " has no axis '", axis,
                        "'; a grid needs pipe and data");
    of_grid::derive(given, topology, "model");
}

std::vector<AccessorRow> accessors() {
    auto rows = of_grid::accessors();
    of_grid::add_groups(rows, false, "get_slice_parallel_group");
    of_grid::also(rows, "get_data_parallel_group_ranks", "dp_group");
    of_grid::also(rows, "get_pipeline_model_parallel_rank", "stage_id");
    of_grid::also(rows, "get_pipeline_model_parallel_world_size", "pipe_parallel_size");
    of_grid::also(rows, "get_slice_parallel_rank", "get_tensor_model_parallel_rank");
    of_grid::also(rows, "get_slice_parallel_world_size", "slice_parallel_size");
    return rows;
}

Framework framework() {
    return {
        .name = "deepspeed",
        .version = "0.19.8",
        .original = "deepspeed.runtime.pipe.topology",
        .title = "DeepSpeed's grid of pipe, data and other axes over the whole world.",
        .settings_of = "the axes and dims of ProcessTopology, or sizes in their order, outermost first",
        .example = "pipe=2 data=4 model=2",
        .settings = {{"axes", Type::words, "The axes of the topology, outermost first",
                      std::vector<std::string>{"pipe", "data"}},
                     {"dims", Type::numbers,
                      "The size of each axis; None: the world's prime factors, rising, dealt to pipe and "
                      "data in turn"}},
        .meshes = {{"topology", "pipe data model"}},
        .kinds = of_grid::kinds("model", false),
        .accessors = accessors(),
        .check = check,
        .extend = of_grid::extend,
        .roles = {{"pipe", "pp"}, {"data", "dp"}, {"model", "tp"}},
        .why = {{"ep, edp, etp",
                 "DeepSpeed's configuration has experts only with pp=1 and etp=1; others are set "
                 "at the MoE layer"},
                {"dp_replicate, dp_shard",
                 "DeepSpeed sets sharding in its configuration (zero_optimization), not in the topology"}},
        .ranks = of_grid::ranks,
        .calls = of_grid::calls,
        .raises = {{"", "ValueError"}, {"sizes", "AssertionError"}, {"unknown", "AttributeError"}},
        .initialize = "PipelineParallelGrid",
        .base = "Answers",
        .start = {.launcher = "deepspeed",
                  .hosts = "--num-nodes",
                  .per_host = "--num-gpus",
                  .files = "deepspeed deepspeed_config"}};
}

}  // namespace rankmesh::frameworks::of_deepspeed
