// SPDX-License-Identifier: Apache-2.0
#include "frameworks/stages.hpp"

#include <rankmesh/core/ranks.hpp>

namespace rankmesh::frameworks::of_stages {

/// True in that virtual stage, the last one for -1, and where they are ignored or there are none.
bool is_virtual_stage(const State& state, const Given& options, int wanted) {
    const auto* size = Access::slot(state, virtual_size);
    if (options.flag("ignore_virtual") || !size) return true;
    const auto stage = wanted < 0 ? std::get<int>(*size) - 1 : wanted;
    if (options.has("vp_stage")) {
        refuse_if(options.is_none("vp_stage"), Fault::missing,
                  "vp_stage must be passed if virtual pipeline is enabled");
        return options.number("vp_stage") == stage;
    }
    const auto* own = Access::slot(state, virtual_rank);
    return own && *own == Value(stage);
}

Value last_rank(const State& state, const Given&) {
    in_pipeline(state, 0);
    return in_pipeline(state, number(state, stage_count) - 1);
}
template <int by>
Value rank_beside(const State& state, const Given&) {
    in_pipeline(state, 0);
    const auto stages = number(state, stage_count);
    refuse_if(stages == 0, Fault::sizes, "the next stage of 0 stages");
    const auto left = (std::int64_t{number(state, stage_of_rank)} + by) % stages;
    return in_pipeline(state,
                       static_cast<int>(left != 0 && (left < 0) != (stages < 0) ? left + stages : left));
}

int in_pipeline(const State& state, int stage) {
    const auto pipeline = *state.group("_PIPELINE_GLOBAL_RANKS");
    if (stage < -pipeline.size() || stage >= pipeline.size())
        throw Error(Fault::out_of_range, "stage ", stage, " is out of range of pipeline ",
                    ranks_to_string(std::vector<int>(pipeline.begin(), pipeline.end())),
                    "; its size was set to more than ", pipeline.size());
    return pipeline[stage < 0 ? stage + pipeline.size() : stage];
}

Value is_first_stage(const State& state, const Given& options) {
    return is_virtual_stage(state, options, 0) && number(state, stage_of_rank) == 0;
}
Value is_last_stage(const State& state, const Given& options) {
    return is_virtual_stage(state, options, -1) &&
           number(state, stage_of_rank) == number(state, stage_count) - 1;
}

std::vector<AccessorRow> accessors(const std::vector<Setting>& options) {
    auto rows = std::vector{
        computed("get_pipeline_model_parallel_last_rank", Type::number, last_rank,
                 "The rank in the last stage of this rank's pipeline."),
        computed("get_pipeline_model_parallel_next_rank", Type::number, rank_beside<+1>,
                 "The rank in the next stage, the first after the last."),
        computed("get_pipeline_model_parallel_prev_rank", Type::number, rank_beside<-1>,
                 "The rank in the stage before, the last before the first."),
        computed("is_pipeline_first_stage", Type::flag, is_first_stage,
                 "True in the first stage, and there in virtual stage 0 unless that is ignored.", options),
        computed("is_pipeline_last_stage", Type::flag, is_last_stage,
                 "True in the last stage, and there in the last virtual stage unless that is ignored.",
                 options)};
    for (const auto& [slot, doc] :
         {std::pair(virtual_rank, "The current virtual stage; None without virtual stages."),
          {virtual_size, "How many virtual stages there are; None without them."}})
        rows.push_back({.name = cat("get_", slot),
                        .quantity = Quantity::value,
                        .doc = doc,
                        .type = Type::maybe_number,
                        .slot = slot});
    return rows;
}

}  // namespace rankmesh::frameworks::of_stages
