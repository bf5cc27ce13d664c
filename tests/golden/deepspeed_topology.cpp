// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>

#include "topology.hpp"

namespace golden {
namespace {

using namespace rankmesh::deepspeed;

Place place_of(const Json& config, int rank) {
    const int world = config["world_size"];
    if (config["dims"].is_null()) return {rank, world};
    return {ProcessTopology(config["axes"].get<Names>(), config["dims"].get<Dims>()), rank, world};
}

/// The value of one attribute or get_ function by its name.
Json attribute(const Place& p, const std::string& name) {
    const std::map<std::string, std::function<Json()>> attributes = {
        {"global_rank", [&] { return p.global_rank; }},
        {"world_size", [&] { return p.world_size; }},
        {"data_parallel_size", [&] { return p.data_parallel_size; }},
        {"pipe_parallel_size", [&] { return p.pipe_parallel_size; }},
        {"model_parallel_size", [&] { return p.model_parallel_size; }},
        {"slice_parallel_size", [&] { return p.slice_parallel_size; }},
        {"stage_id", [&] { return p.stage_id; }},
        {"data_parallel_id", [&] { return p.data_parallel_id; }},
        {"ds_model_rank", [&] { return p.ds_model_rank; }},
        {"ds_model_world_size", [&] { return *p.ds_model_world_size; }},
        {"dp_group", [&] { return ranks(p.get_data_parallel_group_ranks()); }},
        {"pp_group", [&] { return ranks(*p.pp_group); }},
        {"slice_group", [&] { return ranks(*p.slice_group); }},
        {"is_first_stage", [&] { return p.is_first_stage; }},
        {"is_last_stage", [&] { return p.is_last_stage; }},
        {"ds_model_proc_group", [&] { return ranks(*p.ds_model_group); }},
        {"dp_proc_group", [&] { return ranks(*p.dp_group); }},
        {"pp_proc_group", [&] { return ranks(*p.pp_group); }},
        {"slice_proc_group", [&] { return ranks(*p.slice_group); }},
        {"get_pipeline_model_parallel_rank", [&] { return p.get_pipeline_model_parallel_rank(); }},
        {"get_pipeline_model_parallel_world_size",
         [&] { return p.get_pipeline_model_parallel_world_size(); }},
        {"get_data_parallel_rank", [&] { return p.get_data_parallel_rank(); }},
        {"get_data_parallel_world_size", [&] { return p.get_data_parallel_world_size(); }},
        {"get_model_parallel_rank", [&] { return p.get_model_parallel_rank(); }},
        {"get_model_parallel_world_size", [&] { return p.get_model_parallel_world_size(); }},
        {"get_slice_parallel_rank", [&] { return p.get_slice_parallel_rank(); }},
        {"get_slice_parallel_world_size", [&] { return p.get_slice_parallel_world_size(); }},
        {"get_tensor_model_parallel_rank", [&] { return p.get_tensor_model_parallel_rank(); }},
        {"get_tensor_model_parallel_world_size", [&] { return p.get_tensor_model_parallel_world_size(); }}};
    return attributes.at(name)();
}

Json grid(const Case& test) {
    auto answer = Json{{"per_rank", Json::array()}, {"p2p_groups", Json::array()}, {"calls", Json::array()}};
    const auto first = place_of(test.config, 0);
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
        const auto place = place_of(test.config, row[0]);
        auto attributes = Json::object();
        for (const auto* columns : {"attrs", "group_attrs"})
            for (const auto& name : test.meta[columns])
                attributes[name.get<std::string>()] = attribute(place, name);
        attributes["get"] = Json::array();
        for (const auto& name : test.meta["get_order"]) attributes["get"].push_back(attribute(place, name));
        attributes["stage_to_global"] = Json::array();
        for (int stage = 0; stage < place.pipe_parallel_size; ++stage)
            attributes["stage_to_global"].push_back(place.stage_to_global(stage));
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
