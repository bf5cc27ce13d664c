// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::megatron2022 {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

namespace {

constexpr auto joined_with = "megatron2022::plan(sizes)";

/// What the original checks of the sizes alone.
void check_interleaving(const Sizes& sizes) {
    if (sizes.virtual_pipeline_model_parallel_size && sizes.pipeline_model_parallel_size <= 2)
        throw Error(Fault::sizes,
                    cat("pipeline-model-parallel size should be greater than 2 with interleaved schedule, "
                        "not ",
                        sizes.pipeline_model_parallel_size));
}

/// What the original checks before it looks whether it was called before.
void check_fit(const Sizes& sizes, int world_size) {
    const auto tensor = sizes.tensor_model_parallel_size;
    const auto pipeline = sizes.pipeline_model_parallel_size;
    const auto product = std::int64_t{tensor} * pipeline;
    if (product == 0 || world_size % product != 0)
        throw Error(Fault::sizes,
                    cat("world_size (", world_size, ") is not divisible by tensor_model_parallel_size (",
                        tensor, ") x pipeline_model_parallel_size (", pipeline, ")"));
    check_interleaving(sizes);
}

void check_positive(std::string_view name, std::optional<int> size) {
    if (size && *size < 1)
        throw Refusal(Fault::sizes, "sizes-below-one", cat(name, " is ", *size, "; every size is 1 or more"));
}

/// What the original takes as it is, or finds when half of the groups are made.
void check_sense(const Sizes& sizes) {
    check_positive("tensor_model_parallel_size", sizes.tensor_model_parallel_size);
    check_positive("pipeline_model_parallel_size", sizes.pipeline_model_parallel_size);
    check_positive("virtual_pipeline_model_parallel_size", sizes.virtual_pipeline_model_parallel_size);
    const auto stages = sizes.pipeline_model_parallel_size;
    const auto split = sizes.pipeline_model_parallel_split_rank;
    if (split && stages > 1 && (*split < -stages || *split >= stages))
        throw Error(Fault::out_of_range, cat("pipeline_model_parallel_split_rank ", *split, " of ", stages,
                                             " stages is out of range; it is ", -stages, "..", stages - 1));
}

/// The stage of the split, as an index of the pipeline; the first where nothing is split.
int split_index(const Sizes& sizes) {
    return sizes.pipeline_model_parallel_size > 1 ? sizes.pipeline_model_parallel_split_rank.value_or(0) : 0;
}

/// The rank on a stage of a pipeline, whose size may have been set to more than it has.
int rank_on(const Group& pipeline, int stage) {
    if (stage >= pipeline.size())
        throw Error(Fault::out_of_range,
                    cat("stage ", stage, " is out of range of pipeline ", to_string(pipeline),
                        "; its size was set to more than ", pipeline.size()));
    return pipeline[stage];
}

std::string not_initialized(std::string_view what) { return cat(what, " is not initialized"); }

}  // namespace

Plan plan(const Sizes& sizes) {
    check_interleaving(sizes);
    check_sense(sizes);
    const auto split = split_index(sizes);
    return {{.mesh = {{"pp", sizes.pipeline_model_parallel_size},
                      {"dp", rest},
                      {"tp", sizes.tensor_model_parallel_size}},
             .over = {{"pp", "tp"}},
             .picks = {{.of = "pp", .at = {0, split, -1}, .as = "embedding"},
                       {.of = "pp", .at = {0, split}, .as = "position_embedding"}}}};
}

Groups::Groups(const Sizes& given, int world_size)
    : mesh((check_fit(given, world_size), check_sense(given),
            Mesh{{"pp", given.pipeline_model_parallel_size},
                 {"dp", world_size / given.pipeline_model_parallel_size / given.tensor_model_parallel_size},
                 {"tp", given.tensor_model_parallel_size}})),
      sizes(given) {}

Group Groups::embedding(const Group& pipeline) const { return pipeline.pick({0, split_index(sizes), -1}); }
Group Groups::position_embedding(const Group& pipeline) const {
    return pipeline.pick({0, split_index(sizes)});
}

void State::enter(int global_rank, int world_size) {
    if (global_rank < 0 || global_rank >= world_size)
        throw Error(Fault::out_of_range, cat("rank ", global_rank, " of a world of ", world_size,
                                             "; ranks are 0..", world_size - 1));
    if (groups_) throw Error(Fault::exists, "data parallel group is already initialized");
    rank_ = global_rank;
    world_size_ = world_size;
}

void State::initialize_model_parallel(const Sizes& sizes) {
    if (world_size_ == 0)
        throw Error(Fault::not_initialised, "this process is in no world; make a State(rank, world_size)");
    check_fit(sizes, world_size_);
    if (groups_) throw Error(Fault::exists, "data parallel group is already initialized");
    groups_ = Groups(sizes, world_size_);
    destroyed_ = false;
    if (sizes.virtual_pipeline_model_parallel_size) {
        virtual_rank_ = 0;
        virtual_size_ = sizes.virtual_pipeline_model_parallel_size;
    }
    if (sizes.pipeline_model_parallel_split_rank) split_ = sizes.pipeline_model_parallel_split_rank;
}

void State::destroy_model_parallel() {
    destroyed_ = destroyed_ || groups_;
    groups_.reset();
    for (auto* value : {&virtual_rank_, &virtual_size_, &set_tensor_size_, &set_pipeline_size_,
                        &set_tensor_rank_, &set_pipeline_rank_})
        value->reset();
}

const Groups& State::groups(std::string_view what) const {
    if (!groups_) throw Error(Fault::not_initialised, not_initialized(what));
    return *groups_;
}

/// The groups for what the original keeps in a list, which destroy_model_parallel leaves as it is.
const Groups& State::listed(std::string_view what) const {
    if (destroyed_)
        throw Refusal(Fault::not_initialised, "stale",
                      cat(not_initialized(what), "; its ranks from before destroy_model_parallel are stale"));
    return groups(what);
}

/// The group, of which this rank is a member.
Group State::members(const Group& group, std::string_view what) const {
    if (!group.contains(rank_))
        throw Error(Fault::not_member, cat(not_initialized(what), " on rank ", rank_,
                                           "; its members here are ", to_string(group)));
    return group;
}

Group State::get_model_parallel_group() const {
    return groups("model parallel group").mesh.group(rank_, "pp", "tp");
}
Group State::get_tensor_model_parallel_group() const {
    return groups("intra_layer_model parallel group").mesh.group(rank_, "tp");
}
Group State::get_pipeline_model_parallel_group() const {
    return groups("pipeline_model parallel group").mesh.group(rank_, "pp");
}
Group State::get_data_parallel_group() const { return groups("data parallel group").mesh.group(rank_, "dp"); }
Group State::get_embedding_group() const {
    constexpr auto what = "embedding group";
    const auto& made = groups(what);
    return members(made.embedding(made.mesh.group(rank_, "pp")), what);
}
Group State::get_position_embedding_group() const {
    constexpr auto what = "position embedding group";
    const auto& made = groups(what);
    return members(made.position_embedding(made.mesh.group(rank_, "pp")), what);
}

Group State::pipeline_global_ranks() const {
    return listed("Pipeline parallel group").mesh.group(rank_, "pp");
}
Group State::data_parallel_global_ranks() const {
    return listed("Data parallel group").mesh.group(rank_, "dp");
}
Group State::embedding_global_ranks() const {
    const auto& made = listed("embedding group");
    return made.embedding(made.mesh.group(rank_, "pp"));
}
Group State::position_embedding_global_ranks() const {
    const auto& made = listed("position embedding group");
    return made.position_embedding(made.mesh.group(rank_, "pp"));
}

void State::set_tensor_model_parallel_world_size(std::optional<int> world_size) {
    check_positive("the tensor model parallel world size", world_size);
    set_tensor_size_ = world_size;
}
void State::set_pipeline_model_parallel_world_size(std::optional<int> world_size) {
    check_positive("the pipeline model parallel world size", world_size);
    set_pipeline_size_ = world_size;
}

int State::get_tensor_model_parallel_world_size() const {
    return set_tensor_size_ ? *set_tensor_size_ : get_tensor_model_parallel_group().size();
}
int State::get_pipeline_model_parallel_world_size() const {
    return set_pipeline_size_ ? *set_pipeline_size_ : get_pipeline_model_parallel_group().size();
}
int State::get_tensor_model_parallel_rank() const {
    return set_tensor_rank_ ? *set_tensor_rank_ : *get_tensor_model_parallel_group().group_rank(rank_);
}
int State::get_pipeline_model_parallel_rank() const {
    return set_pipeline_rank_ ? *set_pipeline_rank_ : *get_pipeline_model_parallel_group().group_rank(rank_);
}

int State::get_tensor_model_parallel_src_rank() const {
    const auto size = get_tensor_model_parallel_world_size();
    return rank_ / size * size;
}

int State::get_pipeline_model_parallel_last_rank() const {
    const auto pipeline = pipeline_global_ranks();
    return rank_on(pipeline, get_pipeline_model_parallel_world_size() - 1);
}
int State::stage_after(int by) const {
    const auto pipeline = pipeline_global_ranks();
    const auto stage = std::int64_t{get_pipeline_model_parallel_rank()} + by;
    const auto size = get_pipeline_model_parallel_world_size();
    return rank_on(pipeline, static_cast<int>((stage % size + size) % size));
}

bool State::is_pipeline_first_stage(bool ignore_virtual) const {
    if (!ignore_virtual && virtual_size_ && virtual_rank_ != 0) return false;
    return get_pipeline_model_parallel_rank() == 0;
}
bool State::is_pipeline_last_stage(bool ignore_virtual) const {
    if (!ignore_virtual && virtual_size_ && virtual_rank_ != *virtual_size_ - 1) return false;
    return get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1;
}
bool State::is_rank_in_embedding_group(bool ignore_virtual) const {
    const auto ranks = embedding_global_ranks();
    if (ignore_virtual || !ranks.contains(rank_)) return ranks.contains(rank_);
    if (rank_ == ranks.front()) return is_pipeline_first_stage();
    if (rank_ == ranks.back()) return is_pipeline_last_stage();
    return true;
}
bool State::is_rank_in_position_embedding_group() const {
    return position_embedding_global_ranks().contains(rank_);
}

std::optional<int> State::pipeline_model_parallel_split_rank() const {
    const auto given = groups_ && groups_->sizes.pipeline_model_parallel_split_rank;
    if (split_ && !given)
        throw Refusal(Fault::missing, "stale",
                      cat("pipeline_model_parallel_split_rank was not given; ", *split_,
                          " is left over from before destroy_model_parallel; give it, or begin with a new "
                          "State for none"));
    return split_;
}
bool State::before_split(std::int64_t stage) const {
    if (get_pipeline_model_parallel_world_size() == 1) return true;
    const auto split = pipeline_model_parallel_split_rank();
    return !split || stage < *split;
}
bool State::after_split(std::int64_t stage) const {
    if (get_pipeline_model_parallel_world_size() == 1) return true;
    const auto split = pipeline_model_parallel_split_rank();
    return !split || stage >= *split;
}
bool State::is_pipeline_stage_before_split(std::optional<int> rank) const {
    return before_split(rank ? *rank : get_pipeline_model_parallel_rank());
}
bool State::is_pipeline_stage_after_split(std::optional<int> rank) const {
    return after_split(rank ? *rank : get_pipeline_model_parallel_rank());
}
bool State::is_pipeline_stage_at_split() const {
    const auto stage = std::int64_t{get_pipeline_model_parallel_rank()};
    return before_split(stage) && after_split(stage + 1);
}

ParallelState::ParallelState(const Member& member, const Sizes& sizes)
    : State(member.rank(), member.mesh().size()) {
    State::initialize_model_parallel(sizes);
    dialect::check_mesh(member, groups("model parallel group").mesh, joined_with);
    live_ = Live{.model = dialect::communicator(member, {"pp", "tp"}, joined_with),
                 .tensor = dialect::communicator(member, {"tp"}, joined_with),
                 .pipeline = dialect::communicator(member, {"pp"}, joined_with),
                 .data = dialect::communicator(member, {"dp"}, joined_with),
                 .embedding = dialect::pick(member, "embedding", embedding_global_ranks(), joined_with),
                 .position_embedding = dialect::pick(member, "position_embedding",
                                                     position_embedding_global_ranks(), joined_with)};
}

void ParallelState::destroy_model_parallel() {
    State::destroy_model_parallel();
    live_.reset();
}

// The ranks of a group are asked for first: they throw where there is none.
Communicator& ParallelState::get_model_parallel_group() {
    return State::get_model_parallel_group(), live_->model;
}
Communicator& ParallelState::get_tensor_model_parallel_group() {
    return State::get_tensor_model_parallel_group(), live_->tensor;
}
Communicator& ParallelState::get_pipeline_model_parallel_group() {
    return State::get_pipeline_model_parallel_group(), live_->pipeline;
}
Communicator& ParallelState::get_data_parallel_group() {
    return State::get_data_parallel_group(), live_->data;
}
Communicator& ParallelState::get_embedding_group() { return State::get_embedding_group(), *live_->embedding; }
Communicator& ParallelState::get_position_embedding_group() {
    return State::get_position_embedding_group(), *live_->position_embedding;
}

ParallelState initialize_model_parallel(const Member& member, const Sizes& sizes) { return {member, sizes}; }

}  // namespace rankmesh::megatron2022
