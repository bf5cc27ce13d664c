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

/// (name, num_replicas, shard_degree).
DataParallelConfig data_parallel_of(nb::handle config) {
    const nb::object name = config[0], num_replicas = config[1], shard_degree = config[2];
    return {.name = data_parallel_type(text_of(name, "name")),
            .num_replicas = optional_int(num_replicas, "num_replicas"),
            .shard_degree = optional_int(shard_degree, "shard_degree")};
}

template <class Config>
std::optional<Config> of_degree(nb::handle degree) {
    const auto given = optional_int(degree, "degree");
    return given ? std::optional(Config{*given}) : std::nullopt;
}

ParallelConfigs configs_of(nb::handle dp, nb::handle tp, nb::handle cp, nb::handle pp, nb::handle ep) {
    return {.dp = dp.is_none() ? std::nullopt : std::optional(data_parallel_of(dp)),
            .tp = of_degree<TensorParallelConfig>(tp),
            .cp = of_degree<ContextParallelConfig>(cp),
            .pp = of_degree<PipelineParallelConfig>(pp),
            .ep = of_degree<ExpertParallelConfig>(ep)};
}

PipelineParallelConfig pipeline_of(nb::handle degree, nb::handle schedule, nb::handle style) {
    return {.degree = int_of(degree, "degree"),
            .schedule = pipeline_schedule_type(text_of(schedule, "schedule")),
            .style = style.is_none() ? std::nullopt
                                     : std::optional(pipeline_split_style(text_of(style, "style")))};
}

void bind_world_mesh(nb::module_& m) {
    nb::class_<WorldMesh>(m, "WorldMesh", "The world mesh of one rank, once it is built.")
        .def(
            "__init__",
            [](WorldMesh* self, nb::handle rank, nb::handle world_size, nb::handle num_nodes,
               nb::handle local_world_size) {
                new (self) WorldMesh(int_of(rank, "rank"), int_of(world_size, "world_size"),
                                     environment_of(num_nodes, local_world_size));
            },
            nb::arg("rank").none(), nb::arg("world_size").none(), nb::arg("num_nodes").none(),
            nb::arg("local_world_size").none())
        .def(
            "build_world_mesh",
            [](WorldMesh& self, nb::handle dp, nb::handle tp, nb::handle cp, nb::handle pp, nb::handle ep) {
                return self.build_world_mesh(configs_of(dp, tp, cp, pp, ep));
            },
            nb::arg("dp").none(), nb::arg("tp").none(), nb::arg("cp").none(), nb::arg("pp").none(),
            nb::arg("ep").none(), "The mesh of these degrees; dp is its name, replicas and shards.")
        .def("get_world_mesh", [](const WorldMesh& self) { return self.get_world_mesh(); });
    m.def(
        "build_expert_parallel_mesh",
        [](nb::handle degree, nb::handle rank, nb::handle world_size) {
            return build_expert_parallel_mesh({int_of(degree, "degree")}, int_of(rank, "rank"),
                                              int_of(world_size, "world_size"));
        },
        nb::arg("degree").none(), nb::arg("rank").none(), nb::arg("world_size").none());
    m.def(
        "build_dense_and_moe_mesh",
        [](nb::handle dp, nb::handle tp, nb::handle cp, nb::handle pp, nb::handle ep, nb::handle rank,
           nb::handle world_size) {
            auto made = build_dense_and_moe_mesh(configs_of(dp, tp, cp, pp, ep), int_of(rank, "rank"),
                                                 int_of(world_size, "world_size"));
            return std::pair(std::move(made.dense), std::move(made.moe));
        },
        nb::arg("dp").none(), nb::arg("tp").none(), nb::arg("cp").none(), nb::arg("pp").none(),
        nb::arg("ep").none(), nb::arg("rank").none(), nb::arg("world_size").none());
    m.def("get_device_mesh_info", &get_device_mesh_info, nb::arg("device_mesh"));
    m.def("get_dp_model_mesh", &get_dp_model_mesh, nb::arg("device_mesh"));
    m.def("get_dp_mesh", &get_dp_mesh, nb::arg("device_mesh"));
    m.def(
        "get_dp_process_group", [](const DeviceMesh& mesh) { return Ranks(get_dp_process_group(mesh)); },
        nb::arg("device_mesh"));
    m.def("get_dp_shard_mesh", &get_dp_shard_mesh, nb::arg("device_mesh"));
    m.def("get_dp_replicate_mesh", &get_dp_replicate_mesh, nb::arg("device_mesh"));
    m.def("get_tp_mesh", &get_tp_mesh, nb::arg("device_mesh"));
    m.def("get_cp_mesh", &get_cp_mesh, nb::arg("device_mesh"));
    m.def("get_pp_mesh", &get_pp_mesh, nb::arg("device_mesh"));
    m.def("get_pp_stage_mesh", &get_pp_stage_mesh, nb::arg("device_mesh"), nb::arg("pp_mesh").none());
    m.def("get_ep_mesh", &get_ep_mesh, nb::arg("device_mesh"));
}

void bind_configs(nb::module_& m) {
    m.def(
        "get_num_nodes",
        [](nb::handle num_nodes, nb::handle local_world_size, nb::handle world_size) {
            return get_num_nodes(environment_of(num_nodes, local_world_size),
                                 int_of(world_size, "world_size"));
        },
        nb::arg("num_nodes").none(), nb::arg("local_world_size").none(), nb::arg("world_size").none());
    m.def(
        "get_replicate_and_shard_degree",
        [](nb::handle dp, nb::handle dp_world_size, nb::handle num_nodes) {
            return data_parallel_of(dp).get_replicate_and_shard_degree(int_of(dp_world_size, "dp_world_size"),
                                                                       int_of(num_nodes, "num_nodes"));
        },
        nb::arg("dp").none(), nb::arg("dp_world_size").none(), nb::arg("num_nodes").none());
    m.def(
        "is_single_stage",
        [](nb::handle schedule) {
            return is_single_stage(pipeline_schedule_type(text_of(schedule, "schedule")));
        },
        nb::arg("schedule").none());
    m.def(
        "default_style",
        [](nb::handle schedule) {
            return to_string(default_style(pipeline_schedule_type(text_of(schedule, "schedule"))));
        },
        nb::arg("schedule").none());
    m.def(
        "infer_style",
        [](nb::handle degree, nb::handle schedule, nb::handle style) {
            return to_string(pipeline_of(degree, schedule, style).infer_style());
        },
        nb::arg("degree").none(), nb::arg("schedule").none(), nb::arg("style").none());
    m.def(
        "build_p2p_process_group",
        [](const DeviceMesh& mesh, bool separate, nb::handle backend, nb::handle min_ctas,
           nb::handle max_ctas) -> std::optional<Ranks> {
            const auto config =
                PipelineParallelConfig{.p2p_use_separate_group = separate,
                                       .p2p_backend = pipeline_p2p_backend(text_of(backend, "p2p_backend")),
                                       .p2p_nccl_min_ctas = optional_int(min_ctas, "p2p_nccl_min_ctas"),
                                       .p2p_nccl_max_ctas = optional_int(max_ctas, "p2p_nccl_max_ctas")};
            const auto group = config.build_p2p_process_group(mesh);
            return group ? std::optional(Ranks(*group)) : std::nullopt;
        },
        nb::arg("device_mesh"), nb::arg("separate"), nb::arg("backend").none(), nb::arg("min_ctas").none(),
        nb::arg("max_ctas").none());
    m.def(
        "rank_completion_order",
        [](nb::handle degree, nb::handle schedule, nb::handle style) {
            return list_of(pipeline_of(degree, schedule, style).rank_completion_order());
        },
        nb::arg("degree").none(), nb::arg("schedule").none(), nb::arg("style").none());
    m.def(
        "final_stage_rank",
        [](nb::handle degree, nb::handle schedule, nb::handle style) {
            return pipeline_of(degree, schedule, style).final_stage_rank();
        },
        nb::arg("degree").none(), nb::arg("schedule").none(), nb::arg("style").none());
    m.def(
        "stage_ids_this_rank",
        [](nb::handle degree, nb::handle schedule, nb::handle style, nb::handle pp_rank,
           nb::handle num_stages) {
            return list_of(
                pipeline_of(degree, schedule, style)
                    .stage_ids_this_rank(int_of(pp_rank, "pp_rank"), int_of(num_stages, "num_stages")));
        },
        nb::arg("degree").none(), nb::arg("schedule").none(), nb::arg("style").none(),
        nb::arg("pp_rank").none(), nb::arg("num_stages").none());
    m.def(
        "num_microbatches",
        [](nb::handle stages, const DeviceMesh& pp_mesh, nb::handle schedule, nb::handle num_microbatches) {
            auto count = std::vector<PipelineStage>(static_cast<std::size_t>(int_of(stages, "stages")));
            return PipelineSchedule(std::move(count), pp_mesh,
                                    pipeline_schedule_type(text_of(schedule, "schedule_name")),
                                    optional_int(num_microbatches, "num_microbatches"))
                .num_microbatches;
        },
        nb::arg("stages").none(), nb::arg("pp_mesh"), nb::arg("schedule_name").none(),
        nb::arg("num_microbatches").none(), "The microbatches of a schedule of so many stages.");
}

}  // namespace

void bind_olmo(nb::module_& parent) {
    auto m = parent.def_submodule("olmo", "OLMo-core's meshes and configurations.");
    bind_configs(m);
    bind_world_mesh(m);
}

}  // namespace rankmesh::python
