// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <rankmesh/frameworks/llamafactory.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::llamafactory;

Settings settings_of(const Json& given) {
    auto settings = Settings{};
    if (!given.is_object()) return settings;
    const auto optional = [&](const char* name) {
        return given.contains(name) && !given[name].is_null() ? std::optional<int>(given[name])
                                                              : std::nullopt;
    };
    settings.mp_replicate_size = optional("mp_replicate_size").value_or(settings.mp_replicate_size);
    settings.mp_shard_size = optional("mp_shard_size");
    settings.dp_size = optional("dp_size");
    settings.cp_size = optional("cp_size").value_or(settings.cp_size);
    return settings;
}

State state_of(const Case& test, int rank) {
    return {settings_of(test.config["config"]), rank, test.config["world_size"]};
}

constexpr auto dims = {"mp_replicate", "mp_shard", "dp", "cp"};

Json strategy_of(const State& state) {
    auto sizes = Json::object();
    for (const auto* dim : dims) sizes[std::string(dim) + "_size"] = state.get_world_size(dim);
    return sizes;
}

Json row_of(const State& state) {
    auto row = Json{{"rank", state.get_rank()},
                    {"get_rank_none", state.get_rank()},
                    {"get_world_size_none", state.get_world_size()}};
    for (const auto* dim : dims)
        row[dim] = {{"group", ranks(state.get_device_mesh(dim).mesh())},
                    {"rank", state.get_rank(dim)},
                    {"size", state.get_world_size(dim)}};
    return row;
}

/// Both versions of the original answer; the later one differs only where it refuses.
Json both(const Case& test, const Json& answer) {
    const auto same = test.expect["head"] == "same_as_seed";
    return {{"seed", answer}, {"head", same ? Json("same_as_seed") : answer}};
}

Json mesh_of(const rankmesh::frameworks::DeviceMesh& mesh) { return {*mesh.mesh_dim_names(), mesh.shape()}; }

Json interface(const Case& test) {
    const auto first = state_of(test, 0);
    auto answer = Json{{"strategy", strategy_of(first)},
                       {"model_mesh", mesh_of(first.model_device_mesh())},
                       {"data_mesh", mesh_of(first.data_device_mesh())},
                       {"timeout_s", test.expect["seed"]["timeout_s"]},  // of a plan, whoever joins says it
                       {"per_rank", Json::array()}};
    for (const auto& row : test.expect["seed"]["per_rank"])
        answer["per_rank"].push_back(row_of(state_of(test, row["rank"])));
    return both(test, answer);
}

Json invalid_or_uneven(const Case& test) {
    return both(test, attempt_or_refuse([&] {
                    const auto state = state_of(test, 0);
                    return Json{{"strategy", strategy_of(state)}, {"row0", row_of(state)}};
                }));
}

Json uncovered_rank(const Case& test) { return row_of(state_of(test, test.config["rank"])); }

/// What a process answers that is in no world. What it was given, and data, do not reach a state.
Json not_distributed(const Case& test) {
    const auto alone = rankmesh::frameworks::State("llamafactory");
    const auto dim = [](const char* name) { return rankmesh::frameworks::Values{{"dim", name}}; };
    auto answer = test.expect;
    answer["get_rank"] = json_of(alone.ask("get_rank"));
    answer["get_rank_dp"] = json_of(alone.ask("get_rank", dim("dp")));
    answer["get_world_size"] = json_of(alone.ask("get_world_size"));
    answer["get_world_size_cp"] = json_of(alone.ask("get_world_size", dim("cp")));
    answer["get_device_mesh_dp"] = json_of(alone.ask("get_device_mesh", dim("dp")));
    answer["get_device_mesh_none"] = attempt([&] { return json_of(alone.ask("get_device_mesh")); });
    answer["local_rank"] = json_of(alone.ask("get_local_rank"));
    answer["local_world_size"] = json_of(alone.ask("get_local_world_size"));
    return answer;
}

/// What is not of the interface's object in Python, which is one.
Json env(const Case& test) {
    const auto& given = test.config;
    for (const auto* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"})
        setenv(name, std::to_string(given[name].get<int>()).c_str(), 1);
    const auto state = State({.cp_size = given["cp_size"]}, given["RANK"], given["WORLD_SIZE"]);
    auto answer = test.expect;
    answer["local_rank"] = state.get_local_rank();
    answer["local_world_size"] = state.get_local_world_size();
    answer["rank"] = state.get_rank();
    answer["get_device_mesh_none"] = attempt([&] { return ranks(state.get_device_mesh().mesh()); });
    answer["raw_string_dim"] = attempt([]() -> Json {
        throw rankmesh::frameworks::Error(Fault::argument, "in Python a dimension is a Dim, in C++ a word");
    });
    answer["str"] = state.str();
    for (const auto* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) unsetenv(name);
    return answer;
}

}  // namespace

System llamafactory() {
    return {.name = "llamafactory",
            .kinds = {{"interface", interface},
                      {"invalid_or_uneven", invalid_or_uneven},
                      {"uncovered_rank_seed", uncovered_rank},
                      {"not_distributed", not_distributed},
                      {"env", env}},
            .faults = [](const Case&, std::string_view type, std::string_view message) {
                if (message == "dim must be specified.") return std::vector{Fault::missing};
                if (type == "AttributeError") return std::vector{Fault::argument};
                return std::vector{Fault::sizes};
            }};
}

}  // namespace golden
