// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>

#include <algorithm>

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
    dialect::check_rank(global_rank, world_size);
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
    virtual_rank_ = virtual_size_ = {};
    set_ = {};
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

void State::check_slot(std::string_view name, std::optional<int> value) {
    auto words = cat("the ", name);
    std::ranges::replace(words, '_', ' ');
    if (name.ends_with("world_size")) check_positive(words, value);
}

int State::last_in_pipeline() const {
    const auto pipeline = pipeline_global_ranks();
    return rank_on(pipeline, get_pipeline_model_parallel_world_size() - 1);
}
int State::around_pipeline(int by) const {
    const auto pipeline = pipeline_global_ranks();
    const auto stage = std::int64_t{get_pipeline_model_parallel_rank()} + by;
    const auto size = get_pipeline_model_parallel_world_size();
    return rank_on(pipeline, static_cast<int>((stage % size + size) % size));
}

bool State::is_last_stage(bool ignore_virtual) const {
    return is_virtual_stage(ignore_virtual, virtual_size_.value_or(0) - 1) &&
           get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1;
}
bool State::holds_embedding(bool ignore_virtual) const {
    const auto ranks = embedding_global_ranks();
    if (ignore_virtual || !ranks.contains(rank_)) return ranks.contains(rank_);
    if (rank_ == ranks.front()) return is_pipeline_first_stage();
    if (rank_ == ranks.back()) return is_pipeline_last_stage();
    return true;
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
bool State::is_on_side_of_split(std::int64_t stage, bool before) const {
    if (get_pipeline_model_parallel_world_size() == 1) return true;
    const auto split = pipeline_model_parallel_split_rank();
    // The original makes the groups of a split that is counted from the end, and puts every stage after it.
    if (split && *split < 0)
        throw Refusal(Fault::argument, "negative-split",
                      cat("pipeline_model_parallel_split_rank is ", *split,
                          ", and no stage is before or after that; give ",
                          *split + get_pipeline_model_parallel_world_size()));
    return !split || (stage < *split) == before;
}

ParallelState::ParallelState(const Member& member, const Sizes& sizes)
    : State(member.rank(), member.mesh().size()) {
    State::initialize_model_parallel(sizes);
    dialect::check_mesh(member, groups("model parallel group").mesh, joined_with);
    live_ = Live{
#define RANKMESH_GROUP(name, what, sentence, ...) \
    .name = dialect::communicator(member, {__VA_ARGS__}, joined_with),
#define RANKMESH_PICKED(name, ...) .name = dialect::pick(member, #name, name##_global_ranks(), joined_with),
        RANKMESH_MEGATRON2022_GROUPS(RANKMESH_GROUP, RANKMESH_PICKED)
#undef RANKMESH_GROUP
#undef RANKMESH_PICKED
    };
}

void ParallelState::destroy_model_parallel() {
    State::destroy_model_parallel();
    live_.reset();
}

// The ranks of a group are asked for first: they throw where there is none.
#define RANKMESH_GROUP(name, ...) \
    Communicator& ParallelState::get_##name##_group() { return State::get_##name##_group(), live_->name; }
#define RANKMESH_PICKED(name, ...) \
    Communicator& ParallelState::get_##name##_group() { return State::get_##name##_group(), *live_->name; }
RANKMESH_MEGATRON2022_GROUPS(RANKMESH_GROUP, RANKMESH_PICKED)
#undef RANKMESH_GROUP
#undef RANKMESH_PICKED

ParallelState initialize_model_parallel(const Member& member, const Sizes& sizes) { return {member, sizes}; }

}  // namespace rankmesh::megatron2022
