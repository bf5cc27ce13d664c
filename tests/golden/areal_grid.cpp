// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/parallel_grid.hpp>

#include "grid.hpp"

namespace golden {
namespace {

using namespace rankmesh::areal;

Names axes_of(const Json& config) { return config.value("axes", Names{"pipe", "data", "tensor"}); }

ProcessTopology topology_of(const Json& config) {
    return {axes_of(config), config.value("dims", Dims{2, 2, 2})};
}

RankMapping mapping_of(const Json& config) {
    auto ranks = std::map<int, int>{};
    if (config.contains("rank_mapping")) {
        for (const auto& rank : config["rank_mapping"]) ranks.emplace(static_cast<int>(ranks.size()), rank);
        return ranks;
    }
    const auto name = config.value("mapping", std::string("identity"));
    constexpr auto missing = std::string_view("missing key ");
    if (!name.starts_with(missing)) return {};
    for (int rank = 0; rank < topology_of(config).world_size(); ++rank) ranks.emplace(rank, rank);
    ranks.erase(std::stoi(name.substr(missing.size())));
    return ranks;
}

RankInfo info_of(const Json& config, int rank) {
    const auto topology = topology_of(config);
    return {topology, rank, config.value("global_world_size", topology.world_size()), mapping_of(config)};
}

/// The groups of a registry as the schema has them.
Json calls(const std::vector<ProcessGroupRegistry::Group>& made, const Json& expect) {
    auto list = Json::array();
    auto text = std::string{};
    for (const auto& group : made) {
        list.push_back({group.ranks, group.backend});
        text += (text.empty() ? "" : ";") + group.backend + ":";
        for (std::size_t i = 0; i < group.ranks.size(); ++i)
            text += (i > 0 ? "," : "") + std::to_string(group.ranks[i]);
    }
    return in_form_of(expect, list, text);
}

template <class Value>
Json or_else(const std::optional<Value>& value, const Json& none) {
    if (!value) return none;
    if constexpr (std::same_as<Value, rankmesh::Group>)
        return ranks(*value);
    else
        return *value;
}

Attributes attributes_of(const RankInfo& p) {
    const auto handle = [&](const std::optional<rankmesh::Group>& group) {
        if (!group) return Json(nullptr);
        const auto mapped = p.mapped(*group);
        return Json(std::vector<int>(mapped.begin(), mapped.end()));
    };
    auto own = Attributes{{"ds_model_world_size", [&] { return or_else(p.ds_model_world_size, "<unset>"); }},
                          {"dp_group", [&] { return or_else(p.dp_group, Json::array()); }},
                          {"pp_group", [&] { return or_else(p.pp_group, Json::array()); }},
                          {"slice_group", [&] { return or_else(p.slice_group, nullptr); }},
                          {"mp_group", [&] { return p.mp_group; }}};
    const std::pair<const char*, const std::optional<rankmesh::Group>*> handles[] = {
        {"ds_model_proc_group", &p.ds_model_group},
        {"dp_proc_group", &p.dp_group},
        {"pp_proc_group", &p.pp_group},
        {"embedding_proc_group", &p.embedding_group},
        {"position_embedding_proc_group", &p.position_embedding_group},
        {"slice_proc_group", &p.slice_group},
        {"tp_dp_proc_group", &p.tp_dp_group}};
    for (const auto& [name, group] : handles)
        for (const auto* suffix : {"", "_gloo"})  // on the host are the same ranks
            own[std::string(name) + suffix] = [handle, group = group] { return handle(*group); };
    return with_common(p, std::move(own));
}

Json grid(const Case& test) {
    auto answer = Json{{"per_rank", Json::array()}, {"p2p_groups", Json::array()}};
    const auto first = info_of(test.config, 0);
    auto registry = ProcessGroupRegistry();
    first.make_groups(registry);
    answer["calls"] = calls(registry.made(), test.expect);
    for (int rank = 0; rank < first.world_size; ++rank)
        answer["p2p_groups"].push_back(first.p2p_groups(rank));
    answer["dp_groups"] = groups(first.dp_groups);
    answer["pipe_groups"] = groups(first.pipe_groups);
    answer["model_groups"] = groups(first.model_groups);
    if (!test.expect.contains("per_rank")) return answer;
    for (const auto& row : test.expect["per_rank"]) {
        const auto info = info_of(test.config, row[0]);
        auto attributes = asked(attributes_of(info), test.meta);
        attributes["stage_to_global"] = attributes["stage_to_global_data_last"] = Json::array();
        for (int stage = 0; stage < info.pipe_parallel_size; ++stage) {
            attributes["stage_to_global"].push_back(info.stage_to_global(stage));
            attributes["stage_to_global_data_last"].push_back(
                info.stage_to_global(stage, {{"data", info.data_parallel_size - 1}}));
        }
        answer["per_rank"].push_back({row[0], attributes});
    }
    return answer;
}

rankmesh::Coordinate kwargs_of(const Json& config) {
    return coordinate(config.value("kwargs", Json::object()));
}

Json stage_to_global_error(const Case& test) {
    return info_of(test.config, test.config["rank"])
        .stage_to_global(test.config["stage_id"], kwargs_of(test.config));
}

Json stage_to_global_kwargs(const Case& test) {
    const auto info = info_of(test.config, test.config["rank"]);
    auto answer = Json::array();
    for (int stage = 0; stage < info.pipe_parallel_size; ++stage)
        answer.push_back(info.stage_to_global(stage, kwargs_of(test.config)));
    return answer;
}

Json registry_reuse(const Case& test) {
    const auto first = [](const Json& pair) {
        const auto axes =
            pair[0] == "data#pipe#tensor" ? Names{"data", "pipe", "tensor"} : Names{"pipe", "data", "tensor"};
        const auto topology = ProcessTopology(axes, pair[1].get<Dims>());
        return RankInfo(topology, 0, topology.world_size());
    };
    auto registry = ProcessGroupRegistry();
    const auto new_calls = [&](const RankInfo& info) {
        const auto before = registry.size();
        info.make_groups(registry);
        return registry.size() - before;
    };
    auto answer = Json::object();
    answer["new_calls_grid1"] = new_calls(first(test.config["a"]));
    answer["new_calls_grid2"] = new_calls(first(test.config["b"]));
    answer["new_calls_grid1_again"] = new_calls(first(test.config["a"]));
    answer["registry_size"] = registry.size();
    registry.destroy_all_comm_groups(false);
    answer["after_destroy_uninitialized"] = registry.size();
    registry.destroy_all_comm_groups();
    answer["after_destroy"] = registry.size();
    return answer;
}

/// The operations are texts such as `[3,1,2];[1,2,3]gloo`.
Json new_or_get_group(const Case& test) {
    auto registry = ProcessGroupRegistry();
    auto ids = std::vector<int>{};
    auto ops = test.config["ops"].get<std::string>() + ";";
    for (std::size_t end; (end = ops.find(';')) != ops.npos; ops.erase(0, end + 1)) {
        const auto close = ops.find(']');
        const auto list = Json::parse(ops.substr(0, close + 1)).get<std::vector<int>>();
        const auto backend = ops.substr(close + 1, end - close - 1);
        ids.push_back(
            registry.new_or_get_group(list, backend.empty() ? std::nullopt : std::optional(backend)));
    }
    return {{"same_any_order", ids.at(0) == ids.at(1)},
            {"different_backend_differs", ids.at(1) != ids.at(2)},
            {"default_backend_same_as_nccl", ids.at(1) == ids.at(3)},
            {"calls", calls(registry.made(), test.expect)}};
}

}  // namespace

System areal_grid() {
    return {.name = "areal_grid",
            .kinds = {{"grid", grid},
                      {"grid_error", grid},
                      {"stage_to_global_error", stage_to_global_error},
                      {"stage_to_global_kwargs", stage_to_global_kwargs},
                      {"registry_reuse", registry_reuse},
                      {"new_or_get_group", new_or_get_group}},
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
