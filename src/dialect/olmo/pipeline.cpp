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
constexpr auto schedules =
    std::array<std::string_view, 9>{"1F1B",       "Interleaved1F1B",       "GPipe",
                                    "LoopedBFS",  "InterleavedZeroBubble", "ZBVZeroBubble",
                                    "Custom1F1B", "CustomInterleaved1F1B", "Custom1F1BV"};
constexpr auto backends = std::array<std::string_view, 4>{"nccl", "nccl_rma", "nccl_rma_ack", "nccl_device"};

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

std::string_view to_string(PipelineP2PBackend backend) { return backends[static_cast<std::size_t>(backend)]; }

PipelineSplitStyle pipeline_split_style(std::string_view name) {
    return named<PipelineSplitStyle>(name, styles, "pipeline split style");
}
PipelineScheduleType pipeline_schedule_type(std::string_view name) {
    return named<PipelineScheduleType>(name, schedules, "pipeline schedule");
}
PipelineP2PBackend pipeline_p2p_backend(std::string_view name) {
    return named<PipelineP2PBackend>(name, backends, "pipeline P2P backend");
}

PipelineSplitStyle PipelineParallelConfig::infer_style() const {
    if (!style) return default_style(schedule);
    if (schedule == PipelineScheduleType::custom_1F1B_V && *style != PipelineSplitStyle::v)
        throw Error(Fault::exclusive, "custom_1F1B_V requires pipeline split style 'v'");
    if (schedule == PipelineScheduleType::custom_interleaved_1F1B && *style != PipelineSplitStyle::loop)
        throw Error(Fault::exclusive,
                    "custom_interleaved_1F1B requires pipeline split style 'loop'; use custom_1F1B_V for "
                    "V-shaped placement");
    return *style;
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

void PipelineParallelConfig::check_p2p() const {
    const auto given = p2p_nccl_min_ctas || p2p_nccl_max_ctas;
    if (given && p2p_backend != PipelineP2PBackend::nccl)
        throw Error(Fault::exclusive, "p2p_nccl_min_ctas/p2p_nccl_max_ctas only apply to p2p_backend='nccl'");
    if (p2p_nccl_min_ctas.value_or(1) <= 0)
        throw Error(Fault::sizes, cat("p2p_nccl_min_ctas must be positive, and is ", *p2p_nccl_min_ctas));
    if (p2p_nccl_max_ctas.value_or(1) <= 0)
        throw Error(Fault::sizes, cat("p2p_nccl_max_ctas must be positive, and is ", *p2p_nccl_max_ctas));
    if (p2p_nccl_min_ctas && p2p_nccl_max_ctas && *p2p_nccl_min_ctas > *p2p_nccl_max_ctas)
        throw Error(Fault::sizes, cat("p2p_nccl_min_ctas cannot exceed p2p_nccl_max_ctas, and ",
                                      *p2p_nccl_min_ctas, " does ", *p2p_nccl_max_ctas));
    if (p2p_backend == PipelineP2PBackend::nccl_device)
        throw Error(Fault::exclusive, "p2p_backend='nccl_device' is reserved but not implemented yet");
    if (given && !p2p_use_separate_group)
        throw Error(Fault::exclusive,
                    "p2p_nccl_min_ctas/p2p_nccl_max_ctas require p2p_use_separate_group=True");
}

std::optional<Group> PipelineParallelConfig::build_p2p_process_group(const DeviceMesh& device_mesh) const {
    check_p2p();
    if (!p2p_use_separate_group) return std::nullopt;
    const auto names = device_mesh.mesh_dim_names();
    if (!names) throw Error(Fault::missing, "could not build PP P2P groups without mesh dimension names");
    if (std::ranges::find(*names, "pp") == names->end())
        throw Error(Fault::unknown,
                    cat("could not build PP P2P groups from mesh with dimensions ", to_string(*names)));
    return device_mesh.get_group("pp");
}

PipelineSchedule::PipelineSchedule(std::vector<PipelineStage> stages, const DeviceMesh& pp_mesh,
                                   PipelineScheduleType schedule_name, std::optional<int> num_microbatches)
    : stages(std::move(stages)),
      pp_mesh(pp_mesh),
      schedule_name(schedule_name),
      num_microbatches(num_microbatches.value_or(pp_mesh.size())) {
    const auto count = this->stages.size();
    if (count == 0) throw Error(Fault::missing, "a pipeline schedule without stages was asked for");
    if (schedule_name == PipelineScheduleType::custom_1F1B)
        throw Error(Fault::argument, "Custom 1F1B schedule is not implemented yet.");
    const auto custom = schedule_name == PipelineScheduleType::custom_interleaved_1F1B ||
                        schedule_name == PipelineScheduleType::custom_1F1B_V;
    if (custom && count != 2)
        throw Error(Fault::sizes, cat("Interleaved 1F1B requires exactly 2 stages per rank, got ", count));
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
