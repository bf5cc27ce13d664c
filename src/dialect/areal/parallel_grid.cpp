// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/parallel_grid.hpp>

#include <algorithm>
#include <limits>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::areal {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "areal::plan(topology, rank_mapping)";

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
    if (!rank_mapping.step()) placed = rank_mapping.of(topology.mesh().ranks());
    return {{.name = std::move(name),
             .mesh = joined_mesh(topology, rank_mapping),
             .over = {{"pipe", "tensor"}, {"data", "tensor"}},
             .picks = {{.of = "pipe", .at = {0, -1}, .as = "embedding"},
                       {.of = "pipe", .at = {0}, .as = "position_embedding"}},
             .placed = std::move(placed),
             .partial = true}};
}

int ProcessGroupRegistry::new_or_get_group(std::vector<int> ranks,
                                           const std::optional<std::string>& backend) {
    std::ranges::sort(ranks);
    const auto [found, is_new] = ids_.try_emplace({ranks, backend.value_or(backend_)}, next_id_);
    if (is_new) made_.push_back({std::move(ranks), found->first.second}), ++next_id_;
    return found->second;
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
    const auto make = [&](const Group& group) { registry.new_or_get_group(mapped(group)); };
    const auto make_both = [&](const Group& group) {
        make(group);
        registry.new_or_get_group(mapped(group), "gloo");
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

}  // namespace

ParallelGrid::ParallelGrid(const Member& member, const ProcessTopology& topology, const RankMapping& mapping)
    : RankInfo(checked_info(member, topology, mapping)) {
    if (global_rank == -1) return;
    const auto on = [&](auto... axes) { return dialect::communicator(member, {axes...}, joined_with); };
    ds_model_proc_group = on("pipe", "tensor");
    dp_proc_group = on("data");
    pp_proc_group = on("pipe");
    slice_proc_group = on("tensor");
    tp_dp_proc_group = on("data", "tensor");
    if (embedding_group) embedding_proc_group = on("embedding");
    if (position_embedding_group) position_embedding_proc_group = on("position_embedding");
    ds_model_proc_group_gloo = ds_model_proc_group->host();
    dp_proc_group_gloo = dp_proc_group->host();
    pp_proc_group_gloo = pp_proc_group->host();
    slice_proc_group_gloo = slice_proc_group->host();
}

void FakeGrid::get_pipe_parallel_group() const { throw Error(Fault::not_member, "No groups in fake grid."); }

}  // namespace rankmesh::areal
