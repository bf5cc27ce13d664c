// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::olmo;
using rankmesh::Group;

std::optional<int> number(const Json& object, const char* key) {
    if (!object.contains(key) || object[key].is_null()) return std::nullopt;
    return object[key].get<int>();
}

template <class Config>
std::optional<Config> degree_of(const Json& config, const char* key) {
    const auto degree = number(config, key);
    return degree ? std::optional(Config{*degree}) : std::nullopt;
}

ParallelConfigs configs_of(const Json& config) {
    auto configs = ParallelConfigs{.tp = degree_of<TensorParallelConfig>(config, "tp"),
                                   .cp = degree_of<ContextParallelConfig>(config, "cp"),
                                   .pp = degree_of<PipelineParallelConfig>(config, "pp"),
                                   .ep = degree_of<ExpertParallelConfig>(config, "ep")};
    if (config.contains("dp") && !config["dp"].is_null()) {
        const auto& dp = config["dp"];
        configs.dp = DataParallelConfig{.name = data_parallel_type(dp["name"].get<std::string>()),
                                        .num_replicas = number(dp, "num_replicas"),
                                        .shard_degree = number(dp, "shard_degree")};
    }
    return configs;
}

WorldMesh world_mesh_of(const Json& config, int rank) {
    return {
        rank,
        config["world_size"],
        {.num_nodes = number(config, "num_nodes"), .local_world_size = number(config, "local_world_size")}};
}

Json names_of(const DeviceMesh& mesh) {
    const auto names = mesh.mesh_dim_names();
    return names ? Json(*names) : Json(nullptr);
}

Json described(const DeviceMesh& mesh) {
    const auto coordinate = mesh.get_coordinate();
    return {{"names", names_of(mesh)},
            {"shape", Json(mesh.shape())},
            {"ranks", ranks(mesh.mesh())},
            {"coord", coordinate ? Json(*coordinate) : Json(nullptr)}};
}

/// The value of a question by its name.
Json asked(const DeviceMesh& mesh, const std::string& what) {
    using Question = std::function<Json()>;
    const std::map<std::string, Question> questions = {
        {"dp_model_mesh", [&] { return described(get_dp_model_mesh(mesh)); }},
        {"dp_mesh", [&] { return described(get_dp_mesh(mesh)); }},
        {"tp_mesh", [&] { return described(get_tp_mesh(mesh)); }},
        {"cp_mesh", [&] { return described(get_cp_mesh(mesh)); }},
        {"pp_mesh", [&] { return described(get_pp_mesh(mesh)); }},
        {"pp_stage_mesh", [&] { return described(get_pp_stage_mesh(mesh)); }},
        {"ep_mesh", [&] { return described(get_ep_mesh(mesh)); }},
        {"dp_shard_mesh", [&] { return described(get_dp_shard_mesh(mesh)); }},
        {"dp_replicate_mesh", [&] { return described(get_dp_replicate_mesh(mesh)); }},
        {"dp_process_group", [&] { return ranks(get_dp_process_group(mesh)); }},
        {"dp_group_rank", [&] { return Json(*get_dp_process_group(mesh).group_rank(mesh.get_rank())); }},
        {"rank", [&] { return Json(mesh.get_rank()); }},
        {"names", [&] { return names_of(mesh); }},
        {"shape", [&] { return Json(mesh.shape()); }},
        {"info", [&] { return Json(get_device_mesh_info(mesh)); }}};
    return attempt([&] { return questions.at(what)(); });
}

/// The questions that the case asks, in its order, of one mesh.
Json all_asked(const DeviceMesh& mesh, const Json& questions) {
    auto answer = Json::object();
    for (const auto& [what, value] : questions.items()) answer[what] = asked(mesh, what);
    return answer;
}

Json rows_asked(const Json& rows, const std::function<DeviceMesh(int)>& mesh_of) {
    auto answer = Json::array();
    for (const auto& row : rows) answer.push_back(all_asked(mesh_of(row["rank"]), row));
    return answer;
}

Json build(const Case& test) {
    auto kept = world_mesh_of(test.config, 0);
    const auto configs = configs_of(test.config);
    const auto mesh = kept.build_world_mesh(configs);
    auto answer = Json{{"names", names_of(mesh)},
                       {"shape", Json(mesh.shape())},
                       {"info", get_device_mesh_info(mesh)},
                       {"world_mesh_set", kept.get_world_mesh().has_value()}};
    auto calls = Json::array();
    auto by_desc = Json::object();
    for (const auto& made : new_groups(mesh)) {
        by_desc[made.group_desc] = groups(made.groups);
        for (const auto& group : made.groups) calls.push_back({made.group_desc, ranks(group)});
    }
    if (test.expect.contains("new_group_calls_at_build_by_desc"))
        answer["new_group_calls_at_build_by_desc"] = by_desc;
    else
        answer["new_group_calls_at_build"] = calls;
    const auto rows = test.expect.find("per_rank");
    answer["per_rank"] = rows_asked(rows == test.expect.end() ? Json::array() : *rows, [&](int rank) {
        return world_mesh_of(test.config, rank).build_world_mesh(configs);
    });
    return answer;
}

Json build_on_uncovered_rank(const Case& test) {
    return described(
        world_mesh_of(test.config, test.config["rank"]).build_world_mesh(configs_of(test.config)));
}

Json build_twice(const Case& test) {
    auto kept = world_mesh_of(test.config, 0);
    kept.build_world_mesh(configs_of(test.config));
    return described(kept.build_world_mesh(configs_of(test.config)));
}

/// Without configurations nothing is kept, so that a mesh can still be built.
Json build_twice_no_config(const Case& test) {
    auto kept = world_mesh_of(test.config, 0);
    kept.build_world_mesh();
    const auto nothing_kept = !kept.get_world_mesh();
    kept.build_world_mesh({.dp = DataParallelConfig{}});
    return {{"second_ok", nothing_kept}, {"world_mesh", kept.get_world_mesh().has_value()}};
}

Json any_mesh(const Case& test) {
    const auto names = test.config.contains("names")
                           ? DimNames(test.config["names"].get<std::vector<std::string>>())
                           : std::nullopt;
    const auto shape = test.config["shape"].get<std::vector<int>>();
    return all_asked(init_device_mesh(shape, names, 0, test.config["world_size"]), test.expect);
}

Json device_mesh_info(const Case& test) {
    const int world = test.config["world_size"];
    return {{"unnamed_1d", get_device_mesh_info(init_device_mesh({world}, std::nullopt, 0, world))},
            {"named_1d", get_device_mesh_info(init_device_mesh({world}, {{"dp"}}, 0, world))}};
}

Json expert_parallel_mesh(const Case& test) {
    const auto config = ExpertParallelConfig{test.config["degree"]};
    const int world = test.config["world_size"];
    const auto rows = test.expect.find("per_rank");
    build_expert_parallel_mesh(config, 0, world);
    return {{"per_rank", rows_asked(rows == test.expect.end() ? Json::array() : *rows, [&](int rank) {
                 return build_expert_parallel_mesh(config, rank, world);
             })}};
}

Json replicate_and_shard(const Case& test) {
    const auto config = DataParallelConfig{.name = DataParallelType::hsdp,
                                           .num_replicas = number(test.config, "num_replicas"),
                                           .shard_degree = number(test.config, "shard_degree")};
    const auto degrees =
        config.get_replicate_and_shard_degree(test.config["dp_world_size"], test.config["num_nodes"]);
    return Json::array({degrees.first, degrees.second});
}

PipelineParallelConfig pipeline_of(const Json& config) {
    auto pipeline = PipelineParallelConfig{.degree = number(config, "degree").value_or(1)};
    if (config.contains("schedule"))
        pipeline.schedule = pipeline_schedule_type(config["schedule"].get<std::string>());
    if (config.contains("style")) pipeline.style = pipeline_split_style(config["style"].get<std::string>());
    return pipeline;
}

Json pp_schedule(const Case& test) {
    const auto schedule = pipeline_of(test.config).schedule;
    return {{"is_single_stage", is_single_stage(schedule)},
            {"is_multi_stage", is_multi_stage(schedule)},
            {"default_style", to_string(default_style(schedule))}};
}

Json pp_config(const Case& test) {
    const auto pipeline = pipeline_of(test.config);
    auto order = Json::array();
    for (auto rank : pipeline.rank_completion_order()) order.push_back(rank);
    auto answer = Json{{"final_stage_rank", pipeline.final_stage_rank()},
                       {"rank_completion_order", order},
                       {"stage_ids", Json::object()}};
    const auto asked = test.expect.find("stage_ids");
    if (asked == test.expect.end()) return answer;
    for (const auto& [num_stages, value] : asked->items())
        answer["stage_ids"][num_stages] = attempt([&, stages = std::stoi(num_stages)] {
            auto of_ranks = Json::array();
            for (int rank = 0; rank < pipeline.degree; ++rank)
                of_ranks.push_back(pipeline.stage_ids_this_rank(rank, stages));
            return of_ranks;
        });
    return answer;
}

Json pp_infer_style(const Case& test) {
    const auto pipeline = pipeline_of(test.config);
    return {{"style", to_string(pipeline.infer_style())}, {"final_stage_rank", pipeline.final_stage_rank()}};
}

Json pp_stage_ids(const Case& test) {
    return pipeline_of(test.config).stage_ids_this_rank(test.config["pp_rank"], test.config["num_stages"]);
}

std::vector<Fault> faults(const Case&, std::string_view type, std::string_view message) {
    const auto says = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
    if (type == "ZeroDivisionError" || type == "UnboundLocalError") return {Fault::sizes};
    if (type == "KeyError" && says("LOCAL_WORLD_SIZE")) return {Fault::missing};
    if (type == "KeyError") return {Fault::unknown, Fault::argument};  // an unknown name, or another order
    if (type == "IndexError") return {Fault::out_of_range};
    if (type == "ValueError") return {Fault::unknown};
    if (type == "AssertionError") return {message.empty() ? Fault::argument : Fault::sizes};
    if (type != "OLMoConfigurationError" && type != "RuntimeError") return {};
    if (says("already exists")) return {Fault::exists};
    if (says("is required in addition") || says("without dimension names")) return {Fault::missing};
    if (says("could not determine")) return {Fault::unknown};
    if (says("mutually exclusive") || says("can currently only be used with")) return {Fault::exclusive};
    if (says("should be called on the original") || says("Flattening failed") || says("from a submesh"))
        return {Fault::argument};
    return {Fault::sizes};  // degrees that do not divide, and torch's own words on shapes
}

}  // namespace

System olmo_mesh() {
    return {.name = "olmo_mesh",
            .kinds = {{"build", build},
                      {"build_error", build},
                      {"build_on_uncovered_rank", build_on_uncovered_rank},
                      {"build_twice", build_twice},
                      {"build_twice_no_config", build_twice_no_config},
                      {"unnamed_mesh", any_mesh},
                      {"foreign_mesh", any_mesh},
                      {"device_mesh_info", device_mesh_info},
                      {"expert_parallel_mesh", expert_parallel_mesh},
                      {"expert_parallel_mesh_error", expert_parallel_mesh},
                      {"replicate_and_shard", replicate_and_shard},
                      {"pp_schedule", pp_schedule},
                      {"pp_config", pp_config},
                      {"pp_infer_style", pp_infer_style},
                      {"pp_stage_ids_bad_rank", pp_stage_ids}},
            .faults = faults};
}

}  // namespace golden
