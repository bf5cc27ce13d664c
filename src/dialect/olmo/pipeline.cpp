// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/pipeline.hpp>

#include <algorithm>
#include <array>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::olmo {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

namespace {

constexpr auto styles = std::array<std::string_view, 2>{"loop", "v"};
constexpr auto schedules = std::array<std::string_view, 6>{
    "1F1B", "Interleaved1F1B", "GPipe", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble"};

template <class Enum>
Enum named(std::string_view name, std::span<const std::string_view> names, std::string_view what) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) throw Error(Fault::unknown, cat("Invalid ", what, " '", name, "'"));
    return static_cast<Enum>(found - names.begin());
}

void check_at_least_one(int number, std::string_view what) {
    if (number < 1)
        throw Refusal(Fault::sizes, "sizes-below-one", cat(what, " is ", number, "; it must be 1 or more"));
}

}  // namespace

std::string_view to_string(PipelineSplitStyle style) { return styles[static_cast<std::size_t>(style)]; }
std::string_view to_string(PipelineScheduleType schedule) {
    return schedules[static_cast<std::size_t>(schedule)];
}

PipelineSplitStyle pipeline_split_style(std::string_view name) {
    return named<PipelineSplitStyle>(name, styles, "pipeline split style");
}
PipelineScheduleType pipeline_schedule_type(std::string_view name) {
    return named<PipelineScheduleType>(name, schedules, "pipeline schedule");
}

void PipelineParallelConfig::check_degree() const {
    check_at_least_one(degree, "PipelineParallelConfig.degree");
}

std::vector<int> PipelineParallelConfig::stage_ids_this_rank(int pp_rank, int num_stages) const {
    check_degree();
    check_at_least_one(num_stages, "num_stages");
    if (num_stages % degree != 0)
        throw Error(Fault::sizes,
                    cat("num_stages ", num_stages, " must be evenly divisible by pipeline size ", degree));
    const auto stages_per_rank = num_stages / degree;
    const auto loop = infer_style() == PipelineSplitStyle::loop;
    if (!loop && stages_per_rank != 2)
        throw Error(Fault::sizes, cat("v schedules assume 2 stages per rank, got ", stages_per_rank));
    if (pp_rank < 0 || pp_rank >= degree)
        throw Refusal(Fault::out_of_range, "rank-outside",
                      cat("rank ", pp_rank, " of a pipeline of ", degree, "; its ranks are 0..", degree - 1));
    if (!loop) return {pp_rank, num_stages - 1 - pp_rank};
    auto stages = std::vector<int>{};
    for (int stage = pp_rank; stage < num_stages; stage += degree) stages.push_back(stage);
    return stages;
}

PipelineSchedule::PipelineSchedule(std::vector<PipelineStage> stages, const DeviceMesh& pp_mesh,
                                   PipelineScheduleType schedule_name, std::optional<int> num_microbatches)
    : stages(std::move(stages)),
      pp_mesh(pp_mesh),
      schedule_name(schedule_name),
      num_microbatches(num_microbatches.value_or(pp_mesh.size())) {
    const auto count = this->stages.size();
    if (count == 0) throw Error(Fault::missing, "a pipeline schedule without stages was asked for");
    if (is_single_stage(schedule_name) && count > 1)
        throw Error(Fault::sizes,
                    cat("Expected a single stage for '", to_string(schedule_name), "' pipeline schedule"));
    if (is_multi_stage(schedule_name) && count < 2)
        throw Error(Fault::sizes, cat("Multi-stage schedule expects at least two stages but got ", count));
    check_at_least_one(this->num_microbatches, "num_microbatches");
}

bool PipelineSchedule::has_first_stage() const {
    return std::ranges::any_of(stages, &PipelineStage::is_first);
}

bool PipelineSchedule::has_last_stage() const { return std::ranges::any_of(stages, &PipelineStage::is_last); }

}  // namespace rankmesh::olmo
