// SPDX-License-Identifier: Apache-2.0
// What both systems with a grid over a ProcessTopology are asked of it.
#pragma once

#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>

#include "topology.hpp"

namespace golden {

/// Attributes and get_ functions by their names.
using Attributes = std::map<std::string, std::function<Json()>>;

/// `own`, and those that both grids have; `p` must outlive them.
inline Attributes with_common(const rankmesh::deepspeed::GridRankInfo& p, Attributes own) {
    own.merge(Attributes{
        {"global_rank", [&] { return p.global_rank; }},
        {"world_size", [&] { return p.world_size; }},
        {"data_parallel_size", [&] { return p.data_parallel_size; }},
        {"pipe_parallel_size", [&] { return p.pipe_parallel_size; }},
        {"model_parallel_size", [&] { return p.model_parallel_size; }},
        {"slice_parallel_size", [&] { return p.slice_parallel_size; }},
        {"stage_id", [&] { return p.stage_id; }},
        {"data_parallel_id", [&] { return p.data_parallel_id; }},
        {"ds_model_rank", [&] { return p.ds_model_rank; }},
        {"is_first_stage", [&] { return p.is_first_stage; }},
        {"is_last_stage", [&] { return p.is_last_stage; }},
        {"get_stage_id", [&] { return p.get_stage_id(); }},
        {"get_data_parallel_id", [&] { return p.get_data_parallel_id(); }},
        {"get_global_rank", [&] { return p.get_global_rank(); }},
        {"get_pipe_parallel_rank", [&] { return p.get_pipe_parallel_rank(); }},
        {"get_pipe_parallel_world_size", [&] { return p.get_pipe_parallel_world_size(); }},
        {"get_data_parallel_rank", [&] { return p.get_data_parallel_rank(); }},
        {"get_data_parallel_world_size", [&] { return p.get_data_parallel_world_size(); }},
        {"get_model_parallel_rank", [&] { return p.get_model_parallel_rank(); }},
        {"get_model_parallel_world_size",
         [&] { return attempt([&] { return p.get_model_parallel_world_size(); }); }},
        {"get_tensor_model_parallel_rank", [&] { return p.get_tensor_model_parallel_rank(); }},
        {"get_tensor_model_parallel_world_size", [&] { return p.get_tensor_model_parallel_world_size(); }}});
    return own;
}

/// The attributes of one rank that a case asks for.
inline Json asked(const Attributes& attributes, const Json& meta) {
    auto answer = Json::object();
    for (const auto* columns : {"attrs", "group_attrs"})
        for (const auto& name : meta[columns])
            answer[name.get<std::string>()] = attributes.at(name.get<std::string>())();
    answer["get"] = Json::array();
    for (const auto& name : meta["get_order"])
        answer["get"].push_back(attributes.at(name.get<std::string>())());
    return answer;
}

}  // namespace golden
