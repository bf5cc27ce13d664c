// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/parallel_grid.hpp>
#include <rankmesh/dialect/areal/process_topology.hpp>

#include "convert/frameworks/grid_answers.hpp"
#include "convert/frameworks/topology_settings.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace of_areal {

Arrangement read(Settings& settings, std::optional<int> world) {
    // The arguments of the two topologies, which have the same names.
    if (settings.has("num_pp") || settings.has("num_tp") || settings.has("num_dp")) {
        const auto pipe_first = settings.call() == "PipeDataTensorParallelTopology";
        if (!pipe_first && settings.call() != "DataPipeTensorParallelTopology")
            throw UsageError(
                "num_pp, num_tp and num_dp are of two topologies; write PipeDataTensorParallelTopology(...) "
                "or "
                "DataPipeTensorParallelTopology(...) around them");
        settings.let_be({"sequence_parallel", "gradient_checkpointing", "gradient_accumulation_fusion",
                         "max_prompt_len"});
        const auto pp = settings.size("num_pp"), dp = settings.size("num_dp"), tp = settings.size("num_tp");
        return of_topology(pipe_first ? plain_mesh({{"pipe", pp}, {"data", dp}, {"tensor", tp}})
                                      : plain_mesh({{"data", dp}, {"pipe", pp}, {"tensor", tp}}),
                           settings, world);
    }
    const auto given = topology_of(settings, world, "tensor");
    return {{areal::ProcessTopology(given.axes, given.dims).mesh()}};
}

Document write(const Arrangement& arrangement) {
    const auto dense = joined(arrangement.dense(), {"dp", "dp_replicate", "dp_shard"}, "dp");
    // Training has pipe outermost, inference data.
    const auto order = by_stride(dense);
    const auto data_first = !order.empty() && order.front() == "dp" && size_of(dense, "pp") > 1;
    return topology_document(
        dense,
        data_first ? std::vector<std::string>{"dp", "pp", "tp"} : std::vector<std::string>{"pp", "dp", "tp"},
        "tensor");
}

Words words(const Arrangement&, const Document& document) {
    const auto topology = areal::ProcessTopology(document.values["axes"].get<std::vector<std::string>>(),
                                                 document.values["dims"].get<std::vector<int>>());
    const auto& mesh = topology.mesh();
    const auto pipe = mesh.axes("pipe");
    return {.dialect = {},
            .mesh = mesh,
            .kinds = {kind_along("ds_model_proc_group", mesh, all_but_data(mesh)),
                      kind_along("dp_proc_group", mesh, mesh.axes("data")),
                      kind_along("pp_proc_group", mesh, pipe),
                      kind_picked("embedding_proc_group", mesh, pipe, {0, -1}),
                      kind_picked("position_embedding_proc_group", mesh, pipe, {0}),
                      kind_along("slice_proc_group", mesh, mesh.axes("tensor")),
                      kind_along("tp_dp_proc_group", mesh, mesh.axes("data", "tensor"))},
            .answers = [topology](int rank) {
                const auto info = areal::RankInfo(topology, rank, topology.world_size());
                return grid_answers(info)
                    .add("topology().get_rank_repr", [&] { return topology.get_rank_repr(rank); })
                    .all();
            }};
}

}  // namespace of_areal

Framework areal() {
    constexpr auto experts = "AReaL's topology has no expert parallelism";
    constexpr auto replicas = "AReaL's topology has one data-parallel axis, data";
    return {.name = "areal",
            .of = "the axes and dims of ProcessTopology: pipe, data, tensor or data, pipe, tensor",
            .example = "pipe=2 data=4 tensor=2",
            .read = of_areal::read,
            .write = of_areal::write,
            .words = of_areal::words,
            .roles = {"pp", "dp", "tp"},
            .why = {{"cp", "AReaL's topology has no context parallelism; it has pipe, data, tensor"},
                    {"ep", experts},
                    {"edp", experts},
                    {"etp", experts},
                    {"dp_replicate", replicas},
                    {"dp_shard", replicas}}};
}

}  // namespace rankmesh::conversion
