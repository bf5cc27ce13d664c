// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/expert_groups.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

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

/// Python's `//`, for the texts of sizes below 0.
int floor_divided(int numerator, int denominator) {
    const auto part = numerator / denominator;
    return part - (numerator % denominator != 0 && (numerator < 0) != (denominator < 0) ? 1 : 0);
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

std::string ExpertGroups::group_name() const { return cat("ep_size_", expert_); }

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
    if (making_ == Making::data_first) return {expert_data_parallel(), expert_parallel()};
    if (making_ == Making::expert_first) return {expert_parallel(), expert_data_parallel()};
    auto groups = std::vector<GroupList>{};
    for (const auto& block : blocks()) {
        const auto stage = Partition(block.front(), {}, blocks().along());
        for (const auto& cut : {expert_cut(), data_cut()}) groups.emplace_back(stage, cut);
    }
    return groups;
}

Plan ExpertGroups::plan() const {
    const auto stages = world_size_ / stage_;
    if (rises()) {
        const auto outer = data_inner_ ? Axis{"expert", expert_} : Axis{"expert_data", data_};
        const auto inner = data_inner_ ? Axis{"expert_data", data_} : Axis{"expert", expert_};
        return {{.name = group_name(), .mesh = {{"pipe", stages}, outer, inner, {"lane", lanes_}}}};
    }
    if (const auto lane = stage_ / lanes_; lane % expert_ == 0)
        return {{.name = group_name(),
                 .mesh = {{"pipe", stages},
                          {"expert_data", lane / expert_},
                          {"expert", expert_},
                          {"lane", lanes_}},
                 .over = {{"expert_data", "lane"}}}};
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
             .mesh = {{"group", experts.size()}, {"expert", expert_}},
             .placed = placed(experts, expert_)},
            {.name = group_name() + "_data",
             .mesh = {{"group", replicas.size()}, {"expert_data", data_}},
             .placed = placed(replicas, data_)}};
}

ExpertGroups _get_expert_parallel_ranks(int world_size, int tensor_parallel_size_, int expert_parallel_size_,
                                        int pipeline_parallel_size_, bool use_data_before_expert_parallel_) {
    const auto model = std::int64_t{tensor_parallel_size_} * pipeline_parallel_size_;
    ensure_divisibility(world_size, model);
    const auto data = static_cast<int>(world_size / model);
    ensure_divisibility(data, expert_parallel_size_);
    refuse_below_one({world_size, tensor_parallel_size_, expert_parallel_size_, pipeline_parallel_size_});
    auto groups = ExpertGroups();
    groups.world_size_ = world_size;
    groups.stage_ = world_size / pipeline_parallel_size_;
    groups.lanes_ = tensor_parallel_size_;
    groups.lanes_apart_ = true;
    groups.expert_ = expert_parallel_size_;
    groups.data_ = data / expert_parallel_size_;
    groups.data_inner_ = use_data_before_expert_parallel_;
    return groups;
}

ExpertGroups _create_expert_and_data_parallel(int world_size, int expert_parallel_size_,
                                              std::optional<int> mp_size, std::optional<int> pp_size,
                                              std::string_view mp_mode,
                                              bool use_data_before_expert_parallel_) {
    const auto stages = pp_size.value_or(1);
    const auto lanes = mp_size.value_or(1);
    if (stages == 0) ensure_divisibility(world_size, 0);
    const auto stage = floor_divided(world_size, stages);
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
    auto groups = ExpertGroups();
    groups.world_size_ = world_size;
    groups.stage_ = stage;
    groups.lanes_ = strided ? lanes : 1;
    groups.expert_ = expert_parallel_size_;
    groups.data_ = stage / expert_parallel_size_;
    groups.data_inner_ = use_data_before_expert_parallel_;
    groups.making_ = lanes > 1 ? ExpertGroups::Making::by_stage : ExpertGroups::Making::data_first;
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

}  // namespace rankmesh::deepspeed
