// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace olmo;

namespace {

Environment environment_of(nb::handle num_nodes, nb::handle local_world_size) {
    return {.num_nodes = optional_int(num_nodes, "NUM_NODES"),
            .local_world_size = optional_int(local_world_size, "LOCAL_WORLD_SIZE")};
}

// Configurations are ours or OLMo-core's: anything with these attributes.

std::string text_in(nb::handle config, const char* name) { return text_of(nb::str(config.attr(name)), name); }
std::optional<int> int_in(nb::handle config, const char* name) {
    return optional_int(config.attr(name), name);
}

DataParallelConfig data_parallel_of(nb::handle config) {
    return {.name = data_parallel_type(text_in(config, "name")),
            .num_replicas = int_in(config, "num_replicas"),
            .shard_degree = int_in(config, "shard_degree")};
}

template <class Config>
std::optional<Config> of_degree(nb::handle config) {
    const auto degree = config.is_none() ? std::nullopt : int_in(config, "degree");
    return degree ? std::optional(Config{*degree}) : std::nullopt;
}

ParallelConfigs configs_of(nb::handle dp, nb::handle tp, nb::handle cp, nb::handle pp, nb::handle ep) {
    return {.dp = dp.is_none() ? std::nullopt : std::optional(data_parallel_of(dp)),
            .tp = of_degree<TensorParallelConfig>(tp),
            .cp = of_degree<ContextParallelConfig>(cp),
            .pp = of_degree<PipelineParallelConfig>(pp),
            .ep = of_degree<ExpertParallelConfig>(ep)};
}

PipelineParallelConfig pipeline_of(nb::handle config) {
    auto made = PipelineParallelConfig{.degree = int_of(config.attr("degree"), "degree"),
                                       .schedule = pipeline_schedule_type(text_in(config, "schedule"))};
    if (!config.attr("style").is_none()) made.style = pipeline_split_style(text_in(config, "style"));
    return made;
}

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

void bind_meshes(nb::module_& m) {
    constexpr auto any = [](const char* name) { return nb::arg(name).none(); };
    nb::class_<WorldMesh>(m, "WorldMesh", "The world mesh of one rank, once it is built.")
        .def(
            "__init__",
            [](WorldMesh* self, nb::handle rank, nb::handle world_size, nb::handle num_nodes,
               nb::handle local_world_size) {
                new (self) WorldMesh(int_of(rank, "rank"), int_of(world_size, "world_size"),
                                     environment_of(num_nodes, local_world_size));
            },
            any("rank"), any("world_size"), any("num_nodes"), any("local_world_size"))
        .def(
            "build_world_mesh",
            [](WorldMesh& self, nb::handle dp, nb::handle tp, nb::handle cp, nb::handle pp, nb::handle ep) {
                return self.build_world_mesh(configs_of(dp, tp, cp, pp, ep));
            },
            any("dp"), any("tp"), any("cp"), any("pp"), any("ep"))
        .def("get_world_mesh", [](const WorldMesh& self) { return self.get_world_mesh(); });
    m.def(
        "build_expert_parallel_mesh",
        [](nb::handle degree, nb::handle rank, nb::handle world_size) {
            return build_expert_parallel_mesh({int_of(degree, "degree")}, int_of(rank, "rank"),
                                              int_of(world_size, "world_size"));
        },
        any("degree"), any("rank"), any("world_size"));
    m.def(
        "build_dense_or_moe_mesh",
        [](bool is_moe, nb::handle dp, nb::handle tp, nb::handle cp, nb::handle pp, nb::handle ep,
           nb::handle rank, nb::handle world_size) {
            const auto made = build_dense_and_moe_mesh(configs_of(dp, tp, cp, pp, ep), int_of(rank, "rank"),
                                                       int_of(world_size, "world_size"));
            return is_moe ? made.moe.value() : made.dense;
        },
        nb::arg("is_moe"), any("dp"), any("tp"), any("cp"), any("pp"), any("ep"), any("rank"),
        any("world_size"), "One of the two meshes.");
    m.def("get_device_mesh_info", &get_device_mesh_info, nb::arg("device_mesh"));
    m.def(
        "get_dp_process_group", [](const DeviceMesh& mesh) { return Ranks(get_dp_process_group(mesh)); },
        nb::arg("device_mesh"));
    m.def("get_pp_stage_mesh", &get_pp_stage_mesh, nb::arg("device_mesh"), any("pp_mesh"));
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
}

void bind_configs(nb::module_& m) {
    constexpr auto any = [](const char* name) { return nb::arg(name).none(); };
    m.def(
        "get_num_nodes",
        [](nb::handle num_nodes, nb::handle local_world_size, nb::handle world_size) {
            return get_num_nodes(environment_of(num_nodes, local_world_size),
                                 int_of(world_size, "world_size"));
        },
        any("num_nodes"), any("local_world_size"), any("world_size"));
    m.def(
        "get_replicate_and_shard_degree",
        [](nb::handle dp, nb::handle dp_world_size, nb::handle num_nodes) {
            return data_parallel_of(dp).get_replicate_and_shard_degree(int_of(dp_world_size, "dp_world_size"),
                                                                       int_of(num_nodes, "num_nodes"));
        },
        any("dp"), any("dp_world_size"), any("num_nodes"));
    m.def(
        "is_single_stage",
        [](std::string_view schedule) { return is_single_stage(pipeline_schedule_type(schedule)); },
        nb::arg("schedule"));
    m.def(
        "default_style",
        [](std::string_view schedule) { return to_string(default_style(pipeline_schedule_type(schedule))); },
        nb::arg("schedule"));
    m.def(
        "num_microbatches",
        [](int stages, const DeviceMesh& pp_mesh, std::string_view schedule, nb::handle num_microbatches) {
            return PipelineSchedule(std::vector<PipelineStage>(static_cast<std::size_t>(stages)), pp_mesh,
                                    pipeline_schedule_type(schedule),
                                    optional_int(num_microbatches, "num_microbatches"))
                .num_microbatches;
        },
        nb::arg("stages"), nb::arg("pp_mesh"), nb::arg("schedule_name"), any("num_microbatches"),
        "The microbatches of a schedule of so many stages.");

    // What follows is a method of PipelineParallelConfig in Python.
    m.def("build_p2p_process_group", &p2p_group, nb::arg("self"), nb::arg("device_mesh"));
    m.def(
        "infer_style", [](nb::handle self) { return to_string(pipeline_of(self).infer_style()); },
        nb::arg("self"));
    m.def(
        "final_stage_rank", [](nb::handle self) { return pipeline_of(self).final_stage_rank(); },
        nb::arg("self"), "The rank of the pipeline that has the last stage.");
    m.def(
        "rank_completion_order",
        [](nb::handle self) { return list_of(pipeline_of(self).rank_completion_order()); }, nb::arg("self"),
        "The ranks of the pipeline in the order in which they complete a batch.");
    m.def(
        "stage_ids_this_rank",
        [](nb::handle self, nb::handle pp_rank, nb::handle num_stages) {
            return nb::tuple(list_of(pipeline_of(self).stage_ids_this_rank(
                int_of(pp_rank, "pp_rank"), int_of(num_stages, "num_stages"))));
        },
        nb::arg("self"), any("pp_rank"), any("num_stages"),
        nb::sig("def stage_ids_this_rank(self: object, pp_rank: int, num_stages: int) -> tuple[int, ...]"),
        "The stages of one rank of the pipeline: every degree-th, or two from both ends.");
}

}  // namespace

void bind_olmo(nb::module_& parent) {
    auto m = parent.def_submodule("olmo", "OLMo-core's meshes and configurations.");
    bind_configs(m);
    bind_meshes(m);
}

}  // namespace rankmesh::python
