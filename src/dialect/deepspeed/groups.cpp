// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/groups.hpp>

#include <algorithm>

#include <rankmesh/core/ranks.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::deepspeed {

using detail::cat;
using dialect::Cut;
using dialect::Error;
using dialect::Fault;
using dialect::GroupList;
using dialect::GroupPart;
using dialect::Refusal;

namespace {

void ensure_divisibility(int numerator, std::int64_t denominator) {
    if (denominator == 0)
        throw Error(Fault::sizes,
                    cat(numerator, " was to be divided by a size of 0; every size is 1 or more"));
    if (numerator % denominator != 0)
        throw Error(Fault::sizes, cat(numerator, " is not divisible by ", denominator));
}

void refuse_below_one(std::initializer_list<int> sizes) {
    for (auto size : sizes)
        if (size < 1)
            throw Refusal(Fault::sizes, "sizes-below-one",
                          cat("a size of ", size, " was given; every size is 1 or more"));
}

Refusal ranks_left_out(const std::string& text) { return {Fault::sizes, "ranks-left-out", text}; }

}  // namespace

// --- expert groups

std::string ExpertGroups::group_name() const { return cat("ep_size_", expert_.size); }

/// The ranks of each block in its order.
Partition ExpertGroups::blocks() const {
    auto across = Layout{};
    auto along = Layout{};
    across.push_back({world_size_ / stage_, stage_});
    (lanes_apart_ ? across : along).push_back({lanes_, 1});
    along.push_back({stage_ / lanes_, lanes_});
    return {0, across, along};
}

GroupPart ExpertGroups::part(int rank, Cut cut) const {
    dialect::check_rank(rank, world_size_);
    const auto stage = rank / stage_;
    const auto block = blocks()[lanes_apart_ ? stage * lanes_ + rank % lanes_ : stage];
    return part_of(block, cut, *block.group_rank(rank));
}

int ExpertGroups::sorted_position(int rank, const GroupPart& group) const {
    if (rises()) return *group.group_rank(rank);
    return static_cast<int>(
        std::count_if(group.begin(), group.end(), [&](int other) { return other < rank; }));
}

int ExpertGroups::expert_data_parallel_first(int rank) const {
    const auto group = expert_data_parallel_of(rank);
    return rises() ? group.front() : *std::min_element(group.begin(), group.end());
}

std::vector<GroupList> ExpertGroups::new_groups() const {
    if (lanes_apart_) return {expert_parallel(), expert_data_parallel()};
    if (!by_stage_) return {expert_data_parallel(), expert_parallel()};
    auto groups = std::vector<GroupList>{};
    for (const auto& block : blocks()) {
        const auto stage = Partition(block.front(), {}, blocks().along());
        for (const auto& cut : {expert_, data_}) groups.emplace_back(stage, cut);
    }
    return groups;
}

Plan ExpertGroups::plan() const {
    if (const auto lane = stage_ / lanes_; lane % expert_.size == 0) {
        auto outer = Axis{"expert_data", lane / expert_.size};
        auto inner = Axis{"expert", expert_.size};
        if (data_.step == 1) std::swap(outer, inner);
        auto made = Declaration{.name = group_name(),
                                .mesh = {{"pipe", world_size_ / stage_}, outer, inner, {"lane", lanes_}}};
        if (!rises()) made.over = {{"expert_data", "lane"}};
        return {made};
    }
    // Expert groups that run from one lane into the next follow no strides.
    const auto placed = [this](const GroupList& groups, int size) {
        auto ranks = std::vector<int>(static_cast<std::size_t>(world_size_));
        groups.copy_to(ranks);
        for (auto next = ranks.begin(); next != ranks.end(); next += size) std::sort(next, next + size);
        return ranks;
    };
    const auto experts = expert_parallel();
    const auto replicas = expert_data_parallel();
    return {{.name = group_name(),
             .mesh = {{"group", experts.size()}, {"expert", expert_.size}},
             .placed = placed(experts, expert_.size)},
            {.name = group_name() + "_data",
             .mesh = {{"group", replicas.size()}, {"expert_data", data_.size}},
             .placed = placed(replicas, data_.size)}};
}

ExpertGroups _get_expert_parallel_ranks(int world_size, int tensor_parallel_size_, int expert_parallel_size_,
                                        int pipeline_parallel_size_, bool use_data_before_expert_parallel_) {
    const auto model = std::int64_t{tensor_parallel_size_} * pipeline_parallel_size_;
    ensure_divisibility(world_size, model);
    const auto data = static_cast<int>(world_size / model);
    ensure_divisibility(data, expert_parallel_size_);
    refuse_below_one({world_size, tensor_parallel_size_, expert_parallel_size_, pipeline_parallel_size_});
    auto groups = ExpertGroups(world_size, world_size / pipeline_parallel_size_, expert_parallel_size_,
                               data / expert_parallel_size_, use_data_before_expert_parallel_);
    groups.lanes_ = tensor_parallel_size_;
    groups.lanes_apart_ = true;
    return groups;
}

ExpertGroups _create_expert_and_data_parallel(int world_size, int expert_parallel_size_,
                                              std::optional<int> mp_size, std::optional<int> pp_size,
                                              std::string_view mp_mode,
                                              bool use_data_before_expert_parallel_) {
    const auto stages = pp_size.value_or(1);
    const auto lanes = mp_size.value_or(1);
    if (stages == 0) ensure_divisibility(world_size, 0);
    const auto stage = world_size / stages;
    ensure_divisibility(stage, expert_parallel_size_);
    if (lanes > 1 && use_data_before_expert_parallel_)
        throw Error(Fault::exclusive, "use_data_before_expert_parallel_ is not supported with mp_size > 1");
    refuse_below_one({world_size, lanes, expert_parallel_size_, stages});
    if (world_size % stages != 0)
        throw ranks_left_out(cat(stages, " pipeline stages of a world of ", world_size,
                                 " leave ranks out; the size must divide the world's"));
    const auto strided = lanes > 1 && mp_mode == "tp";
    if (strided && stage % lanes != 0)
        throw ranks_left_out(cat(lanes, " tensor lanes of a stage of ", stage,
                                 " leave ranks out; mp_size must divide the stage's"));
    auto groups = ExpertGroups(world_size, stage, expert_parallel_size_, stage / expert_parallel_size_,
                               use_data_before_expert_parallel_);
    groups.lanes_ = strided ? lanes : 1;
    groups.by_stage_ = lanes > 1;
    return groups;
}

// --- groups along one axis

namespace {

Mesh outer_and_inner(std::string_view outer, std::string_view inner, int world, int size) {
    ensure_divisibility(world, size);
    refuse_below_one({world, size});
    return {{outer, world / size}, {inner, size}};
}

}  // namespace

Mesh _init_tp_mesh_device(int world_size, int tensor_model_parallel_size,
                          std::optional<int> data_parallel_size) {
    const auto tensor = tensor_model_parallel_size;
    if (tensor > 1 && tensor <= world_size && world_size % tensor != 0)
        throw ranks_left_out(cat("a tensor_model_parallel_size of ", tensor, " leaves ranks of a world of ",
                                 world_size, " out; the size must divide the world's"));
    auto mesh = outer_and_inner("data_parallel", "tensor_parallel", world_size, tensor);
    if (data_parallel_size && *data_parallel_size != mesh.size("data_parallel"))
        throw ranks_left_out(cat("data_parallel_size ", *data_parallel_size,
                                 " times tensor_model_parallel_size ", tensor, " is not the world's ",
                                 world_size));
    return mesh;
}

Mesh _create_model_parallel(int world_size, int model_parallel_size_) {
    return outer_and_inner("data_parallel", "tensor_parallel", world_size,
                           std::min(model_parallel_size_, world_size));
}

Mesh sequence_parallel_mesh(int world_size, int sequence_parallel_size) {
    return outer_and_inner("data_parallel", "sequence_parallel", world_size, sequence_parallel_size);
}

Mesh initialize_sequence_parallel(int world_size, int sequence_parallel_size) {
    const auto size = sequence_parallel_size;
    if (world_size < size)
        throw Error(Fault::sizes,
                    cat("world_size (", world_size, ") is less than sequence_parallel_size ", size));
    if (size <= 1)
        throw Error(Fault::argument, cat("sequence_parallel_size must be greater than 1, got ", size));
    if (world_size % size != 0)
        throw Error(Fault::sizes, cat("world_size (", world_size,
                                      ") is not divisible by sequence_parallel_size ", size, ")"));
    return sequence_parallel_mesh(world_size, size);
}

Mesh _create_zero_param_parallel_group(int world_size, int group_size) {
    return outer_and_inner("zero_param_inter", "zero_param_intra", world_size,
                           std::min(group_size, world_size));
}

Mesh _get_local_all_to_all_group(int world_size, int device_per_node) {
    if (device_per_node == 0) ensure_divisibility(world_size, 0);
    refuse_below_one({world_size, device_per_node});
    const auto nodes = world_size / device_per_node;
    if (nodes == 1 && world_size != device_per_node)
        throw Error(Fault::sizes, "num_gpus not equal to device per node, cannot initialize All-To-All");
    if (nodes > 1 && world_size % device_per_node != 0)
        throw ranks_left_out(cat("nodes of ", device_per_node, " devices leave ranks ",
                                 nodes * device_per_node, "..", world_size - 1,
                                 " out; the size must divide the world's ", world_size));
    return {{"global", std::max(nodes, 1)}, {"local", nodes == 0 ? world_size : device_per_node}};
}

std::vector<std::string> all_to_all_names(const Mesh& all_to_all) {
    auto names = std::vector<std::string>{};
    const auto nodes = all_to_all.size("global");
    for (int i = 0; i < nodes; ++i) names.push_back(cat("local_", i));
    for (int i = 0; nodes > 1 && i < all_to_all.size("local"); ++i) names.push_back(cat("global_", i));
    return names;
}

// --- all of groups.py

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
    if (world_size) refuse_below_one({*world_size});
    tensor_size_ = world_size;
}

const ExpertGroups& GroupsRankInfo::expert(Name name, const char* kind) const {
    for (const auto& expert : experts_)
        if (expert.group_name() == name) return expert;
    throw Error(Fault::not_initialised, cat(kind, " parallel group is not initialized"));
}

int GroupsRankInfo::_get_expert_parallel_src_rank(Name name) const {
    const auto group = _get_expert_parallel_group_ranks(name);
    const auto source = rank_ - rank_ % group.size();
    if (!group.contains(source))
        throw Refusal(Fault::not_member, "source-outside",
                      cat("the source of rank ", rank_, " would be ", source,
                          ", which is not in its expert group; broadcast from the group's first rank, ",
                          group.front()));
    return source;
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
