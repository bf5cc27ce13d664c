// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/config.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

#include "dialect/environment.hpp"

namespace rankmesh::olmo {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

namespace {

/// The whole part of a quotient, rounded towards minus infinity as Python does.
int quotient(int number, int by, std::string_view what) {
    if (by == 0) throw Error(Fault::sizes, cat(what, " is 0, and nothing is divisible by 0"));
    const auto towards_zero = number / by;
    return number % by != 0 && (number < 0) != (by < 0) ? towards_zero - 1 : towards_zero;
}

int checked(std::string_view what, int degree, int dp_world_size) {
    if (quotient(dp_world_size, degree, what) * degree != dp_world_size)
        throw Error(Fault::sizes, cat("data parallel world size (", dp_world_size, ") must be divisible by '",
                                      what, "' (", degree, ")"));
    return degree;
}

using Names = std::span<const std::string_view>;
constexpr std::string_view types[] = {"fsdp", "hsdp", "ddp"};
constexpr std::string_view styles[] = {"loop", "v"};
constexpr std::string_view schedules[] = {"1F1B",       "Interleaved1F1B",       "GPipe",
                                          "LoopedBFS",  "InterleavedZeroBubble", "ZBVZeroBubble",
                                          "Custom1F1B", "CustomInterleaved1F1B", "Custom1F1BV"};
constexpr std::string_view backends[] = {"nccl", "nccl_rma", "nccl_rma_ack", "nccl_device"};

template <class Enum>
std::string_view name_of(Enum value, Names names) {
    return names[static_cast<std::size_t>(value)];
}

/// What has this name; throws Error that says it between `before` and `after`.
template <class Enum>
Enum named(std::string_view name, Names names, std::string_view before, std::string_view after = "'") {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) throw Error(Fault::unknown, cat(before, name, after));
    return static_cast<Enum>(found - names.begin());
}

void check_at_least_one(int number, std::string_view what) {
    if (number < 1)
        throw Refusal(Fault::sizes, "sizes-below-one", cat(what, " is ", number, "; it must be 1 or more"));
}

}  // namespace

Environment environment_of() {
    return {.num_nodes = dialect::number_in_environment("NUM_NODES"),
            .local_world_size = dialect::number_in_environment("LOCAL_WORLD_SIZE")};
}

Environment environment_of(const World& world) {
    auto environment = environment_of();
    if (!environment.local_world_size) environment.local_world_size = world.local_size();
    return environment;
}

int get_num_nodes(const Environment& environment, int world_size) {
    if (environment.num_nodes) return *environment.num_nodes;
    if (environment.local_world_size)
        return quotient(world_size, *environment.local_world_size, "LOCAL_WORLD_SIZE");
    throw Error(Fault::missing,
                cat("the number of nodes of a world of ", world_size, world_size == 1 ? " rank" : " ranks",
                    " is not known; give NUM_NODES or LOCAL_WORLD_SIZE"));
}

std::string_view to_string(DataParallelType type) { return name_of(type, types); }
std::string_view to_string(PipelineSplitStyle style) { return name_of(style, styles); }
std::string_view to_string(PipelineScheduleType schedule) { return name_of(schedule, schedules); }
std::string_view to_string(PipelineP2PBackend backend) { return name_of(backend, backends); }

DataParallelType data_parallel_type(std::string_view name) {
    return named<DataParallelType>(name, types, "'",
                                   "' is not a valid DataParallelType; they are fsdp, hsdp and ddp");
}
PipelineSplitStyle pipeline_split_style(std::string_view name) {
    return named<PipelineSplitStyle>(name, styles, "Invalid pipeline split style '");
}
PipelineScheduleType pipeline_schedule_type(std::string_view name) {
    return named<PipelineScheduleType>(name, schedules, "Invalid pipeline schedule '");
}
PipelineP2PBackend pipeline_p2p_backend(std::string_view name) {
    return named<PipelineP2PBackend>(name, backends, "Invalid pipeline P2P backend '");
}

std::pair<int, int> DataParallelConfig::get_replicate_and_shard_degree(int dp_world_size,
                                                                       int num_nodes) const {
    if (!num_replicas && !shard_degree)
        return {num_nodes, quotient(dp_world_size, num_nodes, "the number of nodes")};
    const auto replicas = num_replicas ? checked("num_replicas", *num_replicas, dp_world_size)
                                       : quotient(dp_world_size, *shard_degree, "shard_degree");
    const auto shards = shard_degree ? checked("shard_degree", *shard_degree, dp_world_size)
                                     : quotient(dp_world_size, replicas, "num_replicas");
    return {replicas, shards};
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
