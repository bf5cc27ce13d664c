// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/olmo.hpp>

#include "check.hpp"

namespace golden {
namespace {

using rankmesh::frameworks::DimNames;
using rankmesh::frameworks::init_device_mesh;
using namespace rankmesh::olmo;
using rankmesh::Group;

const auto any = State();  // which is asked about meshes and pipelines

std::optional<int> number(const Json& object, const char* key) {
    if (!object.contains(key) || object[key].is_null()) return std::nullopt;
    return object[key].get<int>();
}

std::optional<std::string> word(const Json& object, const char* key) {
    return object.contains(key) ? std::optional(object[key].get<std::string>()) : std::nullopt;
}

Settings settings_of(const Json& config) {
    auto settings = Settings{.tp = number(config, "tp"),
                             .cp = number(config, "cp"),
                             .pp = number(config, "pp"),
                             .ep = number(config, "ep"),
                             .num_nodes = number(config, "num_nodes"),
                             .local_world_size = number(config, "local_world_size")};
    if (config.contains("dp") && !config["dp"].is_null()) {
        settings.dp_type = word(config["dp"], "name");
        settings.num_replicas = number(config["dp"], "num_replicas");
        settings.shard_degree = number(config["dp"], "shard_degree");
    }
    return settings;
}

DeviceMesh built(const Json& config, int rank) {
    return *State(settings_of(config), rank, config["world_size"]).get_world_mesh();
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

Group dp_process_group(const DeviceMesh& mesh) {
    const auto dp = any.get_dp_mesh(mesh);
    return (dp.ndim() > 1 ? dp.flatten("dp") : dp).get_group();
}

/// The value of a question by its name; `tp_mesh` is get_tp_mesh.
Json asked(const DeviceMesh& mesh, const std::string& what) {
    using Question = std::function<Json()>;
    const std::map<std::string, Question> questions = {
        {"dp_process_group", [&] { return ranks(dp_process_group(mesh)); }},
        {"dp_group_rank", [&] { return Json(*dp_process_group(mesh).group_rank(mesh.get_rank())); }},
        {"rank", [&] { return Json(mesh.get_rank()); }},
        {"names", [&] { return names_of(mesh); }},
        {"shape", [&] { return Json(mesh.shape()); }},
        {"info", [&] { return Json(any.get_device_mesh_info(mesh)); }}};
    const auto question = questions.find(what);
    return attempt([&] {
        if (question != questions.end()) return question->second();
        const auto part = any.ask("get_" + what, {{"device_mesh", std::vector{mesh}}});
        return described(std::get<std::vector<DeviceMesh>>(part).front());
    });
}

/// The questions that the case asks, in its order, of one mesh.
Json all_asked(const DeviceMesh& mesh, const Json& questions) {
    auto answer = Json::object();
    for (const auto& [what, value] : questions.items()) answer[what] = asked(mesh, what);
    return answer;
}

Json rows_asked(const Json& expect, const std::function<DeviceMesh(int)>& mesh_of) {
    auto answer = Json::array();
    if (expect.contains("per_rank"))
        for (const auto& row : expect["per_rank"]) answer.push_back(all_asked(mesh_of(row["rank"]), row));
    return answer;
}

Json build(const Case& test) {
    const auto mesh = built(test.config, 0);
    auto answer = Json{{"names", names_of(mesh)},
                       {"shape", Json(mesh.shape())},
                       {"info", any.get_device_mesh_info(mesh)},
                       {"world_mesh_set", settings_of(test.config).dp_type.has_value()}};
    auto calls = Json::array();
    auto by_desc = Json::object();
    const auto made = rankmesh::olmo::groups(settings_of(test.config), test.config["world_size"]);
    for (const auto& kind : made.kinds()) {
        if (kind == "mesh_dp_cp") continue;  // which get_dp_model_mesh makes
        by_desc[kind] = Json::array();
        for (int i = 0; i < made.count(kind); ++i) {
            const auto group = made.group(kind, i);
            by_desc[kind].push_back(std::vector<int>(group.begin(), group.end()));
        }
        for (const auto& group : by_desc[kind]) calls.push_back({kind, group});
    }
    if (test.expect.contains("new_group_calls_at_build_by_desc"))
        answer["new_group_calls_at_build_by_desc"] = by_desc;
    else
        answer["new_group_calls_at_build"] = calls;
    answer["per_rank"] = rows_asked(test.expect, [&](int rank) { return built(test.config, rank); });
    return answer;
}

Json build_on_uncovered_rank(const Case& test) { return described(built(test.config, test.config["rank"])); }

Json build_twice(const Case& test) {
    auto state = State(settings_of(test.config), 0, test.config["world_size"]);
    state.build_world_mesh(settings_of(test.config));
    return {};
}

/// Without configurations the original keeps nothing, so that a mesh can still be built; ours is destroyed.
Json build_twice_no_config(const Case& test) {
    auto state = State(0, test.config["world_size"]);
    state.build_world_mesh();
    state.destroy();
    const auto nothing_kept = !state.get_world_mesh();
    state.build_world_mesh({.dp_type = "fsdp"});
    return {{"second_ok", nothing_kept}, {"world_mesh", state.get_world_mesh().has_value()}};
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
    return {{"unnamed_1d", any.get_device_mesh_info(init_device_mesh({world}, std::nullopt, 0, world))},
            {"named_1d", any.get_device_mesh_info(init_device_mesh({world}, {{"dp"}}, 0, world))}};
}

Json expert_parallel_mesh(const Case& test) {
    const auto mesh = [&](int rank) {
        return State(rank, test.config["world_size"]).build_expert_parallel_mesh(test.config["degree"]);
    };
    mesh(0);
    return {{"per_rank", rows_asked(test.expect, mesh)}};
}

Json replicate_and_shard(const Case& test) {
    return any.get_replicate_and_shard_degree(test.config["dp_world_size"],
                                              number(test.config, "num_replicas"),
                                              number(test.config, "shard_degree"), test.config["num_nodes"]);
}

std::string schedule_of(const Json& config) { return word(config, "schedule").value_or("Interleaved1F1B"); }
int degree_of(const Json& config) { return number(config, "degree").value_or(1); }

Json pp_schedule(const Case& test) {
    const auto single = any.is_single_stage(schedule_of(test.config));
    return {{"is_single_stage", single},
            {"is_multi_stage", !single},
            {"default_style", any.infer_style(schedule_of(test.config))}};
}

std::vector<int> stages(const Json& config, int rank, int num_stages) {
    return any.stage_ids_this_rank(rank, num_stages, degree_of(config), schedule_of(config),
                                   word(config, "style"));
}

Json pp_config(const Case& test) {
    const auto degree = degree_of(test.config);
    const auto schedule = schedule_of(test.config);
    const auto style = word(test.config, "style");
    auto answer = Json{{"final_stage_rank", any.final_stage_rank(degree, schedule, style)},
                       {"rank_completion_order", any.rank_completion_order(degree, schedule, style)},
                       {"stage_ids", Json::object()}};
    const auto asked = test.expect.find("stage_ids");
    if (asked == test.expect.end()) return answer;
    for (const auto& [num_stages, value] : asked->items())
        answer["stage_ids"][num_stages] = attempt([&, count = std::stoi(num_stages)] {
            auto of_ranks = Json::array();
            for (int rank = 0; rank < degree; ++rank) of_ranks.push_back(stages(test.config, rank, count));
            return of_ranks;
        });
    return answer;
}

Json pp_infer_style(const Case& test) {
    const auto schedule = schedule_of(test.config);
    const auto style = word(test.config, "style");
    return {{"style", any.infer_style(schedule, style)},
            {"final_stage_rank", any.final_stage_rank(degree_of(test.config), schedule, style)}};
}

Json pp_stage_ids(const Case& test) {
    return stages(test.config, test.config["pp_rank"], test.config["num_stages"]);
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
