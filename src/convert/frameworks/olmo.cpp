// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>

#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include "convert/frameworks/device_mesh_answer.hpp"
#include "convert/words.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace of_olmo {

struct Read {
    olmo::ParallelConfigs configs;
    olmo::Environment environment;
    std::optional<std::string> schedule;
};

std::optional<int> number_in_environment(const char* name) {
    const auto* given = std::getenv(name);
    if (!given) return std::nullopt;
    const auto text = std::string_view(given);
    auto number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 1)
        throw UsageError(cat(name, " is ", detail::in_quotes(text), " in the environment; it is 1 or more"));
    return number;
}

Read configs_in(Settings& settings) {
    auto read = Read{};
    // Under OLMo-core's names for them or in the capitals of the environment.
    const auto either = [&](const char* name, const char* capitals) {
        const auto number = settings.number(name);
        return number ? number : settings.number(capitals);
    };
    read.environment = {.num_nodes = either("num_nodes", "NUM_NODES"),
                        .local_world_size = either("local_world_size", "LOCAL_WORLD_SIZE")};
    settings.enter("train_module");
    settings.let_be({"world_size", "num_nodes", "local_world_size", "NUM_NODES", "LOCAL_WORLD_SIZE"});
    auto& [dp, tp, cp, pp, ep] = read.configs;
    const auto in_table = [&](const char* name, std::initializer_list<std::string_view> others,
                              const std::function<void(Settings&)>& take) {
        settings.has(name);
        auto table = settings.table(name);
        if (!table) return;
        take(*table);
        table->let_be(others);
        table->finish();
    };
    const auto degree = [](auto& config) {
        return [&config](Settings& table) { config = {table.number("degree").value_or(1)}; };
    };
    in_table("dp_config",
             {"param_dtype", "reduce_dtype", "wrapping_strategy", "prefetch_factor",
              "only_allreduce_last_microbatch", "reduce_grads_in_fp32", "accumulate_grads_in_fp32",
              "bucket_cap_mb", "use_reduce_scatter"},
             [&dp = dp](Settings& table) {
                 dp = {.name = olmo::data_parallel_type(table.word("name").value_or("fsdp")),
                       .num_replicas = table.number("num_replicas"),
                       .shard_degree = table.number("shard_degree")};
             });
    in_table("tp_config", {"enable_async", "loss_parallel"}, degree(tp));
    in_table("cp_config", {"load_balancer", "head_stride", "ring", "uly"}, degree(cp));
    in_table("pp_config",
             {"style", "split_points", "stages_per_rank", "p2p_use_separate_group", "p2p_backend",
              "p2p_nccl_min_ctas", "p2p_nccl_max_ctas", "forward_pull_ahead_extra_activations",
              "use_custom_stage_implementation", "save_schedule_plot", "schedule_plot_dir"},
             [&read](Settings& table) {
                 read.configs.pp = olmo::PipelineParallelConfig{.degree = table.number("degree").value_or(1)};
                 read.schedule = table.word("schedule");
             });
    in_table("ep_config", {}, degree(ep));
    return read;
}

Arrangement read(Settings& settings, std::optional<int> world) {
    const auto ranks = needed_world(settings, world, "OLMo-core's data parallel size");
    auto read = configs_in(settings);
    const auto& dp = read.configs.dp;
    auto& [num_nodes, local_world_size] = read.environment;
    const auto by_node =
        dp && dp->name == olmo::DataParallelType::hsdp && !dp->num_replicas && !dp->shard_degree;
    if (by_node && !num_nodes && !local_world_size) {
        num_nodes = number_in_environment("NUM_NODES");
        local_world_size = number_in_environment("LOCAL_WORLD_SIZE");
    }
    if (by_node && !num_nodes && !local_world_size && ranks > 1)
        throw UsageError(
            "OLMo-core's hsdp makes a replica of each node, and nobody says how many nodes there are; give "
            "num_replicas or shard_degree, a word num_nodes=N or local_world_size=N behind the JSON, or "
            "NUM_NODES or LOCAL_WORLD_SIZE in the environment");
    auto arrangement = Arrangement{{olmo::mesh(read.configs, ranks, read.environment)}};
    if (read.configs.ep && size_of(arrangement.dense(), "dp_shard") > 1) {
        const auto experts = joined(arrangement.dense(), {"dp_replicate", "cp"}, "edp");
        arrangement.meshes.push_back(joined(joined(experts, {"dp_shard"}, "ep"), {"tp"}, "etp"));
    }
    if (read.schedule)
        arrangement.extras.push_back({std::string(pipeline_schedule), schedule_named(*read.schedule)});
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
    if (ep > 1 && shards == ep) configs.ep = olmo::ExpertParallelConfig{ep};
    if (configs.ep || (shards > 1 && data_size(mesh) > shards))
        dp = {.name = olmo::DataParallelType::hsdp,
              .num_replicas = data_size(mesh) / shards,
              .shard_degree = shards};
    else if (size_of(mesh, "dp_replicate") > 1)
        dp.name = olmo::DataParallelType::ddp;
    if (size_of(mesh, "tp") > 1) configs.tp = {size_of(mesh, "tp")};
    if (size_of(mesh, "cp") > 1) configs.cp = {size_of(mesh, "cp")};
    if (size_of(mesh, "pp") > 1) configs.pp = olmo::PipelineParallelConfig{.degree = size_of(mesh, "pp")};
    return configs;
}

Document write(const Arrangement& arrangement) {
    constexpr std::string_view types[] = {"fsdp", "hsdp", "ddp"};
    const auto& [dp, tp, cp, pp, ep] = olmo_configs(arrangement);
    auto values = Json{{"dp_config", {{"name", types[static_cast<std::size_t>(dp->name)]}}}};
    if (dp->num_replicas) values["dp_config"]["num_replicas"] = *dp->num_replicas;
    if (dp->shard_degree) values["dp_config"]["shard_degree"] = *dp->shard_degree;
    const auto say = [&values](const char* name, const auto& config) {
        if (config) values[name] = {{"degree", config->degree}};
    };
    say("tp_config", tp);
    say("cp_config", cp);
    say("pp_config", pp);
    if (const auto schedule = extra_of(arrangement, pipeline_schedule); schedule && pp)
        values["pp_config"]["schedule"] = *schedule;
    say("ep_config", ep);
    return {values, values.dump(2)};
}

/// Asks a mesh that is built for the question alone: some flatten what they are given.
Json answers(const std::function<olmo::DeviceMesh()>& build) {
    using Mesh = olmo::DeviceMesh;
    const auto ask = [&](auto&& of) { return [&build, of] { return of(build()); }; };
    const auto part = [&](auto&& of) { return [&build, of] { return described(of(build())); }; };
    return Answers{}
        .add("get_rank", ask([](const Mesh& m) { return m.get_rank(); }))
        .add("get_coordinate", ask([](const Mesh& m) { return m.get_coordinate(); }))
        .add("get_device_mesh_info", ask(olmo::get_device_mesh_info))
        .add("get_dp_process_group",
             ask([](const Mesh& m) { return to_string(olmo::get_dp_process_group(m)); }))
        .add("get_dp_model_mesh", part(olmo::get_dp_model_mesh))
        .add("get_dp_mesh", part(olmo::get_dp_mesh))
        .add("get_tp_mesh", part(olmo::get_tp_mesh))
        .add("get_cp_mesh", part(olmo::get_cp_mesh))
        .add("get_pp_mesh", part(olmo::get_pp_mesh))
        .add("get_pp_stage_mesh", part([](const Mesh& m) { return olmo::get_pp_stage_mesh(m); }))
        .add("get_ep_mesh", part(olmo::get_ep_mesh))
        .all();
}

Words words(const Arrangement& roles, const Document&) {
    const auto configs = olmo_configs(roles);
    const auto world = roles.dense().size();
    const auto build = [configs, world](int rank) {
        return olmo::WorldMesh(rank, world).build_world_mesh(configs);
    };
    const auto mesh = build(0);
    auto in_words = Words{.dialect = {}, .mesh = mesh.root(), .kinds = {}, .answers = [build](int rank) {
                              return answers([&] { return build(rank); });
                          }};
    for (const auto& made : olmo::new_groups(mesh))
        in_words.kinds.push_back({.name = made.group_desc,
                                  .count = made.groups.size(),
                                  .group = [groups = made.groups](int i) { return list_of(groups[i]); },
                                  .of = [root = mesh.root(), axes = made.axes](
                                            int rank) { return list_of(root.group(rank, axes)); }});
    return in_words;
}

}  // namespace of_olmo

Framework olmo() {
    constexpr auto experts =
        "OLMo-core's experts stand in the shards of HSDP replicas, one each, and not beside tp";
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
        .why = {{"ep", experts},
                {"edp", experts},
                {"etp", experts},
                {virtual_stages, "OLMo-core's schedules take their stages from the model's split points"}},
        .version = "3.0.0"};
}

}  // namespace rankmesh::conversion
