// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include "convert/frameworks/device_mesh_answer.hpp"
#include "convert/words.hpp"

namespace rankmesh::conversion {

namespace of_olmo {

using olmo::DeviceMesh;

/// Reads a configuration; `others` are its settings that do not say where ranks stand.
void in_table(Settings& settings, std::string_view name, std::initializer_list<std::string_view> others,
              const std::function<void(Settings&)>& take) {
    settings.has(name);
    auto table = settings.table(name);
    if (!table) return;
    take(*table);
    table->ignore(others);
    table->finish();
}

olmo::ParallelConfigs configs_in(Settings& settings, std::vector<Extra>& extras) {
    auto configs = olmo::ParallelConfigs{};
    const auto degree = [](auto& config) {
        return [&config](Settings& table) { config = {table.number("degree").value_or(1)}; };
    };
    in_table(settings, "dp_config",
             {"param_dtype", "reduce_dtype", "wrapping_strategy", "prefetch_factor",
              "only_allreduce_last_microbatch", "reduce_grads_in_fp32", "accumulate_grads_in_fp32",
              "bucket_cap_mb", "use_reduce_scatter"},
             [&](Settings& table) {
                 configs.dp = {.name = olmo::data_parallel_type(table.word("name").value_or("fsdp")),
                               .num_replicas = table.number("num_replicas"),
                               .shard_degree = table.number("shard_degree")};
             });
    in_table(settings, "tp_config", {"enable_async", "loss_parallel"}, degree(configs.tp));
    in_table(settings, "cp_config", {"load_balancer", "head_stride", "ring", "uly"}, degree(configs.cp));
    in_table(settings, "pp_config",
             {"style", "split_points", "stages_per_rank", "p2p_use_separate_group", "p2p_backend",
              "p2p_nccl_min_ctas", "p2p_nccl_max_ctas", "forward_pull_ahead_extra_activations",
              "use_custom_stage_implementation", "save_schedule_plot", "schedule_plot_dir"},
             [&](Settings& table) {
                 configs.pp = {.degree = table.number("degree").value_or(1)};
                 if (const auto schedule = table.word("schedule"))
                     extras.push_back({std::string(pipeline_schedule), schedule_named(*schedule)});
             });
    in_table(settings, "ep_config", {}, degree(configs.ep));
    return configs;
}

Arrangement read(Settings& settings, std::optional<int> world) {
    const auto ranks = needed_world(settings, world, "OLMo-core's data parallel size");
    // Under OLMo-core's names for them or in the capitals of the environment.
    const auto either = [&](const char* name, const char* capitals) {
        const auto number = settings.number(name);
        return number ? number : settings.number(capitals);
    };
    auto environment = olmo::Environment{.num_nodes = either("num_nodes", "NUM_NODES"),
                                         .local_world_size = either("local_world_size", "LOCAL_WORLD_SIZE")};
    settings.enter("train_module");
    settings.ignore({"world_size", "num_nodes", "local_world_size", "NUM_NODES", "LOCAL_WORLD_SIZE"});
    auto extras = std::vector<Extra>{};
    const auto configs = configs_in(settings, extras);
    const auto& dp = configs.dp;
    const auto is_known = [&] { return environment.num_nodes || environment.local_world_size; };
    if (dp && dp->name == olmo::DataParallelType::hsdp && !dp->num_replicas && !dp->shard_degree) {
        if (!is_known()) environment = olmo::environment_of();
        if (!is_known() && ranks > 1)
            throw UsageError(
                "OLMo-core's hsdp makes a replica of each node, and nobody says how many nodes there are; "
                "give num_replicas or shard_degree, a word num_nodes=N or local_world_size=N behind the "
                "JSON, or NUM_NODES or LOCAL_WORLD_SIZE in the environment");
    }
    auto arrangement = Arrangement{{olmo::mesh(configs, ranks, environment)}, extras};
    if (dp) arrangement.dp_role = dp->name == olmo::DataParallelType::ddp ? "dp_replicate" : "dp_shard";
    if (configs.ep && size_of(arrangement.dense(), "dp_shard") > 1) {
        const auto experts = joined(arrangement.dense(), {"dp_replicate", "cp"}, "edp");
        arrangement.meshes.push_back(joined(joined(experts, {"dp_shard"}, "ep"), {"tp"}, "etp"));
    }
    return arrangement;
}

/// What build_world_mesh is called with for an arrangement in roles.
olmo::ParallelConfigs olmo_configs(const Arrangement& arrangement) {
    const auto& mesh = arrangement.dense();
    auto configs = olmo::ParallelConfigs{};
    auto& dp = configs.dp.emplace();
    auto shards = size_of(mesh, "dp_shard");
    // Experts stand in the shards of a replica; without tensor parallelism, which excludes them.
    const auto* experts = arrangement.experts();
    const auto ep = experts && size_of(mesh, "tp") == 1 ? size_of(*experts, "ep") : 1;
    if (ep > 1 && shards == 1 && size_of(mesh, "dp_replicate") == 1 && data_size(mesh) % ep == 0) shards = ep;
    if (ep > 1 && shards == ep) configs.ep = {ep};
    if (configs.ep || (shards > 1 && data_size(mesh) > shards))
        dp = {olmo::DataParallelType::hsdp, data_size(mesh) / shards, shards};
    else if (size_of(mesh, "dp_replicate") > 1)
        dp.name = olmo::DataParallelType::ddp;
    const auto set = [&](const char* axis, auto& config) {
        if (size_of(mesh, axis) > 1) config = {size_of(mesh, axis)};
    };
    set("tp", configs.tp), set("cp", configs.cp), set("pp", configs.pp);
    return configs;
}

Document write(const Arrangement& arrangement) {
    const auto& [dp, tp, cp, pp, ep] = olmo_configs(arrangement);
    auto values = Json{{"dp_config", {{"name", to_string(dp->name)}}}};
    if (dp->num_replicas) values["dp_config"]["num_replicas"] = *dp->num_replicas;
    if (dp->shard_degree) values["dp_config"]["shard_degree"] = *dp->shard_degree;
    const auto say = [&values](const char* name, const auto& config) {
        if (config) values[name] = {{"degree", config->degree}};
    };
    say("tp_config", tp), say("cp_config", cp), say("pp_config", pp), say("ep_config", ep);
    if (const auto schedule = extra_of(arrangement, pipeline_schedule); schedule && pp)
        values["pp_config"]["schedule"] = *schedule;
    return {values, values.dump(2)};
}

/// Asks a mesh that is built for the question alone: some flatten what they are given.
Json answers(const std::function<DeviceMesh()>& build) {
    const auto stage = [](const DeviceMesh& mesh) { return olmo::get_pp_stage_mesh(mesh); };
    const std::pair<const char*, DeviceMesh (*)(const DeviceMesh&)> parts[] = {
        {"get_dp_model_mesh", olmo::get_dp_model_mesh},
        {"get_dp_mesh", olmo::get_dp_mesh},
        {"get_tp_mesh", olmo::get_tp_mesh},
        {"get_cp_mesh", olmo::get_cp_mesh},
        {"get_pp_mesh", olmo::get_pp_mesh},
        {"get_pp_stage_mesh", stage},
        {"get_ep_mesh", olmo::get_ep_mesh}};
    auto answers = Answers{};
    answers.add("get_rank", [&] { return build().get_rank(); })
        .add("get_coordinate", [&] { return build().get_coordinate(); })
        .add("get_device_mesh_info", [&] { return olmo::get_device_mesh_info(build()); })
        .add("get_dp_process_group", [&] { return to_string(olmo::get_dp_process_group(build())); });
    for (const auto& part : parts) answers.add(part.first, [&] { return described(part.second(build())); });
    return answers.all();
}

Words words(const Arrangement& roles, const Document&) {
    const auto build = [configs = olmo_configs(roles), world = roles.dense().size()](int rank) {
        return olmo::WorldMesh(rank, world).build_world_mesh(configs);
    };
    const auto mesh = build(0);
    auto in_words = Words{.dialect = {}, .mesh = mesh.root(), .kinds = {}, .answers = [build](int rank) {
                              return answers([&] { return build(rank); });
                          }};
    for (const auto& made : olmo::new_groups(mesh)) {
        auto& kind = in_words.kinds.emplace_back(kind_along(made.group_desc, mesh.root(), made.axes));
        kind.group = [groups = made.groups](int i) { return list_of(groups[i]); };  // in torch's order
    }
    return in_words;
}

}  // namespace of_olmo

Framework olmo() {
    constexpr auto experts = "OLMo-core's ep is the shard degree of HSDP, and excludes tp";
    return {
        .name = "olmo",
        .of =
            "dp_config, tp_config, cp_config, pp_config, ep_config of OLMo-core, as JSON; needs the world's "
            "size",
        .example = "'{\"dp_config\": {\"name\": \"fsdp\"}, \"tp_config\": {\"degree\": 2}}' --world 8",
        .read = of_olmo::read,
        .write = of_olmo::write,
        .words = of_olmo::words,
        .roles = {"pp", "dp", "cp", "tp"},
        .why = {{"ep, edp, etp", experts},
                {virtual_stages, "OLMo-core's schedules take their stages from the model's split points"}},
        .copies_by = "set dp_config's name to \"ddp\"",
        .version = "3.0.0"};
}

}  // namespace rankmesh::conversion
