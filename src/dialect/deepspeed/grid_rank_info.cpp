// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/grid_rank_info.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::deepspeed {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

/// The groups along an axis; where there is none of that name each rank is one by itself.
Partition along(const ProcessTopology& topology, std::string_view axis) {
    const auto found = topology.get_axis_comm_lists(axis);
    return found ? *found : topology.mesh().partition(AxisSet{});
}

void check_axes(const ProcessTopology& topology) {
    for (const auto* axis : {"pipe", "data"})
        if (topology.get_dim(axis) == 0)
            throw Error(Fault::unknown, cat("the topology ", to_string(topology.mesh()), " has no axis '",
                                            axis, "'; a grid needs pipe and data"));
}

}  // namespace

AxisSet all_but_data(const Mesh& mesh) {
    auto axes = AxisSet{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (mesh.name({a}) != "data") axes.insert({a});
    return axes;
}

GridRankInfo::GridRankInfo(ProcessTopology topology, int rank, std::string_view slice_axis)
    : global_rank((check_axes(topology), rank)),
      world_size(topology.world_size()),
      data_parallel_size(topology.get_dim("data")),
      pipe_parallel_size(topology.get_dim("pipe")),
      model_parallel_size(std::max(topology.get_dim(slice_axis), 1)),
      slice_parallel_size(model_parallel_size),
      dp_groups(along(topology, "data")),
      pipe_groups(along(topology, "pipe")),
      model_groups(along(topology, slice_axis)),
      topology_(std::move(topology)) {
    if (rank != -1) {
        const auto coord = topology_.get_coord(rank);
        const auto& mesh = topology_.mesh();
        stage_id = coord["pipe"];
        data_parallel_id = coord["data"];
        const auto slice = mesh.find(slice_axis);
        slice_id_ = slice ? coord[*slice] : 0;
        ds_model_group = mesh.group(rank, all_but_data(mesh));
        ds_model_world_size = ds_model_group->size();
        ds_model_rank = *ds_model_group->group_rank(rank);
        dp_group = mesh.group(rank, "data");
        pp_group = mesh.group(rank, "pipe");
        slice_group = mesh.group(rank, slice ? mesh.axes(*slice) : AxisSet{});
    }
    is_first_stage = stage_id == 0;
    is_last_stage = stage_id == pipe_parallel_size - 1;
}

int GridRankInfo::stage_to_global(int stage, const Coordinate& kwargs) const {
    if (global_rank == -1) return -1;
    const auto me = topology_.get_coord(global_rank);
    auto unknown = std::string{};
    for (int i = 0; i < kwargs.size(); ++i)
        if (me.find(kwargs.name(i)) < 0)
            detail::append(unknown, cat(unknown.empty() ? "'" : ", '", kwargs.name(i), "'"));
    if (kwargs.find("pipe") >= 0)
        throw Error(Fault::argument, "stage_to_global() got multiple values for keyword argument 'pipe'");
    if (!unknown.empty()) throw Error(Fault::unknown, cat("Got unexpected field names: [", unknown, "]"));
    auto there = Coordinate({});
    for (int i = 0; i < me.size(); ++i) {
        const auto given = kwargs.find(me.name(i));
        const auto index = given >= 0 ? kwargs[AxisId{given}] : me[AxisId{i}];
        there.push_back(me.name(i), me.name(i) == "pipe" ? stage : index);
    }
    return topology_.get_rank(there);
}

std::array<int, 2> GridRankInfo::p2p_groups(int rank) const {
    topology_.get_coord(rank);  // throws where there is no such rank
    return {rank, *topology_.mesh().neighbor(rank, "pipe", +1, Edge::wrap)};
}

int GridRankInfo::get_model_parallel_world_size() const {
    if (!ds_model_world_size)
        throw Error(Fault::not_member, "this rank is outside the model; ds_model_world_size is not set");
    return *ds_model_world_size;
}

}  // namespace rankmesh::deepspeed
