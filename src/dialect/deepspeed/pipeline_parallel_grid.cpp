// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

#include "dialect/mesh_groups.hpp"

namespace rankmesh::deepspeed {

using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto grid_joined_with = "deepspeed::plan(topology)";

/// The topology's axes, with a model axis of one where it has none: each rank is a slice by itself.
Mesh joined_mesh(const ProcessTopology& topology) {
    auto axes = std::vector<Axis>{};
    for (const auto& name : topology.axes()) axes.push_back({name, topology.get_dim(name)});
    if (topology.get_dim("model") == 0) axes.push_back({"model", 1});
    return Mesh(std::span<const Axis>(axes));
}

std::vector<std::string> model_axes(const Mesh& mesh) {
    return rankmesh::detail::names_of(mesh, all_but_data(mesh));
}

Communicator model_group(const Member& member, const Mesh& mesh) {
    dialect::check_mesh(member, mesh, grid_joined_with);
    const auto names = model_axes(mesh);
    return dialect::communicator(member, std::vector<std::string_view>(names.begin(), names.end()),
                                 grid_joined_with);
}

}  // namespace

ProcessTopology default_topology(int world_size) {
    auto num_pp = 1;
    auto num_dp = 1;
    auto to_pipe = true;
    for (auto prime : _prime_factors(world_size)) {
        (to_pipe ? num_pp : num_dp) *= prime;
        to_pipe = !to_pipe;
    }
    return PipeDataParallelTopology(num_pp, num_dp);
}

Plan plan(const ProcessTopology& topology, std::string name) {
    const auto mesh = joined_mesh(topology);
    return {{.name = std::move(name), .mesh = mesh, .over = {Axes(model_axes(mesh))}}};
}

RankInfo::RankInfo(const ProcessTopology& topology, int rank, int world)
    : GridRankInfo((topology.world_size() == world ? topology : throw Error(Fault::sizes, "Invalid Grid")),
                   rank, "model") {
    if (rank < 0) dialect::check_rank(rank, world);
}

std::vector<Partition> RankInfo::new_groups() const {
    const auto& mesh = topology().mesh();
    return {mesh.partition(all_but_data(mesh)), dp_groups, pipe_groups, model_groups};
}

PipelineParallelGrid::PipelineParallelGrid(const Member& member, const ProcessTopology& topology)
    : RankInfo(topology, member.rank(), member.mesh().size()),
      ds_model_proc_group(model_group(member, joined_mesh(topology))),
      dp_proc_group(dialect::communicator(member, {"data"}, grid_joined_with)),
      pp_proc_group(dialect::communicator(member, {"pipe"}, grid_joined_with)),
      slice_proc_group(dialect::communicator(member, {"model"}, grid_joined_with)) {}

PipelineParallelGrid::PipelineParallelGrid(const Member& member)
    : PipelineParallelGrid(member, default_topology(member.mesh().size())) {}

}  // namespace rankmesh::deepspeed
