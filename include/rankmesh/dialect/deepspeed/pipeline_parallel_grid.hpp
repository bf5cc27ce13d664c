// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's PipelineParallelGrid: axes pipe, data and maybe model and others, over the whole world.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/deepspeed/process_topology.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::deepspeed {

using dialect::all_but_data, dialect::GridRankInfo;

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
