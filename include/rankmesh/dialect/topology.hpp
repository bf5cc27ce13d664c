// SPDX-License-Identifier: Apache-2.0
// ProcessTopology and the grid over it, which DeepSpeed and AReaL have: named axes over ranks, row-major.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh::dialect {

/// Where AReaL's topology says something else than DeepSpeed's.
struct TopologyStyle {
    std::string_view coord = "ProcessCoord";  ///< what a coordinate is called in texts
    bool world_digits = false;  ///< indices are padded to the digits of the world's size, else to two
};

/// The ranks of a job on named axes, outermost first; every question is answered by arithmetic.
///
///     dialect::ProcessTopology({"pipe", "data"}, {2, 4}).get_rank({{"pipe", 1}, {"data", 2}}) == 6
class RANKMESH_EXPORT ProcessTopology {
public:
    /// Throws dialect::Error for names that Python refuses and for fewer dims than axes; dialect::Refusal for
    /// dims below 1 ("sizes-below-one") and for more dims than axes ("ranks-overwritten").
    ProcessTopology(std::vector<std::string> axes, std::vector<int> dims, TopologyStyle style = {});

    const std::vector<std::string>& axes() const { return axes_; }
    const std::vector<int>& dims() const { return dims_; }
    const std::vector<std::string>& get_axis_names() const { return axes_; }
    int world_size() const { return mesh_.size(); }
    /// The size of an axis; 0 where there is none of that name.
    int get_dim(std::string_view axis) const;

    /// The rank at a coordinate of all axes, named in any order.
    int get_rank(const Coordinate& coord) const;
    /// The coordinate of a rank, as `coord["pipe"]`.
    Coordinate get_coord(int rank) const;
    /// `model_01`: the rank's place on all axes but those left out, for the names of files.
    std::string get_rank_repr(int rank, const std::vector<std::string>& omit_axes = {"data", "pipe"},
                              std::string_view inner_sep = "_", std::string_view outer_sep = "-") const;

    /// The groups along an axis, by their first ranks; nothing where there is none of that name.
    std::optional<Partition> get_axis_comm_lists(std::string_view axis) const;
    /// The ranks, rising, at index `idx` of an axis; nothing where the axis does not reach that far.
    std::optional<Group> get_axis_list(std::string_view axis, int idx) const;
    /// The ranks, rising, at these indices of some axes, nothing where there are none; as in the original an
    /// index that does not exist ends the search before a later name is looked at.
    std::optional<Group> filter_match(const Coordinate& filter) const;

    /// Python's text of the whole mapping: one entry a rank.
    std::string str() const;
    /// The axes as a mesh; without axes `world=1`.
    const Mesh& mesh() const { return mesh_; }

    /// True for the same sizes in the same order, whatever the axes are called.
    friend bool operator==(const ProcessTopology& a, const ProcessTopology& b) {
        return std::ranges::equal(a.sizes(), b.sizes());
    }

private:
    int find(std::string_view axis) const;
    std::span<const int> sizes() const { return std::span(dims_).first(axes_.size()); }

    std::vector<std::string> axes_;
    std::vector<int> dims_;
    TopologyStyle style_;
    Mesh mesh_;
};

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

/// The prime factors of a positive number, rising.
///
///     dialect::_prime_factors(12) == std::vector{2, 2, 3}
RANKMESH_EXPORT std::vector<int> _prime_factors(int N);

}  // namespace rankmesh::dialect
