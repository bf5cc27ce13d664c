// SPDX-License-Identifier: Apache-2.0
// What the grids of DeepSpeed and AReaL both know of one rank.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/deepspeed/process_topology.hpp>

namespace rankmesh::deepspeed {

/// All axes of a topology but data: one replica of the model.
RANKMESH_EXPORT AxisSet all_but_data(const Mesh& mesh);

/// What one rank is in a topology with axes pipe, data and maybe one of tensor slices, without starting a
/// process.
///
/// Ranks are the topology's; a rank of -1 is outside, where every index is -1 and every group is nothing.
class RANKMESH_EXPORT GridRankInfo {
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

private:
    ProcessTopology topology_;
    int slice_id_ = -1;
};

}  // namespace rankmesh::deepspeed
