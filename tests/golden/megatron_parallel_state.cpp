// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/megatron.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::megatron;

template <class Value>
std::optional<Value> given(const Json& config, const char* name) {
    const auto found = config.find(name);
    return found == config.end() || found->is_null() ? std::nullopt : std::optional(found->get<Value>());
}

Settings sizes_of(const Json& config) {
    const auto size = [&](const char* name) { return given<int>(config, name).value_or(1); };
    return {.tensor_model_parallel_size = size("tp"),
            .pipeline_model_parallel_size = size("pp"),
            .virtual_pipeline_model_parallel_size = given<int>(config, "vpp"),
            .context_parallel_size = size("cp"),
            .hierarchical_context_parallel_sizes = given<std::vector<int>>(config, "hcp"),
            .hybrid_context_parallel = given<bool>(config, "hybrid_cp").value_or(false),
            .expert_model_parallel_size = size("ep"),
            .gtp_remat_size = size("gtp"),
            .expert_gtp_remat_size = size("egtp"),
            .num_distributed_optimizer_instances = size("ndoi"),
            .expert_tensor_parallel_size = given<int>(config, "etp"),
            .order = given<std::string>(config, "order").value_or(Settings{}.order),
            .create_gloo_process_groups = given<bool>(config, "gloo").value_or(true),
            .rank_offset = given<int>(config, "rank_offset").value_or(0),
            .local_world_size = given<int>(config, "local_world_size")};
}

Json members(const GroupPart& part) { return std::vector<int>(part.begin(), part.end()); }

/// The value of one accessor by Megatron's name for it.
Json value(const State& state, const std::string& name) {
    return attempt([&] { return json_of(state.ask(name)); });
}

Json row_of(const Case& test, const Json& expected, const Settings& sizes) {
    const int rank = expected["rank"];
    auto state = State(rank, test.config["world_size"]);
    state.initialize_model_parallel(sizes);
    auto values = Json::array();
    for (const auto& name : test.meta["accessors"]) values.push_back(value(state, name));
    using Answer = std::function<Json()>;
    const auto answers = std::map<std::string, Answer>{
        {"rank", [&] { return rank; }},
        {"values", [&] { return values; }},
        {"dp_cp_rank_size",
         [&] {
             return Json{state.get_data_parallel_rank(true), state.get_data_parallel_world_size(true)};
         }},
        {"all_ranks", [&] { return state.get_all_ranks(); }},
        {"intra_dist_opt", [&] { return members(state.get_intra_distributed_optimizer_instance_group()); }},
        {"inter_dist_opt", [&] { return members(state.get_inter_distributed_optimizer_instance_group()); }},
        {"partial_dp_cp", [&] { return members(state.get_data_parallel_group(true, true, true)); }},
        {"partial_expert_dp", [&] { return members(state.get_expert_data_parallel_group(true, true)); }},
        {"hierarchical_cp", [&] {
             auto levels = Json::array();
             for (const auto& level : state.get_hierarchical_context_parallel_groups())
                 levels.push_back(members(level));
             return levels;
         }}};
    auto row = Json::object();
    for (const auto& [name, what] : expected.items())
        row[name] = answers.contains(name) ? attempt(answers.at(name)) : Json();
    return row;
}

Json init(const Case& test) {
    const auto sizes = sizes_of(test.config);
    const auto made = rankmesh::megatron::groups(sizes, test.config["world_size"]);
    auto answer = Json{{"desc_order", made.kinds()}, {"groups", Json::object()}};
    auto calls = 0;
    for (const auto& desc : made.kinds()) {
        answer["groups"][desc] = groups(made, desc);
        calls += made.count(desc);
    }
    answer["n_new_group_calls"] = calls;
    if (!test.expect.contains("per_rank")) return answer;
    answer["per_rank"] = Json::array();
    for (const auto& expected : test.expect["per_rank"])
        answer["per_rank"].push_back(row_of(test, expected, sizes));
    return answer;
}

Json uninitialized(const Case& test) {
    const auto state = State(0, test.config["world_size"]);
    auto answer = Json::object();
    for (const auto& [name, expected] : test.expect.items()) {
        if (name != "init") {
            answer[name] = value(state, name);
            continue;
        }
        answer[name] = attempt([] {
            State().initialize_model_parallel({});
            return true;
        });
    }
    return answer;
}

Json double_init(const Case& test) {
    auto state = State(0, test.config["world_size"]);
    state.initialize_model_parallel(sizes_of(test.config));
    state.initialize_model_parallel(sizes_of(test.config));
    return true;
}

}  // namespace

System megatron_parallel_state() {
    return {
        .name = "megatron_parallel_state",
        .kinds = {{"init", init}, {"uninitialized_accessors", uninitialized}, {"double_init", double_init}},
        .faults = [](const Case& test, std::string_view type,
                     std::string_view message) -> std::vector<Fault> {
            const auto says = [message](std::string_view words) {
                return message.find(words) != std::string_view::npos;
            };
            if (says("already initialized")) return {Fault::exists};
            if (says("not initialized") || says("has not been initialized"))
                return {Fault::not_initialised, Fault::not_member};
            // A bare assert: there is no world, or the levels do not multiply to the context.
            if (type == "AssertionError" && message.empty())
                return {test.kind == "init" ? Fault::sizes : Fault::not_initialised};
            if (says("not yet supported") || says("Both EP and CP")) return {Fault::exclusive};
            if (says("specified the order")) return {Fault::missing};
            if (says("divisible") || says("even number") || says("interleaved schedule") ||
                says("must be the same") || says("expected to be the same"))
                return {Fault::sizes};
            // Sizes that do not multiply to the world: one is missing in the order, or makes no sense.
            if (message.starts_with("idx ")) return {Fault::missing, Fault::sizes};
            if (type == "ZeroDivisionError") return {Fault::sizes};
            if (type == "KeyError" || says("not in list")) return {Fault::unknown};
            if (says("rank")) return {Fault::out_of_range};
            return {};
        }};
}

}  // namespace golden
