// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/groups.hpp>

#include <algorithm>

#include <rankmesh/core/ranks.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::deepspeed {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

namespace {

constexpr auto joined_with = "deepspeed::plan(sizes)";

using Names = std::vector<std::string_view>;

/// The communicator of a mesh of the plan, which must be this one.
Communicator group(const Member& member, const std::string& name, const Mesh& mesh, const Names& axes) {
    const auto joined = member[name];
    dialect::check_mesh(joined, mesh, joined_with);
    return dialect::communicator(joined, axes, joined_with);
}

/// A mesh of placed ranks says nothing about which rank stands where, so the group itself is compared.
void check_ranks(const Communicator& on, const dialect::GroupPart& group) {
    auto ranks = std::vector<int>(group.begin(), group.end());
    std::ranges::sort(ranks);
    if (on.world_ranks() != ranks)
        throw UsageError(cat(on.label(), " is over ", ranks_to_string(on.world_ranks()), ", not ",
                             ranks_to_string(ranks), "; join with ", joined_with));
}

}  // namespace

Plan plan(const GroupSizes& sizes) {
    const auto world = sizes.world_size;
    auto made = Plan{
        {.name = "tensor", .mesh = _init_tp_mesh_device(world, sizes.tensor_parallel_size)},
        {.name = "sequence",
         .mesh = sequence_parallel_mesh(world, sizes.sequence_parallel_size),
         .over = {{"data_parallel", "sequence_parallel"}}},
        {.name = "zero", .mesh = _create_zero_param_parallel_group(world, sizes.zero_hpz_partition_size)},
        {.name = "all_to_all", .mesh = _get_local_all_to_all_group(world, sizes.device_per_node)}};
    for (const auto& expert : sizes.expert)
        for (auto& declaration : expert.plan()) made.push_back(std::move(declaration));
    return made;
}

GroupsRankInfo::GroupsRankInfo(const GroupSizes& sizes, int rank)
    : rank_(rank),
      experts_(sizes.expert),
      tensor_(_init_tp_mesh_device(sizes.world_size, sizes.tensor_parallel_size)),
      sequence_(sequence_parallel_mesh(sizes.world_size, sizes.sequence_parallel_size)),
      zero_(_create_zero_param_parallel_group(sizes.world_size, sizes.zero_hpz_partition_size)),
      all_to_all_(_get_local_all_to_all_group(sizes.world_size, sizes.device_per_node)) {
    dialect::check_rank(rank, sizes.world_size);
    for (const auto& expert : experts_) {
        if (expert.world_size() != sizes.world_size)
            throw Error(Fault::sizes, cat("expert groups of a world of ", expert.world_size(),
                                          " were given for a world of ", sizes.world_size));
        const auto name = expert.group_name();
        if (std::ranges::count(experts_, name, &ExpertGroups::group_name) > 1)
            throw Error(Fault::exists, cat(name, " is there twice; every expert size is made once"));
    }
}

void GroupsRankInfo::set_tensor_model_parallel_world_size(std::optional<int> world_size) {
    if (world_size && *world_size < 1)
        throw Refusal(Fault::sizes, "sizes-below-one",
                      cat("a size of ", *world_size, " was given; every size is 1 or more"));
    tensor_size_ = world_size;
}

const ExpertGroups& GroupsRankInfo::expert(Name name, const char* kind) const {
    for (const auto& expert : experts_)
        if (expert.group_name() == name) return expert;
    throw Error(Fault::not_initialised, cat(kind, " parallel group is not initialized"));
}

std::optional<int> GroupsRankInfo::_get_max_expert_size() const {
    auto most = std::optional<int>{};
    for (const auto& expert : experts_) most = std::max(most, std::optional(expert.expert_parallel_size()));
    return most;
}

std::string GroupsRankInfo::_get_max_expert_size_name() const {
    const auto most = _get_max_expert_size();
    return most ? cat("ep_size_", *most) : "ep_size_None";
}

int GroupsRankInfo::_get_expert_model_parallel_world_size() const {
    for (auto expert = experts_.rbegin(); expert != experts_.rend(); ++expert)
        if (const auto lanes = expert->expert_tensor_parallel_size()) return *lanes;
    return 1;
}

// --- live

Groups::Groups(const Member& member, const GroupSizes& sizes)
    : GroupsRankInfo(sizes, member.rank()),
      tensor_group_(group(member, "tensor", tensor_, {"tensor_parallel"})),
      data_group_(group(member, "tensor", tensor_, {"data_parallel"})),
      world_group_(group(member, "sequence", sequence_, {"data_parallel", "sequence_parallel"})),
      sequence_data_group_(group(member, "sequence", sequence_, {"data_parallel"})),
      sequence_group_(group(member, "sequence", sequence_, {"sequence_parallel"})),
      zero_group_(group(member, "zero", zero_, {"zero_param_intra"})) {
    for (const auto& expert : experts_) {
        const auto name = expert.group_name();
        const auto declared = expert.plan();
        const auto& data = declared.back();
        expert_.emplace(name, group(member, name, declared.front().mesh.resolve(), {"expert"}));
        const auto axes = data.over.empty() ? Names{"expert_data"} : Names{"expert_data", "lane"};
        data_.emplace(name, group(member, data.name, data.mesh.resolve(), axes));
        if (declared.size() == 1) continue;
        check_ranks(expert_.find(name)->second, expert.expert_parallel_of(rank_));
        check_ranks(data_.find(name)->second, expert.expert_data_parallel_of(rank_));
    }
    const auto coord = all_to_all_.coord(rank_);
    all_to_all_group_.emplace(cat("local_", coord["global"]),
                              group(member, "all_to_all", all_to_all_, {"local"}));
    if (all_to_all_.size("global") > 1)
        all_to_all_group_.emplace(cat("global_", coord["local"]),
                                  group(member, "all_to_all", all_to_all_, {"global"}));
}

}  // namespace rankmesh::deepspeed
