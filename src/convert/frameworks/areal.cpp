// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/parallel_grid.hpp>

#include "convert/frameworks/topology_settings.hpp"

namespace rankmesh::conversion {

namespace of_areal {

const auto training = SizesOfAxes{{"pipe", "num_pp"}, {"data", "num_dp"}, {"tensor", "num_tp"}};
const auto inference = SizesOfAxes{{"data", "num_dp"}, {"pipe", "num_pp"}, {"tensor", "num_tp"}};

Arrangement read(Settings& settings, std::optional<int> world) {
    if (has_sizes(settings, training)) {
        const auto pipe_first = settings.call() == "PipeDataTensorParallelTopology";
        if (!pipe_first && settings.call() != "DataPipeTensorParallelTopology")
            throw UsageError(
                "num_pp, num_tp and num_dp are of two topologies; write PipeDataTensorParallelTopology(...) "
                "or "
                "DataPipeTensorParallelTopology(...) around them");
        settings.let_be({"sequence_parallel", "gradient_checkpointing", "gradient_accumulation_fusion",
                         "max_prompt_len"});
        return topology_of_sizes(settings, pipe_first ? training : inference, world);
    }
    return {{topology_in<areal::ProcessTopology>(topology_of(settings, world, "tensor")).mesh()}};
}

Document write(const Arrangement& arrangement) {
    const auto dense = dense_of(arrangement);
    const auto order = by_stride(dense);
    const auto data_first = !order.empty() && order.front() == "dp" && size_of(dense, "pp") > 1;
    using Order = std::vector<std::string>;
    return topology_document(dense, data_first ? Order{"dp", "pp", "tp"} : Order{"pp", "dp", "tp"}, "tensor");
}

Words words(const Arrangement&, const Document& document) {
    const auto topology = topology_in<areal::ProcessTopology>(document.values);
    const auto& mesh = topology.mesh();
    auto kinds = grid_kinds(mesh, "tensor");
    kinds.insert(kinds.end() - 1,
                 {kind_picked("embedding_proc_group", mesh, mesh.axes("pipe"), {0, -1}),
                  kind_picked("position_embedding_proc_group", mesh, mesh.axes("pipe"), {0})});
    kinds.push_back(kind_along("tp_dp_proc_group", mesh, mesh.axes("data", "tensor")));
    return {.dialect = {}, .mesh = mesh, .kinds = std::move(kinds), .answers = [topology](int rank) {
                return grid_answers(areal::RankInfo(topology, rank, topology.world_size()))
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
