// SPDX-License-Identifier: Apache-2.0
// AReaL's ParallelGrid: one model on pipe, data and tensor, over all or some ranks of the world.
#pragma once

#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/areal/process_group_registry.hpp>
#include <rankmesh/dialect/areal/process_topology.hpp>
#include <rankmesh/dialect/areal/rank_mapping.hpp>
#include <rankmesh/dialect/deepspeed/grid_rank_info.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::areal {

/// The plan to join for ParallelGrid; the plans of several models, each under a name of its
/// own, go into one, and groups that they have in common share their channel.
RANKMESH_EXPORT Plan plan(const ProcessTopology& topology, const RankMapping& rank_mapping = {},
                          std::string name = {});

/// What AReaL's grid knows of one process, under its names, without starting a process.
///
/// `global_rank` is the process's rank in the topology, -1 outside the model. Groups hold topology ranks;
/// `mapped` gives the ranks of the world, as the original's handles have them.
struct RANKMESH_EXPORT RankInfo : deepspeed::GridRankInfo {
    /// Of a rank of the world; throws what RankMapping::check throws.
    RankInfo(const ProcessTopology& topology, int rank, int world_size, RankMapping rank_mapping = {});

    /// The first and the last stage of the pipeline where this rank is one of them, and the first.
    std::optional<Group> embedding_group, position_embedding_group;
    std::optional<Group> tp_dp_group;  ///< all replicas and slices of one stage
    RankMapping rank_mapping;

    std::vector<int> mapped(const Group& topology_ranks) const { return rank_mapping.of(topology_ranks); }
    /// The world ranks of a topology rank and of the one at the next stage, the first after the last.
    std::array<int, 2> p2p_groups(int rank) const;
    /// Asks for every group of the grid in the original's order, so that those which `registry` lacks are
    /// made.
    void make_groups(ProcessGroupRegistry& registry) const;
};

/// The same, live: with its communicators, on the device where the world has an engine for one, and as
/// `_gloo` on the host; outside the model all are nothing.
///
/// Throws UsageError for a member whose plan lacks one of them, or has a mesh of other sizes; `plan` has all.
struct RANKMESH_EXPORT ParallelGrid : RankInfo {
    ParallelGrid(const Member& member, const ProcessTopology& topology, const RankMapping& rank_mapping = {});

    using Handle = std::optional<Communicator>;
    Handle& get_pipe_parallel_group() { return pp_proc_group; }
    Handle& get_data_parallel_group() { return dp_proc_group; }
    Handle& get_data_parallel_group_gloo() { return dp_proc_group_gloo; }
    Handle& get_model_parallel_group() { return ds_model_proc_group; }
    Handle& get_tensor_model_parallel_group() { return slice_proc_group; }
    Handle& get_tensor_model_parallel_cpu_group() { return slice_proc_group_gloo; }

    Handle ds_model_proc_group, ds_model_proc_group_gloo;
    Handle dp_proc_group, dp_proc_group_gloo;
    Handle pp_proc_group, pp_proc_group_gloo;
    Handle embedding_proc_group, position_embedding_proc_group;  ///< nothing on other stages
    Handle slice_proc_group, slice_proc_group_gloo;
    Handle tp_dp_proc_group;
};

/// A grid of ranks and sizes without groups, for trying a schedule without processes.
struct RANKMESH_EXPORT FakeGrid : private deepspeed::GridRankInfo {
    /// Throws dialect::Error for a rank outside the topology.
    FakeGrid(int of_rank, const ProcessTopology& topo)
        : GridRankInfo(topo, of_rank, "tensor"), rank(of_rank), coord(topo.get_coord(of_rank)) {}

    using GridRankInfo::get_data_parallel_rank, GridRankInfo::get_data_parallel_world_size;
    using GridRankInfo::get_pipe_parallel_rank, GridRankInfo::get_pipe_parallel_world_size;
    using GridRankInfo::get_tensor_model_parallel_rank, GridRankInfo::get_tensor_model_parallel_world_size;
    /// Throw dialect::Error: `No groups in fake grid.`
    [[noreturn]] void get_pipe_parallel_group() const;
    [[noreturn]] void get_data_parallel_group() const { get_pipe_parallel_group(); }
    [[noreturn]] void get_tensor_model_parallel_group() const { get_pipe_parallel_group(); }

    using GridRankInfo::data_parallel_size, GridRankInfo::pipe_parallel_size;
    using GridRankInfo::model_parallel_size, GridRankInfo::world_size;
    int rank;
    Coordinate coord;
    int dp_id = data_parallel_id, pp_id = stage_id, mp_id = get_tensor_model_parallel_rank();
};

}  // namespace rankmesh::areal
