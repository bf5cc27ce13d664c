// SPDX-License-Identifier: Apache-2.0
// What the grids of DeepSpeed and AReaL both answer.
#pragma once

#include <rankmesh/dialect/deepspeed/grid_rank_info.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

using deepspeed::all_but_data;

inline Answers grid_answers(const deepspeed::GridRankInfo& p) {
    return Answers{}
        .add("get_global_rank", [&] { return p.get_global_rank(); })
        .add("world_size", [&] { return p.world_size; })
        .add("get_stage_id", [&] { return p.get_stage_id(); })
        .add("get_data_parallel_id", [&] { return p.get_data_parallel_id(); })
        .add("get_pipe_parallel_rank", [&] { return p.get_pipe_parallel_rank(); })
        .add("get_pipe_parallel_world_size", [&] { return p.get_pipe_parallel_world_size(); })
        .add("get_data_parallel_rank", [&] { return p.get_data_parallel_rank(); })
        .add("get_data_parallel_world_size", [&] { return p.get_data_parallel_world_size(); })
        .add("get_model_parallel_rank", [&] { return p.get_model_parallel_rank(); })
        .add("get_model_parallel_world_size", [&] { return p.get_model_parallel_world_size(); })
        .add("get_tensor_model_parallel_rank", [&] { return p.get_tensor_model_parallel_rank(); })
        .add("get_tensor_model_parallel_world_size", [&] { return p.get_tensor_model_parallel_world_size(); })
        .add("is_first_stage", [&] { return p.is_first_stage; })
        .add("is_last_stage", [&] { return p.is_last_stage; })
        .add("p2p_groups[rank]", [&] { return p.p2p_groups(p.global_rank); });
}

}  // namespace rankmesh::conversion
