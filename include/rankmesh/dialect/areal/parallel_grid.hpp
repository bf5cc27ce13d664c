// SPDX-License-Identifier: Apache-2.0
// AReaL's ParallelGrid: one model on pipe, data and tensor, over all or some ranks of the world.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/areal/process_topology.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::areal {

/// From topology ranks to world ranks.
///
///     areal::RankMapping(3, 2)[4] == 11 && areal::RankMapping({{0, 3}, {1, 5}})[1] == 5
class RANKMESH_EXPORT RankMapping {
public:
    /// The identity mapping.
    RankMapping() = default;
    /// Topology rank r is world rank offset + r * step.
    explicit RankMapping(int offset, int step = 1) : offset_(offset), step_(step) {}
    /// The original's dictionary.
    RankMapping(std::map<int, int> ranks)
        : table_(std::make_shared<const std::map<int, int>>(std::move(ranks))) {}

    /// Throws dialect::Error where one of the topology's `size` ranks has no world rank, or one outside a
    /// world of `world_size`; dialect::Refusal ("mapping-not-rising") where a rank is not above the one
    /// before.
    void check(int size, int world_size) const;

    /// The world rank of a topology rank; throws dialect::Error where the dictionary lacks it.
    int operator[](int topology_rank) const;
    /// The rank among the topology's `size` that a world rank is, nothing if none; the mapping is increasing.
    std::optional<int> find(int world_rank, int size) const;
    /// The world ranks of a group, in its order.
    std::vector<int> of(const Group& topology_ranks) const;
    /// By how much the ranks rise; nothing for a dictionary.
    std::optional<int> step() const { return table_ ? std::nullopt : std::optional(step_); }

private:
    int offset_ = 0;
    int step_ = 1;
    std::shared_ptr<const std::map<int, int>> table_;
};

/// The sets of ranks for which AReaL would have made a process group, each once a backend; it makes none.
///
///     areal::ProcessGroupRegistry().new_or_get_group({3, 1, 2}, "gloo") == 0
class RANKMESH_EXPORT ProcessGroupRegistry {
public:
    struct Group {
        std::vector<int> ranks;  ///< sorted
        std::string backend;
    };

    /// `backend` is that of the default process group: the device's.
    explicit ProcessGroupRegistry(std::string backend = "nccl") : backend_(std::move(backend)) {}

    /// The number of the group of these ranks, in any order, on this backend, the default one if not given.
    int new_or_get_group(std::vector<int> ranks, const std::optional<std::string>& backend = {});
    /// What was made, in this order.
    const std::vector<Group>& made() const { return made_; }
    int size() const { return static_cast<int>(made_.size()); }
    /// Forgets all groups; nothing happens where the processes were never initialised.
    void destroy_all_comm_groups(bool is_initialized = true) {
        if (is_initialized) ids_.clear(), made_.clear();
    }

private:
    std::string backend_;
    std::map<std::pair<std::vector<int>, std::string>, int> ids_;
    std::vector<Group> made_;
    int next_id_ = 0;
};

/// The plan to join for ParallelGrid; the plans of several models, each under a name of its
/// own, go into one, and groups that they have in common share their channel.
RANKMESH_EXPORT Plan plan(const ProcessTopology& topology, const RankMapping& rank_mapping = {},
                          std::string name = {});

/// What AReaL's grid knows of one process, under its names, without starting a process.
///
/// `global_rank` is the process's rank in the topology, -1 outside the model. Groups hold topology ranks;
/// `mapped` gives the ranks of the world, as the original's handles have them.
struct RANKMESH_EXPORT RankInfo : dialect::GridRankInfo {
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
struct RANKMESH_EXPORT FakeGrid : private dialect::GridRankInfo {
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
