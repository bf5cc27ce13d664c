// SPDX-License-Identifier: Apache-2.0
// OLMo-core's parallel configurations and pipeline schedules, and torch's DeviceMesh in its namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/device_mesh.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::olmo {

using dialect::DeviceMesh;
using dialect::DimNames;
using dialect::init_device_mesh;
using dialect::new_groups;
using dialect::to_string;

/// What the launcher says of the machines.
struct Environment {
    std::optional<int> num_nodes = {};         ///< NUM_NODES
    std::optional<int> local_world_size = {};  ///< LOCAL_WORLD_SIZE
};

/// NUM_NODES and LOCAL_WORLD_SIZE of this process's environment. Throws dialect::Error if one of them is not
/// a number.
RANKMESH_EXPORT Environment environment_of();
/// The same, where LOCAL_WORLD_SIZE is not set with the ranks of `world` on this host.
RANKMESH_EXPORT Environment environment_of(const World& world);

/// NUM_NODES, else the whole part of the world over LOCAL_WORLD_SIZE.
///
/// Throws dialect::Error where neither is known, as the original does (KeyError) in a world of any size.
RANKMESH_EXPORT int get_num_nodes(const Environment& environment, int world_size);

/// fsdp and ddp give the same mesh; hsdp shards within replicas.
enum class DataParallelType : std::uint8_t { fsdp, hsdp, ddp };

struct RANKMESH_EXPORT DataParallelConfig {
    DataParallelType name = DataParallelType::fsdp;
    std::optional<int> num_replicas = {};
    std::optional<int> shard_degree = {};

    /// How many replicas of how many shards: one replica a node if neither is given, the other of what is
    /// given otherwise; where both are, that they make the world is checked by the mesh.
    ///
    /// Throws dialect::Error for one that is 0 or does not divide.
    ///
    ///     olmo::DataParallelConfig{.num_replicas = 4}.get_replicate_and_shard_degree(8, 2).second == 2
    std::pair<int, int> get_replicate_and_shard_degree(int dp_world_size, int num_nodes) const;
};

struct TensorParallelConfig {
    int degree = 1;
};

struct ContextParallelConfig {
    int degree = 1;
};

/// A negative degree means the number of ranks that there are to shard over.
struct ExpertParallelConfig {
    int degree = 1;
};

/// How stages lie over ranks: round and round, or forth and back.
enum class PipelineSplitStyle : std::uint8_t { loop, v };

enum class PipelineScheduleType : std::uint8_t {
    single_1F1B,              ///< 1F1B
    interleaved_1F1B,         ///< Interleaved1F1B
    gpipe,                    ///< GPipe
    looped_bfs,               ///< LoopedBFS
    interleaved_zero_bubble,  ///< InterleavedZeroBubble
    zbv_zero_bubble,          ///< ZBVZeroBubble
    custom_1F1B,              ///< Custom1F1B
    custom_interleaved_1F1B,  ///< CustomInterleaved1F1B
    custom_1F1B_V             ///< Custom1F1BV
};

/// What carries activations and gradients between stages.
enum class PipelineP2PBackend : std::uint8_t { nccl, nccl_rma, nccl_rma_ack, nccl_device };

// The names of the above in OLMo-core, as `1F1B`, and what has a name; any other throws dialect::Error.
RANKMESH_EXPORT std::string_view to_string(DataParallelType type);
RANKMESH_EXPORT std::string_view to_string(PipelineSplitStyle style);
RANKMESH_EXPORT std::string_view to_string(PipelineScheduleType schedule);
RANKMESH_EXPORT std::string_view to_string(PipelineP2PBackend backend);
RANKMESH_EXPORT DataParallelType data_parallel_type(std::string_view name);
RANKMESH_EXPORT PipelineSplitStyle pipeline_split_style(std::string_view name);
RANKMESH_EXPORT PipelineScheduleType pipeline_schedule_type(std::string_view name);
RANKMESH_EXPORT PipelineP2PBackend pipeline_p2p_backend(std::string_view name);

/// True for 1F1B, Custom1F1B and GPipe, which run one stage a rank.
constexpr bool is_single_stage(PipelineScheduleType schedule) {
    return schedule == PipelineScheduleType::single_1F1B || schedule == PipelineScheduleType::gpipe ||
           schedule == PipelineScheduleType::custom_1F1B;
}
constexpr bool is_multi_stage(PipelineScheduleType schedule) { return !is_single_stage(schedule); }
constexpr PipelineSplitStyle default_style(PipelineScheduleType schedule) {
    const auto v =
        schedule == PipelineScheduleType::zbv_zero_bubble || schedule == PipelineScheduleType::custom_1F1B_V;
    return v ? PipelineSplitStyle::v : PipelineSplitStyle::loop;
}

struct RANKMESH_EXPORT PipelineParallelConfig {
    int degree = 1;
    PipelineScheduleType schedule = PipelineScheduleType::interleaved_1F1B;
    std::optional<PipelineSplitStyle> style = {};
    bool p2p_use_separate_group = false;
    PipelineP2PBackend p2p_backend = PipelineP2PBackend::nccl;
    std::optional<int> p2p_nccl_min_ctas = {};
    std::optional<int> p2p_nccl_max_ctas = {};

    /// The style given, else the schedule's own.
    ///
    /// Throws dialect::Error for Custom1F1BV that is not v, and CustomInterleaved1F1B that is not a loop.
    PipelineSplitStyle infer_style() const;
    /// The ranks of the pipeline in the order in which they complete a batch.
    auto rank_completion_order() const {
        check_degree();
        const auto loop = infer_style() == PipelineSplitStyle::loop;
        return std::views::iota(0, degree) |
               std::views::transform([loop, n = degree](int i) { return loop ? n - 1 - i : i; });
    }
    /// The rank of the pipeline that has the last stage, and is the first to complete a batch.
    int final_stage_rank() const { return *rank_completion_order().begin(); }
    /// The stages of one rank of the pipeline: every degree-th, or two from both ends.
    ///
    /// Throws dialect::Error for stages that the degree does not divide, or not by two where the style is v;
    /// dialect::Refusal for a rank outside the pipeline.
    ///
    ///     olmo::PipelineParallelConfig{.degree = 4}.stage_ids_this_rank(1, 8) == std::vector{1, 5}
    std::vector<int> stage_ids_this_rank(int pp_rank, int num_stages) const;
    /// The ranks of the pipeline, between whose stages activations and gradients go on a communicator of
    /// their own; nothing unless `p2p_use_separate_group` is true.
    ///
    /// Throws dialect::Error for CTAs that do not go together or without such a group, for the backend
    /// nccl_device, and for a mesh without `pp`.
    std::optional<Group> build_p2p_process_group(const DeviceMesh& device_mesh) const;

private:
    void check_p2p() const;
    void check_degree() const;
};

/// One stage of a pipeline.
struct PipelineStage {
    int stage_index = 0;
    int num_stages = 1;
    bool is_first() const { return stage_index == 0; }
    bool is_last() const { return stage_index == num_stages - 1; }
};

/// Which stages this rank runs under which schedule, and in how many microbatches; running them is the
/// program's.
class RANKMESH_EXPORT PipelineSchedule {
public:
    /// As many microbatches as `pp_mesh` has ranks if not given.
    ///
    /// Throws dialect::Error for no stage, several under a single-stage schedule, one under another, other
    /// than two under a custom one, and Custom1F1B, which OLMo-core does not have.
    PipelineSchedule(std::vector<PipelineStage> stages, const DeviceMesh& pp_mesh,
                     PipelineScheduleType schedule_name, std::optional<int> num_microbatches = {});

    bool has_first_stage() const;
    bool has_last_stage() const;

    std::vector<PipelineStage> stages;
    DeviceMesh pp_mesh;
    PipelineScheduleType schedule_name;
    int num_microbatches;
};

}  // namespace rankmesh::olmo
