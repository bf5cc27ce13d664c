// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace olmo;

namespace {

// Configurations are ours or OLMo-core's: anything with these attributes.

std::string text_in(nb::handle config, const char* name) { return text_of(nb::str(config.attr(name)), name); }
std::optional<int> int_in(nb::handle config, const char* name) {
    return optional_int(config.attr(name), name);
}

template <class Config>
std::optional<Config> of_degree(nb::handle config) {
    const auto degree = config.is_none() ? std::nullopt : int_in(config, "degree");
    return degree ? std::optional(Config{*degree}) : std::nullopt;
}

}  // namespace

template <>
auto argument<PipelineScheduleType>(nb::handle name, const char* what) {
    return pipeline_schedule_type(text_of(name, what));
}

template <>
auto argument<DataParallelConfig>(nb::handle config, const char*) {
    return DataParallelConfig{.name = data_parallel_type(text_in(config, "name")),
                              .num_replicas = int_in(config, "num_replicas"),
                              .shard_degree = int_in(config, "shard_degree")};
}

/// The configurations in the tuple (dp, tp, cp, pp, ep). Each may be None.
template <>
auto argument<ParallelConfigs>(nb::handle given, const char* name) {
    auto configs = ParallelConfigs{.tp = of_degree<TensorParallelConfig>(given[1]),
                                   .cp = of_degree<ContextParallelConfig>(given[2]),
                                   .pp = of_degree<PipelineParallelConfig>(given[3]),
                                   .ep = of_degree<ExpertParallelConfig>(given[4])};
    if (!given[0].is_none()) configs.dp = argument<DataParallelConfig>(given[0], name);
    return configs;
}

template <>
auto argument<PipelineParallelConfig>(nb::handle config, const char*) {
    auto made = PipelineParallelConfig{.degree = int_of(config.attr("degree"), "degree"),
                                       .schedule = pipeline_schedule_type(text_in(config, "schedule"))};
    if (!config.attr("style").is_none()) made.style = pipeline_split_style(text_in(config, "style"));
    return made;
}

namespace {

std::optional<Ranks> p2p_group(nb::handle config, const DeviceMesh& mesh) {
    const auto group =
        PipelineParallelConfig{
            .p2p_use_separate_group = nb::cast<bool>(nb::bool_(config.attr("p2p_use_separate_group"))),
            .p2p_backend = pipeline_p2p_backend(text_in(config, "p2p_backend")),
            .p2p_nccl_min_ctas = int_in(config, "p2p_nccl_min_ctas"),
            .p2p_nccl_max_ctas = int_in(config, "p2p_nccl_max_ctas")}
            .build_p2p_process_group(mesh);
    return group ? std::optional(Ranks(*group)) : std::nullopt;
}

int num_microbatches(int stages, const DeviceMesh& pp_mesh, PipelineScheduleType schedule,
                     std::optional<int> given) {
    const auto all = std::vector<PipelineStage>(static_cast<std::size_t>(stages));
    return PipelineSchedule(all, pp_mesh, schedule, given).num_microbatches;
}

std::vector<DeviceMesh> dense_and_moe(const ParallelConfigs& configs, int rank, int world_size) {
    auto [dense, moe] = build_dense_and_moe_mesh(configs, rank, world_size);
    return moe ? std::vector{dense, *moe} : std::vector{dense};
}

}  // namespace

void bind_olmo(nb::module_& parent) {
    auto m = parent.def_submodule("olmo", "OLMo-core's meshes and configurations.");
    const auto place = std::array{"rank", "world_size"};
    nb::class_<WorldMesh>(m, "WorldMesh", "The world mesh of one rank, once it is built.")
        .def(
            "build_world_mesh",
            [](WorldMesh& self, nb::handle given) {
                return self.build_world_mesh(argument<ParallelConfigs>(given, "given"));
            },
            nb::arg("given"));
    def_named(
        m, "world_mesh", +[](int rank, int world) { return WorldMesh(rank, world, environment_of()); },
        place);
    def_named(m, "build_dense_and_moe_mesh", dense_and_moe, {"given", "rank", "world_size"});
    def_named(
        m, "build_expert_parallel_mesh",
        +[](int degree, int rank, int world) { return build_expert_parallel_mesh({degree}, rank, world); },
        {"degree", "rank", "world_size"});
    m.def("get_device_mesh_info", &get_device_mesh_info, nb::arg("device_mesh"));
    m.def("get_pp_stage_mesh", &get_pp_stage_mesh, nb::arg("device_mesh"), nb::arg("pp_mesh").none());
    const auto part = [&m](const char* name, DeviceMesh (*get)(const DeviceMesh&), const char* doc) {
        m.def(name, get, nb::arg("device_mesh"), doc);
    };
    part("get_dp_model_mesh", get_dp_model_mesh,
         "All dp dimensions for data-parallel models, cp folded into the one before it.");
    part("get_dp_mesh", get_dp_mesh, "All dp dimensions for data loading, without cp.");
    part("get_dp_shard_mesh", get_dp_shard_mesh, "The dp dimension that shards.");
    part("get_dp_replicate_mesh", get_dp_replicate_mesh, "The dp dimension of replicas.");
    part("get_ep_mesh", get_ep_mesh, "The dimension that experts are sharded over.");
    part("get_tp_mesh", get_tp_mesh, "The dimension that tensors are sharded over.");
    part("get_cp_mesh", get_cp_mesh, "The dimension that sequences are sharded over.");
    part("get_pp_mesh", get_pp_mesh, "The dimension of pipelines.");

    m.def(
        "num_nodes", [] { return environment_of().num_nodes; }, "NUM_NODES, None if not set.");
    def_named(m, "get_num_nodes", +[](int world) { return get_num_nodes(environment_of(), world); },
              {"world_size"});
    def_named(m, "get_replicate_and_shard_degree",
              +[](const DataParallelConfig& config, int dp_world_size, int num_nodes) {
                  return config.get_replicate_and_shard_degree(dp_world_size, num_nodes);
              },
              {"config", "dp_world_size", "num_nodes"});
    def_named(m, "is_single_stage", is_single_stage, {"schedule"});
    def_named(m, "default_style",
              +[](PipelineScheduleType schedule) { return to_string(default_style(schedule)); },
              {"schedule"});
    def_named(m, "num_microbatches", num_microbatches,
              {"stages", "pp_mesh", "schedule_name", "num_microbatches"},
              "The microbatches of a schedule of so many stages.");

    using Pipeline = PipelineParallelConfig;  // what follows is a method of it in Python
    m.def("build_p2p_process_group", &p2p_group, nb::arg("self"), nb::arg("device_mesh"));
    def_named(m, "infer_style", +[](const Pipeline& self) { return to_string(self.infer_style()); },
              {"self"});
    def_named(
        m, "final_stage_rank", +[](const Pipeline& self) { return self.final_stage_rank(); }, {"self"},
        "The rank of the pipeline that has the last stage.");
    def_named(
        m, "rank_completion_order",
        +[](const Pipeline& self) { return list_of(self.rank_completion_order()); }, {"self"},
        "The ranks of the pipeline in the order in which they complete a batch.");
    def_named(m, "stage_ids_this_rank",
              +[](const Pipeline& self, int pp_rank, int num_stages) {
                  return self.stage_ids_this_rank(pp_rank, num_stages);
              },
              {"self", "pp_rank", "num_stages"});
}

}  // namespace rankmesh::python
