// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's PipelineParallelGrid: axes pipe, data and maybe model and others, over the whole world.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/deepspeed/process_topology.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::deepspeed {

/// All axes of a topology but data: one replica of the model.
RANKMESH_EXPORT AxisSet all_but_data(const Mesh& mesh);

/// What one rank is in a topology with axes pipe, data and maybe one of tensor slices, in DeepSpeed's grid
/// and in AReaL's, without starting a process.
///
/// Ranks are the topology's; a rank of -1 is outside, where every index is -1 and every group is nothing.
class RANKMESH_EXPORT GridRankInfo {
    ProcessTopology topology_;
    int slice_id_ = -1;

public:
    int global_rank;
    int world_size;
    int data_parallel_size, pipe_parallel_size, model_parallel_size, slice_parallel_size;
    int stage_id = -1, data_parallel_id = -1;
    bool is_first_stage, is_last_stage;
    int ds_model_rank = -1;
    std::optional<int> ds_model_world_size;  ///< nothing outside
    std::optional<Group> ds_model_group;     ///< all stages and slices of one replica
    std::optional<Group> dp_group, pp_group, slice_group;
    std::vector<int> mp_group = {};  ///< always empty, as in the original
    Partition dp_groups, pipe_groups, model_groups;

    const ProcessTopology& topology() const { return topology_; }
    const ProcessTopology& topo() const { return topology_; }
    /// The rank at another stage, with this rank's index on all other axes but those of `kwargs`; -1 outside.
    int stage_to_global(int stage_id, const Coordinate& kwargs = Coordinate({})) const;
    /// A rank and the one at the next stage, the first after the last.
    std::array<int, 2> p2p_groups(int rank) const;

    int get_stage_id() const { return stage_id; }
    int get_data_parallel_id() const { return data_parallel_id; }
    int get_global_rank() const { return global_rank; }
    int get_pipe_parallel_rank() const { return stage_id; }
    int get_pipe_parallel_world_size() const { return pipe_parallel_size; }
    int get_data_parallel_rank() const { return data_parallel_id; }
    int get_data_parallel_world_size() const { return data_parallel_size; }
    int get_model_parallel_rank() const { return ds_model_rank; }
    /// Throws dialect::Error outside.
    int get_model_parallel_world_size() const;
    int get_tensor_model_parallel_rank() const { return slice_id_; }
    int get_tensor_model_parallel_world_size() const { return slice_parallel_size; }

protected:
    /// Throws dialect::Error without an axis pipe or data, or for a rank that does not exist.
    GridRankInfo(ProcessTopology topology, int rank, std::string_view slice_axis);
};

/// The topology that DeepSpeed takes where none is given: the world's prime factors, rising, dealt to pipe
/// and data in turn.
///
///     deepspeed::default_topology(12).mesh() == Mesh{{"pipe", 6}, {"data", 2}}
RANKMESH_EXPORT ProcessTopology default_topology(int world_size);

/// The plan to join for PipelineParallelGrid; beside other meshes under a name of its own.
RANKMESH_EXPORT Plan plan(const ProcessTopology& topology, std::string name = {});

/// What DeepSpeed's grid knows of one rank, under its names, without starting a process.
struct RANKMESH_EXPORT RankInfo : GridRankInfo {
    /// Throws dialect::Error where the topology is not of the world's size, lacks an axis pipe or data, or
    /// has no such rank.
    RankInfo(const ProcessTopology& topology, int rank, int size);
    RankInfo(int rank, int size) : RankInfo(default_topology(size), rank, size) {}

    int get_pipeline_model_parallel_rank() const { return stage_id; }
    int get_pipeline_model_parallel_world_size() const { return pipe_parallel_size; }
    const Group& get_data_parallel_group_ranks() const { return *dp_group; }
    int get_slice_parallel_rank() const { return get_tensor_model_parallel_rank(); }
    int get_slice_parallel_world_size() const { return slice_parallel_size; }

    /// The groups that the original makes, in its order: model, data, pipe, slice.
    std::vector<Partition> new_groups() const;
};

/// The same, live: with its communicators.
///
/// Throws UsageError for a member whose plan lacks one of them, or has a mesh of other sizes; `plan` has all.
struct RANKMESH_EXPORT PipelineParallelGrid : RankInfo {
    PipelineParallelGrid(const Member& member, const ProcessTopology& topology);
    /// With the default topology of the member's world.
    explicit PipelineParallelGrid(const Member& member);

    Communicator& get_model_parallel_group() { return ds_model_proc_group; }
    Communicator& get_data_parallel_group() { return dp_proc_group; }
    Communicator& get_pipe_parallel_group() { return pp_proc_group; }
    Communicator& get_slice_parallel_group() { return slice_proc_group; }

    Communicator ds_model_proc_group, dp_proc_group, pp_proc_group, slice_proc_group;
};

}  // namespace rankmesh::deepspeed
