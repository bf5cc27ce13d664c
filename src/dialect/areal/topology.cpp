// SPDX-License-Identifier: Apache-2.0
// AReaL's base/topology.py.
#include <algorithm>
#include <limits>
#include <ranges>

#include <rankmesh/dialect/areal/parallel_grid.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

#include "dialect/names.hpp"

namespace rankmesh::areal {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::list_of;
using dialect::Refusal;

namespace {

/// What AReaL calls a coordinate of these axes; throws for axes that it does not know.
std::string_view coord_of(const std::vector<std::string>& axes) {
    if (axes == std::vector<std::string>{"pipe", "data", "tensor"}) return "PipeDataTensorProcessCoord";
    if (axes == std::vector<std::string>{"data", "pipe", "tensor"}) return "DataPipeTensorProcessCoord";
    throw Error(Fault::unknown, cat("Corresponding coordinate namedtuple not implemented for axes ",
                                    list_of(axes), ". Check base/topology.py and implement explicitly."));
}

}  // namespace

ProcessTopology::ProcessTopology(const std::vector<std::string>& axes, const std::vector<int>& dims)
    : dialect::ProcessTopology(axes, dims, {.coord = coord_of(axes), .world_digits = true}) {}

std::string ProcessTopology::repr() const {
    return cat("ProcessTopology(axes=", list_of(axes()), ", dims=", list_of(dims()), ")");
}

std::vector<std::array<int, 3>> decompose_to_three_factors(int n) {
    if (n < 0) throw Error(Fault::argument, cat("decompose ", n, " to three factors; give 0 or more"));
    auto factors = std::vector<std::array<int, 3>>{};
    for (int i = 1; i <= n / i; ++i)
        for (int j = i; n % i == 0 && j <= n / i / j; ++j) {
            if (n / i % j != 0) continue;
            auto triple = std::array{i, j, n / i / j};  // rising: the first of its permutations
            do factors.push_back(triple);
            while (std::ranges::next_permutation(triple).found);
        }
    return factors;
}

// --- which ranks of the world

void RankMapping::check(int size, int world_size) const {
    const auto on = [&](int rank) { return table_ ? (*this)[rank] : offset_ + std::int64_t{rank} * step_; };
    // Where ranks rise by a step, the first and the last are checked for all, and one step.
    const auto last = size - 1;
    for (int rank = 0; rank < size; rank += table_ || rank == last ? 1 : last)
        if (on(rank) < 0 || on(rank) >= world_size)
            throw Error(Fault::out_of_range,
                        cat("The new group's rank should be within the world_size set by init_process_group; "
                            "rank ",
                            on(rank), " is not in a world of ", world_size));
    for (int rank = 0; rank < (table_ ? last : std::min(last, 1)); ++rank)
        if (on(rank) >= on(rank + 1))
            throw Refusal(
                Fault::argument, "mapping-not-rising",
                cat("the rank mapping puts topology ranks ", rank, " and ", rank + 1, " on ranks ", on(rank),
                    " and ", on(rank + 1), "; groups are sorted, so each rank must be above the one before"));
}

int RankMapping::operator[](int topology_rank) const {
    if (!table_) return offset_ + topology_rank * step_;
    const auto found = table_->find(topology_rank);
    if (found == table_->end())
        throw Error(Fault::missing, cat("the rank mapping has no rank ", topology_rank));
    return found->second;
}

std::optional<int> RankMapping::find(int world_rank, int size) const {
    const auto ranks = std::views::iota(0, size);
    const auto found =
        std::ranges::lower_bound(ranks, world_rank, {}, [&](int rank) { return (*this)[rank]; });
    return found != ranks.end() && (*this)[*found] == world_rank ? std::optional(*found) : std::nullopt;
}

std::vector<int> RankMapping::of(const Group& topology_ranks) const {
    auto ranks = std::vector<int>(topology_ranks.begin(), topology_ranks.end());
    for (auto& rank : ranks) rank = (*this)[rank];
    return ranks;
}

// --- the grid

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
    return {{.name = std::move(name),
             .mesh = joined_mesh(topology, rank_mapping),
             .over = {{"pipe", "tensor"}, {"data", "tensor"}},
             .picks = {{.of = "pipe", .at = {0, -1}, .as = "embedding"},
                       {.of = "pipe", .at = {0}, .as = "position_embedding"}},
             .placed = rank_mapping.step() ? std::vector<int>{} : rank_mapping.of(topology.mesh().ranks()),
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
                   (mapping.check(topology.world_size(), world), dialect::check_rank(rank, world),
                    mapping.find(rank, topology.world_size()).value_or(-1)),
                   "tensor"),
      rank_mapping(std::move(mapping)) {
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
