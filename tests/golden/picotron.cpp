// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::picotron;

Sizes sizes_of(const Json& config) {
    return {.tp = config["tp"], .cp = config["cp"], .pp = config["pp"], .dp = config["dp"]};
}

Json or_null(const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); }

/// The value of one attribute by picotron's name for it.
Json attribute(const RankInfo& p, const std::string& name) {
    const std::map<std::string, std::function<Json()>> attributes = {
        {"global_rank", [&] { return p.global_rank; }},
        {"world_size", [&] { return p.world_size; }},
        {"local_rank", [&] { return p.local_rank; }},
        {"dp_rank", [&] { return p.dp_rank; }},
        {"pp_rank", [&] { return p.pp_rank; }},
        {"cp_rank", [&] { return p.cp_rank; }},
        {"tp_rank", [&] { return p.tp_rank; }},
        {"tp_group_ids", [&] { return ranks(p.tp_group_ids); }},
        {"cp_group_ids", [&] { return ranks(p.cp_group_ids); }},
        {"pp_group_ids", [&] { return ranks(p.pp_group_ids); }},
        {"dp_group_ids", [&] { return ranks(p.dp_group_ids); }},
        {"cp_dp_group_ids", [&] { return ranks(p.cp_dp_group_ids); }},
        {"tp_world_size", [&] { return p.tp_world_size; }},
        {"tp_first_rank", [&] { return p.tp_first_rank; }},
        {"tp_last_rank", [&] { return p.tp_last_rank; }},
        {"cp_world_size", [&] { return p.cp_world_size; }},
        {"cp_first_rank", [&] { return p.cp_first_rank; }},
        {"cp_last_rank", [&] { return p.cp_last_rank; }},
        {"cp_send_rank", [&] { return p.cp_send_rank; }},
        {"cp_recv_rank", [&] { return p.cp_recv_rank; }},
        {"pp_world_size", [&] { return p.pp_world_size; }},
        {"pp_first_rank", [&] { return p.pp_first_rank; }},
        {"pp_last_rank", [&] { return p.pp_last_rank; }},
        {"pp_is_first_stage", [&] { return p.pp_is_first_stage; }},
        {"pp_is_last_stage", [&] { return p.pp_is_last_stage; }},
        {"pp_next_rank", [&] { return or_null(p.pp_next_rank); }},
        {"pp_prev_rank", [&] { return or_null(p.pp_prev_rank); }},
        {"dp_world_size", [&] { return p.dp_world_size; }},
        {"dp_first_rank", [&] { return p.dp_first_rank; }},
        {"dp_last_rank", [&] { return p.dp_last_rank; }},
        {"cp_dp_world_size", [&] { return p.cp_dp_world_size; }},
        {"tp_group", [&] { return ranks(p.tp_group_ids); }},
        {"cp_group", [&] { return ranks(p.cp_group_ids); }},
        {"pp_group", [&] { return ranks(p.pp_group_ids); }},
        {"dp_group", [&] { return ranks(p.dp_group_ids); }},
        {"cp_dp_group", [&] { return ranks(p.cp_dp_group_ids); }},
        {"pp_dp_group", [&] { return ranks(p.pp_dp_group_ids); }}};
    return attributes.at(name)();
}

Json manager(const Case& test) {
    const auto sizes = sizes_of(test.config);
    const int world = test.config["world_size"];
    const auto grid = mesh(sizes, world);
    auto answer = Json{{"per_rank", Json::array()}, {"groups", Json::object()}, {"n_new_group_calls", 0}};
    for (const auto& row : test.expect["per_rank"]) {
        const auto info = RankInfo(sizes, row["rank"], world);
        auto attributes = Json::array();
        for (const auto& name : test.meta["attrs"]) attributes.push_back(attribute(info, name));
        auto group_ranks = Json::array();
        for (const auto& name : test.meta["group_attrs"]) group_ranks.push_back(attribute(info, name));
        answer["per_rank"].push_back({{"rank", info.global_rank},
                                      {"attrs", attributes},
                                      {"group_ranks", group_ranks},
                                      {"str", info.str()}});
    }
    auto made = 0;
    const auto add = [&](const char* name, const rankmesh::Partition& partition) {
        answer["groups"][name] = groups(partition);
        made += partition.size();
    };
    add("tp", grid.partition("tp")), add("cp", grid.partition("cp")), add("pp", grid.partition("pp"));
    add("dp", grid.partition("dp")), add("cp_dp", grid.partition("cp", "dp"));
    add("pp_dp", grid.partition("pp", "dp"));
    answer["n_new_group_calls"] = made;
    return answer;
}

Json setup_global(const Case& test) {
    return RankInfo(sizes_of(test.config), test.config["rank"], test.config["world_size"]).str();
}

Json local_rank(const Case& test) {
    const int world = test.config["world_size"];
    const auto sizes = Sizes{.dp = world};
    auto answer = Json::object();
    for (const auto& [name, value] : test.expect.items()) {
        // `env_3`: what LOCAL_RANK says; `unset`: nothing.
        const auto given = name.starts_with("env_") ? std::optional(std::stoi(name.substr(4))) : std::nullopt;
        answer[name] = RankInfo(sizes, test.config["rank"], world, given).local_rank;
    }
    return answer;
}

}  // namespace

System picotron() {
    return {
        .name = "picotron",
        .kinds = {{"manager", manager},
                  {"error", manager},
                  {"setup_global", setup_global},
                  {"local_rank", local_rank}},
        .faults = [](const Case&, std::string_view, std::string_view) { return std::vector{Fault::sizes}; }};
}

}  // namespace golden
