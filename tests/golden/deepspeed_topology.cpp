// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>

#include "grid.hpp"

namespace golden {
namespace {

using namespace rankmesh::deepspeed;

RankInfo info_of(const Json& config, int rank) {
    const int world = config["world_size"];
    if (config["dims"].is_null()) return {rank, world};
    return {ProcessTopology(config["axes"].get<Names>(), config["dims"].get<Dims>()), rank, world};
}

Attributes attributes_of(const RankInfo& p) {
    return with_common(
        p, {{"ds_model_world_size", [&] { return *p.ds_model_world_size; }},
            {"dp_group", [&] { return ranks(p.get_data_parallel_group_ranks()); }},
            {"pp_group", [&] { return ranks(*p.pp_group); }},
            {"slice_group", [&] { return ranks(*p.slice_group); }},
            {"ds_model_proc_group", [&] { return ranks(*p.ds_model_group); }},
            {"dp_proc_group", [&] { return ranks(*p.dp_group); }},
            {"pp_proc_group", [&] { return ranks(*p.pp_group); }},
            {"slice_proc_group", [&] { return ranks(*p.slice_group); }},
            {"get_pipeline_model_parallel_rank", [&] { return p.get_pipeline_model_parallel_rank(); }},
            {"get_pipeline_model_parallel_world_size",
             [&] { return p.get_pipeline_model_parallel_world_size(); }},
            {"get_slice_parallel_rank", [&] { return p.get_slice_parallel_rank(); }},
            {"get_slice_parallel_world_size", [&] { return p.get_slice_parallel_world_size(); }}});
}

Json grid(const Case& test) {
    auto answer = Json{{"per_rank", Json::array()}, {"p2p_groups", Json::array()}, {"calls", Json::array()}};
    const auto first = info_of(test.config, 0);
    answer["axes"] = first.topology().axes();
    answer["dims"] = first.topology().dims();
    auto text = std::string{};
    for (const auto& partition : first.new_groups())
        for (const auto& group : partition) {
            answer["calls"].push_back(ranks(group));
            const auto list = answer["calls"].back().dump();
            text += (text.empty() ? "" : ";") + list.substr(1, list.size() - 2);
        }
    answer["calls"] = in_form_of(test.expect, answer["calls"], text);
    for (int rank = 0; rank < first.world_size; ++rank)
        answer["p2p_groups"].push_back(first.p2p_groups(rank));
    if (!test.expect.contains("per_rank")) return answer;
    for (const auto& row : test.expect["per_rank"]) {
        const auto info = info_of(test.config, row[0]);
        auto attributes = asked(attributes_of(info), test.meta);
        attributes["stage_to_global"] = Json::array();
        for (int stage = 0; stage < info.pipe_parallel_size; ++stage)
            attributes["stage_to_global"].push_back(info.stage_to_global(stage));
        answer["per_rank"].push_back({row[0], attributes});
    }
    return answer;
}

}  // namespace

System deepspeed_topology() {
    auto kinds = topology_kinds<ProcessTopology>({"pipe", "data", "model"});
    kinds["grid"] = grid;
    kinds["grid_error"] = grid;
    return {.name = "deepspeed_topology",
            .kinds = std::move(kinds),
            .faults = [](const Case&, std::string_view type, std::string_view message) {
                if (type == "AssertionError" && message == "Invalid Grid") return std::vector{Fault::sizes};
                return topology_faults(type, message);
            }};
}

}  // namespace golden
