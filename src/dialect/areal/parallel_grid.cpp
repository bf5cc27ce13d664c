// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/parallel_grid.hpp>

#include <limits>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::areal {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "areal::plan(topology, rank_mapping)";

std::vector<int> listed(const MappedGroup& group) { return {group.begin(), group.end()}; }

/// The mesh that is joined: of world ranks, or of positions where the mapping has a table.
Mesh joined_mesh(const ProcessTopology& topology, const RankMapping& mapping) {
    const auto& mesh = topology.mesh();
    const auto step = mapping.step();
    if (!step) return mesh;
    auto axes = std::vector<Axis>{};
    auto stride = mesh.size();
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto size = mesh.size(AxisId{a});
        stride /= size;
        axes.push_back({mesh.name({a}), size, size == 1 ? 1 : stride * *step});
    }
    return Mesh(std::span<const Axis>(axes)).shifted(mapping[0]);
}

}  // namespace

Plan plan(const ProcessTopology& topology, const RankMapping& rank_mapping, std::string name) {
    rank_mapping.check(topology.world_size(), std::numeric_limits<int>::max());
    auto placed = std::vector<int>{};
    if (!rank_mapping.step()) placed = listed(rank_mapping.of(topology.mesh().ranks()));
    return {{.name = std::move(name),
             .mesh = joined_mesh(topology, rank_mapping),
             .over = {{"pipe", "tensor"}, {"data", "tensor"}},
             .picks = {{.of = "pipe", .at = {0, -1}, .as = "embedding"},
                       {.of = "pipe", .at = {0}, .as = "position_embedding"}},
             .placed = std::move(placed),
             .partial = true}};
}

RankInfo::RankInfo(const ProcessTopology& topology, int rank, int world, RankMapping mapping)
    : GridRankInfo(topology,
                   (mapping.check(topology.world_size(), world),
                    mapping.find(rank, topology.world_size()).value_or(-1)),
                   "tensor"),
      rank_mapping(std::move(mapping)) {
    if (rank < 0 || rank >= world)
        throw Error(Fault::out_of_range,
                    cat("rank ", rank, " of a world of ", world, "; ranks are 0..", world - 1));
    if (global_rank == -1) return;
    tp_dp_group = topology.mesh().group(global_rank, "data", "tensor");
    if (is_first_stage || is_last_stage) embedding_group = pp_group->pick({0, -1});
    if (is_first_stage) position_embedding_group = pp_group->pick({0});
}

std::array<int, 2> RankInfo::p2p_groups(int rank) const {
    const auto [from, to] = GridRankInfo::p2p_groups(rank);
    return {rank_mapping[from], rank_mapping[to]};
}

void RankInfo::make_groups(ProcessGroupRegistry& registry) const {
    const auto& mesh = topology().mesh();
    const auto make = [&](const Group& group) { registry.new_or_get_group(listed(mapped(group))); };
    const auto make_both = [&](const Group& group) {
        make(group);
        registry.new_or_get_group(listed(mapped(group)), "gloo");
    };
    for (const auto& group : mesh.partition("pipe", "tensor")) make_both(group);
    for (const auto& group : dp_groups) make_both(group);
    for (const auto& group : pipe_groups) {
        make_both(group);
        make(group.pick({0, -1}));
        make(group.pick({0}));
    }
    for (const auto& group : model_groups) make_both(group);
    for (const auto& group : mesh.partition("data", "tensor")) make(group);
}

namespace {

RankInfo checked_info(const Member& member, const ProcessTopology& topology, const RankMapping& mapping) {
    auto info = RankInfo(topology, member.rank(), std::numeric_limits<int>::max(), mapping);
    dialect::check_mesh(member, joined_mesh(topology, mapping), joined_with);
    const auto is_inside = info.global_rank != -1;
    if (member.inside() != is_inside || (is_inside && member.coord() != topology.get_coord(info.global_rank)))
        throw UsageError(cat("the member was joined with another rank mapping; join with ", joined_with));
    return info;
}

ParallelGrid::Handle handle(const Member& member, const RankInfo& info,
                            std::initializer_list<std::string_view> names) {
    if (info.global_rank == -1) return std::nullopt;
    return dialect::communicator(member, names, joined_with);
}

ParallelGrid::Handle on_host(const ParallelGrid::Handle& handle) {
    return handle ? ParallelGrid::Handle(handle->host()) : std::nullopt;
}

}  // namespace

ParallelGrid::ParallelGrid(const Member& member, const ProcessTopology& topology, const RankMapping& mapping)
    : RankInfo(checked_info(member, topology, mapping)),
      ds_model_proc_group(handle(member, *this, {"pipe", "tensor"})),
      ds_model_proc_group_gloo(on_host(ds_model_proc_group)),
      dp_proc_group(handle(member, *this, {"data"})),
      dp_proc_group_gloo(on_host(dp_proc_group)),
      pp_proc_group(handle(member, *this, {"pipe"})),
      pp_proc_group_gloo(on_host(pp_proc_group)),
      slice_proc_group(handle(member, *this, {"tensor"})),
      slice_proc_group_gloo(on_host(slice_proc_group)),
      tp_dp_proc_group(handle(member, *this, {"data", "tensor"})) {
    if (embedding_group) embedding_proc_group = handle(member, *this, {"embedding"});
    if (position_embedding_group)
        position_embedding_proc_group = handle(member, *this, {"position_embedding"});
}

FakeGrid::FakeGrid(int of_rank, const ProcessTopology& topo)
    : rank(of_rank),
      coord(topo.get_coord(of_rank)),
      data_parallel_size(topo.get_dim("data")),
      pipe_parallel_size(topo.get_dim("pipe")),
      model_parallel_size(topo.get_dim("tensor")),
      world_size(topo.world_size()),
      dp_id(coord["data"]),
      pp_id(coord["pipe"]),
      mp_id(coord["tensor"]) {}

namespace {
[[noreturn]] void throw_no_groups() { throw Error(Fault::not_member, "No groups in fake grid."); }
}  // namespace

void FakeGrid::get_pipe_parallel_group() const { throw_no_groups(); }
void FakeGrid::get_data_parallel_group() const { throw_no_groups(); }
void FakeGrid::get_tensor_model_parallel_group() const { throw_no_groups(); }

}  // namespace rankmesh::areal
