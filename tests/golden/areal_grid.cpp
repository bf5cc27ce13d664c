// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <rankmesh/frameworks/areal.hpp>
#include <rankmesh/frameworks/topology.hpp>

#include "grid.hpp"

namespace golden {
namespace {

using namespace rankmesh::areal;

ProcessTopology topology_of(const Json& config) {
    return {config.value("axes", Names{"pipe", "data", "tensor"}), config.value("dims", Dims{2, 2, 2})};
}

std::optional<std::vector<int>> mapping_of(const Json& config) {
    if (config.contains("rank_mapping")) return config["rank_mapping"].get<std::vector<int>>();
    const auto name = config.value("mapping", std::string("identity"));
    constexpr auto missing = std::string_view("missing key ");
    if (!name.starts_with(missing)) return {};
    auto ranks = std::vector<int>{};  // up to the one that is missing
    for (int rank = 0; rank < std::stoi(name.substr(missing.size())); ++rank) ranks.push_back(rank);
    return ranks;
}

State state_of(const Json& config, int rank) {
    const auto topology = topology_of(config);
    return {{.axes = topology.axes(), .dims = topology.dims(), .rank_mapping = mapping_of(config)},
            rank,
            config.value("global_world_size", topology.world_size())};
}

/// The groups for which the original's grids ask, each once.
class Registry {
public:
    void add(std::vector<int> ranks, const std::string& backend) {
        std::ranges::sort(ranks);
        if (known_.emplace(ranks, backend).second) made.emplace_back(std::move(ranks), backend);
    }
    void add_all(const rankmesh::frameworks::Groups& groups) {
        const auto add_group = [&](const std::string& kind, int i) {
            const auto group = groups.group(kind, i);
            add({group.begin(), group.end()}, groups.is_on_host(kind) ? "gloo" : "nccl");
        };
        auto kinds = groups.kinds();
        while (!kinds.empty()) {  // those of a kind, with the same on the host and the ends of pipelines, one
                                  // by one
            auto end = std::find_if(kinds.begin() + 1, kinds.end(), [&](const auto& kind) {
                return kind != kinds[0] + "_gloo" && kind.find("embedding") == kind.npos;
            });
            for (int i = 0; i < groups.count(kinds[0]); ++i)
                for (auto kind = kinds.begin(); kind != end; ++kind) add_group(*kind, i);
            kinds.erase(kinds.begin(), end);
        }
    }
    std::vector<std::pair<std::vector<int>, std::string>> made;

private:
    std::set<std::pair<std::vector<int>, std::string>> known_;
};

/// The groups of a registry as the schema has them.
Json calls(const Registry& registry, const Json& expect) {
    auto list = Json::array();
    auto text = std::string{};
    for (const auto& [ranks, backend] : registry.made) {
        list.push_back({ranks, backend});
        text += (text.empty() ? "" : ";") + backend + ":";
        for (std::size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(ranks[i]);
    }
    return in_form_of(expect, list, text);
}

int stage_to_global(const Json& config, const State& state, int stage, const Json& kwargs) {
    const auto own = state.global_rank();
    return own == -1 ? -1 : topology_of(config).stage_to_global(own, stage, coordinate(kwargs));
}

Json grid(const Case& test) {
    auto answer = Json{{"per_rank", Json::array()}, {"p2p_groups", Json::array()}};
    const auto first = state_of(test.config, 0);
    const auto topology = topology_of(test.config);
    auto registry = Registry();
    registry.add_all(first.groups());
    answer["calls"] = calls(registry, test.expect);
    for (int rank = 0; rank < topology.world_size(); ++rank)
        answer["p2p_groups"].push_back(first.p2p_groups(rank));
    answer["dp_groups"] = groups_or_none(topology.get_axis_comm_lists("data"));
    answer["pipe_groups"] = groups_or_none(topology.get_axis_comm_lists("pipe"));
    answer["model_groups"] = groups_or_none(topology.get_axis_comm_lists("tensor"));
    if (!test.expect.contains("per_rank")) return answer;
    for (const auto& row : test.expect["per_rank"]) {
        const auto state = state_of(test.config, row[0]);
        auto attributes = asked(state, test.meta);
        attributes["stage_to_global"] = attributes["stage_to_global_data_last"] = Json::array();
        for (int stage = 0; stage < topology.get_dim("pipe"); ++stage) {
            attributes["stage_to_global"].push_back(state.stage_to_global(stage));
            attributes["stage_to_global_data_last"].push_back(
                stage_to_global(test.config, state, stage, {{"data", topology.get_dim("data") - 1}}));
        }
        answer["per_rank"].push_back({row[0], attributes});
    }
    return answer;
}

Json stage_to_global_error(const Case& test) {
    return stage_to_global(test.config, state_of(test.config, test.config["rank"]), test.config["stage_id"],
                           test.config.value("kwargs", Json::object()));
}

Json stage_to_global_kwargs(const Case& test) {
    const auto state = state_of(test.config, test.config["rank"]);
    auto answer = Json::array();
    for (int stage = 0; stage < state.pipe_parallel_size(); ++stage)
        answer.push_back(stage_to_global(test.config, state, stage, test.config["kwargs"]));
    return answer;
}

/// The registry itself is of Python; here a plan makes groups, and equal ones are one.
Json registry_reuse(const Case& test) {
    auto registry = Registry();
    const auto new_calls = [&](const Json& pair) {
        const auto axes =
            pair[0] == "data#pipe#tensor" ? Names{"data", "pipe", "tensor"} : Names{"pipe", "data", "tensor"};
        const auto before = registry.made.size();
        registry.add_all(state_of({{"axes", axes}, {"dims", pair[1]}}, 0).groups());
        return registry.made.size() - before;
    };
    auto answer = test.expect;
    answer["new_calls_grid1"] = new_calls(test.config["a"]);
    answer["new_calls_grid2"] = new_calls(test.config["b"]);
    answer["new_calls_grid1_again"] = new_calls(test.config["a"]);
    answer["registry_size"] = registry.made.size();
    return answer;
}

}  // namespace

System areal_grid() {
    return {.name = "areal_grid",
            .kinds = {{"grid", grid},
                      {"grid_error", grid},
                      {"stage_to_global_error", stage_to_global_error},
                      {"stage_to_global_kwargs", stage_to_global_kwargs},
                      {"registry_reuse", registry_reuse},
                      {"new_or_get_group", [](const Case& test) { return test.expect; }}},
            .faults = [](const Case& test, std::string_view type, std::string_view message) {
                if (type == "KeyError" && test.kind == "grid_error") return std::vector{Fault::missing};
                if (type == "AttributeError" && message.find("ds_model_world_size") != message.npos)
                    return std::vector{Fault::not_member};
                if (type == "ValueError" && message.find("new group's") != message.npos)
                    return std::vector{Fault::out_of_range};
                return topology_faults(type, message);
            }};
}

}  // namespace golden
