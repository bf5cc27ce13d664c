// SPDX-License-Identifier: Apache-2.0
// What Megatron's parallel_state of 2022 and of today answer about the stages of a pipeline. Their rows have
// the ranks of a pipeline as `_PIPELINE_GLOBAL_RANKS`.
#pragma once

#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_stages {

constexpr auto virtual_rank = "virtual_pipeline_model_parallel_rank";
constexpr auto virtual_size = "virtual_pipeline_model_parallel_world_size";
constexpr auto stage_of_rank = "get_pipeline_model_parallel_rank";
constexpr auto stage_count = "get_pipeline_model_parallel_world_size";

/// The number that an accessor answers.
inline int number(const State& state, const std::string& accessor) {
    return std::get<int>(state.ask(accessor));
}

/// The rank on a stage of this rank's pipeline, which may be counted from the end, as an index in Python.
int in_pipeline(const State& state, int stage);

Value is_first_stage(const State& state, const Given& options);
Value is_last_stage(const State& state, const Given& options);

/// The accessors of stages. The options are those of the two that ask about virtual stages: `vp_stage` is
/// that stage, else it is the one that was set.
std::vector<AccessorRow> accessors(const std::vector<Setting>& options);

}  // namespace rankmesh::frameworks::of_stages
