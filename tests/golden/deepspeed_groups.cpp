// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/deepspeed_groups.hpp>

#include "check.hpp"

namespace golden {
namespace {

using rankmesh::deepspeed_groups::State;

std::optional<int> or_none(const Json& config, const char* key) {
    return config.contains(key) && !config[key].is_null() ? std::optional<int>(config[key]) : std::nullopt;
}

/// The original was asked by the last rank where the case names none.
State state_of(const Json& config) {
    const int world = config["world_size"];
    return {config.value("rank", world - 1), world};
}

Json members(const rankmesh::frameworks::GroupPart& part) {
    return std::vector<int>(part.begin(), part.end());
}

/// All groups of kinds, one after the other; of several kinds in `steps`, of some stages each.
Json all_groups(const State& state, const std::vector<std::string>& kinds, int steps = 1) {
    const auto& groups = state.groups();
    auto all = Json::array();
    for (int step = 0; step < steps; ++step)
        for (const auto& kind : kinds) {
            const auto count = groups.count(kind) / steps;
            for (int i = 0; i < count; ++i) all.push_back(members(groups.group(kind, step * count + i)));
        }
    return all;
}

Json expert_parallel_ranks(const Case& test) {
    const auto& c = test.config;
    auto state = State(0, c["world_size"]);
    state._create_expert_data_and_model_parallel(c["ep"], c["tp"], c["pp"],
                                                 c.value("data_before_expert", false));
    const auto kinds = state.groups().kinds();
    return {{"expert_parallel", all_groups(state, {kinds[0]})},
            {"expert_data_parallel", all_groups(state, {kinds[1]})}};
}

Json expert_and_data_parallel(const Case& test) {
    const auto& c = test.config;
    auto state = state_of(c);
    state._create_expert_and_data_parallel(c["ep"], or_none(c, "mp"), or_none(c, "pp"),
                                           c.value("mode", std::string("tp")),
                                           c.value("data_before_expert", false));
    const auto name = state._get_max_expert_size_name();
    // With tensor lanes the original makes the groups of both kinds stage by stage.
    const auto steps = or_none(c, "mp").value_or(1) > 1 ? or_none(c, "pp").value_or(1) : 1;
    return {{"calls", all_groups(state, state.groups().kinds(), steps)},
            {"ep_ranks", members(state._get_expert_parallel_group_ranks(name))},
            {"edp_ranks", members(state._get_expert_data_parallel_group_ranks(name))},
            {"max_ep", *state._get_max_expert_size()},
            {"ep_rank", state._get_expert_parallel_rank(name)},
            {"ep_src_rank", state._get_expert_parallel_src_rank(name)}};
}

Json zero_hpz(const Case& test) {
    auto state = state_of(test.config);
    state._create_zero_param_parallel_group(test.config["group_size"]);
    return {{"calls", all_groups(state, state.groups().kinds())},
            {"mine", members(state._get_zero_param_intra_parallel_group_ranks())}};
}

Json all_to_all(const Case& test) {
    auto state = state_of(test.config);
    state._get_local_all_to_all_group(test.config["devices_per_node"]);
    return {{"keys", state.all_to_all_names()}, {"calls", all_groups(state, state.groups().kinds())}};
}

Json init_tp_groups(const Case& test) {
    auto state = state_of(test.config);
    state._init_tp_mesh_device(test.config["tp"], or_none(test.config, "dp"));
    return {{"calls", all_groups(state, state.groups().kinds())},
            {"dp", members(state.get_data_parallel_group())},
            {"tp", members(state.get_tensor_model_parallel_group())},
            {"src", state.get_tensor_model_parallel_src_rank()}};
}

}  // namespace

System deepspeed_groups() {
    return {.name = "deepspeed_groups",
            .kinds = {{"get_expert_parallel_ranks", expert_parallel_ranks},
                      {"get_expert_parallel_ranks_error", expert_parallel_ranks},
                      {"create_expert_and_data_parallel", expert_and_data_parallel},
                      {"zero_hpz", zero_hpz},
                      {"all_to_all", all_to_all},
                      {"init_tp_groups", init_tp_groups}},
            .faults = [](const Case&, std::string_view type, std::string_view message) {
                const auto says = [&](std::string_view words) { return message.find(words) != message.npos; };
                if (type == "AssertionError" &&
                    (says("is not divisible by") || says("cannot initialize All-To-All")))
                    return std::vector{Fault::sizes};
                if (type == "ZeroDivisionError" || (type == "ValueError" && says("must not be zero")))
                    return std::vector{Fault::sizes};
                if (type == "NotImplementedError") return std::vector{Fault::exclusive};
                return std::vector<Fault>{};
            }};
}

}  // namespace golden
