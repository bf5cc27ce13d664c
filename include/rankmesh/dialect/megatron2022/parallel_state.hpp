// SPDX-License-Identifier: Apache-2.0
// Megatron's parallel_state of October 2022, which is vLLM's first: the grid (pp, dp, tp), tp fastest.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::megatron2022 {

/// The arguments of the original's initialize_model_parallel; data parallelism gets what they leave over.
struct Sizes {
    int tensor_model_parallel_size = 1;
    int pipeline_model_parallel_size = 1;
    /// How many stages each rank has, of an interleaved pipeline.
    std::optional<int> virtual_pipeline_model_parallel_size = {};
    /// The stage at which the decoder begins, negative ones counted from the end; a pipeline of one stage
    /// ignores it.
    std::optional<int> pipeline_model_parallel_split_rank = {};
};

/// The plan to join for ParallelState.
RANKMESH_EXPORT Plan plan(const Sizes& sizes);

/// Every group of a world by kind, each kind in the order in which the original makes its groups.
///
///     to_string(megatron2022::Groups({2, 4}, 16).pipeline()[1]) == "{1, 5, 9, 13}"
struct RANKMESH_EXPORT Groups {
    /// Throws dialect::Error where the sizes do not divide the world, for virtual stages in a pipeline of one
    /// or two and for a split outside the pipeline, dialect::Refusal for sizes below one.
    Groups(const Sizes& sizes, int world_size);

    Partition data() const { return mesh.partition("dp"); }
    Partition model() const { return mesh.partition("pp", "tp"); }
    Partition tensor() const { return mesh.partition("tp"); }
    Partition pipeline() const { return mesh.partition("pp"); }
    /// The first and last stage of a pipeline, and that of the split.
    Group embedding(const Group& pipeline) const;
    /// The first stage of a pipeline, and that of the split.
    Group position_embedding(const Group& pipeline) const;
    /// Those of a rank's pipeline, or of the rank.
    Group pipeline_of(int rank) const { return mesh.group(rank, "pp"); }
    Group data_of(int rank) const { return mesh.group(rank, "dp"); }
    Group embedding_of(int rank) const { return embedding(pipeline_of(rank)); }
    Group position_embedding_of(int rank) const { return position_embedding(pipeline_of(rank)); }
    /// How many groups the original makes: one of each kind for a pipeline, and all the others.
    int count() const { return data().size() + model().size() + tensor().size() + 3 * pipeline().size(); }

    Mesh mesh;  ///< `pp dp tp` over the whole world
    Sizes sizes;
};

// The getters, a row each: what C++, Python and `convert` have of them follows from these.

/// GROUP(name, what is missing, sentence, axes), and PICKED for groups that some stages are not in:
/// `get_NAME_group`.
#define RANKMESH_MEGATRON2022_GROUPS(GROUP, PICKED)                                                         \
    GROUP(model_parallel, "model parallel group", "The tensor and pipeline parallel ranks of one replica.", \
          "pp", "tp")                                                                                       \
    GROUP(tensor_model_parallel, "intra_layer_model parallel group", "This rank's tensor-parallel group.",  \
          "tp")                                                                                             \
    GROUP(pipeline_model_parallel, "pipeline_model parallel group", "This rank's pipeline.", "pp")          \
    GROUP(data_parallel, "data parallel group", "This rank's data-parallel group.", "dp")                   \
    PICKED(embedding, "embedding group",                                                                    \
           "The first and last rank of this rank's pipeline and that of the split, on these stages.")       \
    PICKED(position_embedding, "position embedding group",                                                  \
           "The first rank of this rank's pipeline and that of the split, on these stages.")

/// LIST(name, variable, what is missing, groups, sentence): what the original keeps in a list on
/// every stage.
#define RANKMESH_MEGATRON2022_LISTS(LIST)                                                               \
    LIST(pipeline_global_ranks, _PIPELINE_GLOBAL_RANKS, "Pipeline parallel group", pipeline,            \
         "The ranks of this rank's pipeline.")                                                          \
    LIST(data_parallel_global_ranks, _DATA_PARALLEL_GLOBAL_RANKS, "Data parallel group", data,          \
         "The ranks of this rank's data-parallel group.")                                               \
    LIST(embedding_global_ranks, _EMBEDDING_GLOBAL_RANKS, "embedding group", embedding,                 \
         "The members of this pipeline's embedding group, on every stage.")                             \
    LIST(position_embedding_global_ranks, _POSITION_EMBEDDING_GLOBAL_RANKS, "position embedding group", \
         position_embedding, "The members of this pipeline's position embedding group, on every stage.")

/// ANSWER(type, name, parameters, value, sentence).
#define RANKMESH_MEGATRON2022_ANSWERS(ANSWER)                                                                \
    ANSWER(int, get_tensor_model_parallel_world_size, (),                                                    \
           set_.tensor_model_parallel_world_size ? *set_.tensor_model_parallel_world_size                    \
                                                 : get_tensor_model_parallel_group().size(),                 \
           "The size of the tensor-parallel group, or what was set.")                                        \
    ANSWER(int, get_pipeline_model_parallel_world_size, (),                                                  \
           set_.pipeline_model_parallel_world_size ? *set_.pipeline_model_parallel_world_size                \
                                                   : get_pipeline_model_parallel_group().size(),             \
           "The number of stages, or what was set.")                                                         \
    ANSWER(int, get_tensor_model_parallel_rank, (),                                                          \
           set_.tensor_model_parallel_rank ? *set_.tensor_model_parallel_rank                                \
                                           : *get_tensor_model_parallel_group().group_rank(rank_),           \
           "Where this rank stands in its tensor-parallel group, or what was set.")                          \
    ANSWER(int, get_pipeline_model_parallel_rank, (),                                                        \
           set_.pipeline_model_parallel_rank ? *set_.pipeline_model_parallel_rank                            \
                                             : *get_pipeline_model_parallel_group().group_rank(rank_),       \
           "This rank's stage, or what was set.")                                                            \
    ANSWER(bool, is_pipeline_first_stage, (bool ignore_virtual = false),                                     \
           is_virtual_stage(ignore_virtual, 0) && get_pipeline_model_parallel_rank() == 0,                   \
           "True in the first stage and, unless ignored, at the first virtual stage.")                       \
    ANSWER(bool, is_pipeline_last_stage, (bool ignore_virtual = false), is_last_stage(ignore_virtual),       \
           "True in the last stage and, unless ignored, at the last virtual stage.")                         \
    ANSWER(bool, is_rank_in_embedding_group, (bool ignore_virtual = false), holds_embedding(ignore_virtual), \
           "True for a member; the first and last must, unless ignored, be at the first and last "           \
           "virtual stage.")                                                                                 \
    ANSWER(bool, is_rank_in_position_embedding_group, (), position_embedding_global_ranks().contains(rank_), \
           "True for a member.")                                                                             \
    ANSWER(bool, is_pipeline_stage_before_split, (std::optional<int> rank = {}),                             \
           is_on_side_of_split(rank ? *rank : get_pipeline_model_parallel_rank(), true),                     \
           "True where a stage, this rank's if not given, comes before the split, or there is none.")        \
    ANSWER(bool, is_pipeline_stage_after_split, (std::optional<int> rank = {}),                              \
           is_on_side_of_split(rank ? *rank : get_pipeline_model_parallel_rank(), false),                    \
           "True where a stage comes not before the split, or there is none.")                               \
    ANSWER(bool, is_pipeline_stage_at_split, (),                                                             \
           is_on_side_of_split(get_pipeline_model_parallel_rank(), true) &&                                  \
               is_on_side_of_split(std::int64_t{get_pipeline_model_parallel_rank()} + 1, false),             \
           "True where this stage comes before the split and the next one after it.")                        \
    ANSWER(std::optional<int>, get_virtual_pipeline_model_parallel_rank, (), virtual_rank_,                  \
           "The current virtual stage; None without them.")                                                  \
    ANSWER(std::optional<int>, get_virtual_pipeline_model_parallel_world_size, (), virtual_size_,            \
           "How many virtual stages there are; None without them.")                                          \
    ANSWER(int, get_tensor_model_parallel_src_rank, (),                                                      \
           rank_ - rank_ % get_tensor_model_parallel_world_size(),                                           \
           "The first rank of as many contiguous ones as the tensor model parallel size says.")              \
    ANSWER(int, get_data_parallel_src_rank, (), data_parallel_global_ranks().front(),                        \
           "The first rank of this rank's data-parallel group.")                                             \
    ANSWER(int, get_pipeline_model_parallel_first_rank, (), pipeline_global_ranks().front(),                 \
           "The rank in the first stage of this rank's pipeline.")                                           \
    ANSWER(int, get_pipeline_model_parallel_last_rank, (), last_in_pipeline(),                               \
           "The rank in the last stage of this rank's pipeline.")                                            \
    ANSWER(int, get_pipeline_model_parallel_next_rank, (), around_pipeline(+1),                              \
           "The rank in the next stage, the first after the last.")                                          \
    ANSWER(int, get_pipeline_model_parallel_prev_rank, (), around_pipeline(-1),                              \
           "The rank in the stage before, the last before the first.")                                       \
    ANSWER(int, get_data_parallel_world_size, (), get_data_parallel_group().size(),                          \
           "The size of the data-parallel group.")                                                           \
    ANSWER(int, get_data_parallel_rank, (), *get_data_parallel_group().group_rank(rank_),                    \
           "Where this rank stands in its data-parallel group.")

/// SLOT(name, parameter): `set_NAME`, what the getter answers from then on; nothing: the group's own again.
#define RANKMESH_MEGATRON2022_SLOTS(SLOT)                \
    SLOT(tensor_model_parallel_world_size, world_size)   \
    SLOT(pipeline_model_parallel_world_size, world_size) \
    SLOT(tensor_model_parallel_rank, rank)               \
    SLOT(pipeline_model_parallel_rank, rank)

/// What the original's module knows in one process, under its names, without starting a process.
///
/// Where the original asserts that something was initialized, these throw dialect::Error in its words. The
/// lists throw dialect::Refusal after destroy_model_parallel, where the original's are stale.
class RANKMESH_EXPORT State {
public:
    /// Of a process that is in no world yet.
    State() = default;
    State(int global_rank, int world_size) { enter(global_rank, world_size); }

    /// As one rank of a world from now on; throws dialect::Error where groups are made.
    void enter(int global_rank, int world_size);
    /// Throws dialect::Error where it was called before; a call that throws changes nothing.
    void initialize_model_parallel(const Sizes& sizes = {});
    bool model_parallel_is_initialized() const { return groups_.has_value(); }
    /// Forgets the groups, the virtual stages and what was set.
    void destroy_model_parallel();

#define RANKMESH_GROUP(name, what, sentence, ...) \
    Group get_##name##_group() const { return groups(what).mesh.group(rank_, __VA_ARGS__); }
#define RANKMESH_PICKED(name, what, sentence) \
    Group get_##name##_group() const { return members(groups(what).name##_of(rank_), what); }
    RANKMESH_MEGATRON2022_GROUPS(RANKMESH_GROUP, RANKMESH_PICKED)
#undef RANKMESH_GROUP
#undef RANKMESH_PICKED
#define RANKMESH_LIST(name, variable, what, groups, sentence) \
    Group name() const { return listed(what).groups##_of(rank_); }
    RANKMESH_MEGATRON2022_LISTS(RANKMESH_LIST)
#undef RANKMESH_LIST
#define RANKMESH_ANSWER(type, name, parameters, value, sentence) \
    type name parameters const { return value; }
    RANKMESH_MEGATRON2022_ANSWERS(RANKMESH_ANSWER)
#undef RANKMESH_ANSWER
#define RANKMESH_SLOT(name, parameter)                \
    /* throws dialect::Refusal for sizes below one */ \
    void set_##name(std::optional<int> parameter) {   \
        check_slot(#name, parameter);                 \
        set_.name = parameter;                        \
    }
    RANKMESH_MEGATRON2022_SLOTS(RANKMESH_SLOT)
#undef RANKMESH_SLOT
    void set_virtual_pipeline_model_parallel_rank(std::optional<int> rank) { virtual_rank_ = rank; }
    /// Does nothing: the original writes a variable that is never read.
    void set_pipeline_model_parallel_split_rank(std::optional<int>) {}
    /// The split as it was given; throws dialect::Refusal for one that is left over from before
    /// destroy_model_parallel.
    std::optional<int> pipeline_model_parallel_split_rank() const;

protected:
    /// All groups; throws dialect::Error that `what` is not initialized.
    const Groups& groups(std::string_view what) const;

private:
    struct Slots {
#define RANKMESH_SLOT(name, ...) std::optional<int> name = {};
        RANKMESH_MEGATRON2022_SLOTS(RANKMESH_SLOT)
#undef RANKMESH_SLOT
    };
    static void check_slot(std::string_view name, std::optional<int> value);
    const Groups& listed(std::string_view what) const;
    Group members(const Group& group, std::string_view what) const;
    int last_in_pipeline() const;
    int around_pipeline(int by) const;
    bool is_virtual_stage(bool ignored, int wanted) const {
        return ignored || !virtual_size_ || virtual_rank_ == wanted;
    }
    bool is_last_stage(bool ignore_virtual) const;
    bool holds_embedding(bool ignore_virtual) const;
    bool is_on_side_of_split(std::int64_t stage, bool before) const;

    int rank_ = 0;
    int world_size_ = 0;  // 0: in no world
    std::optional<Groups> groups_;
    bool destroyed_ = false;  // there were groups, and there are none
    std::optional<int> split_, virtual_rank_, virtual_size_;
    Slots set_;
};

/// The same, live: its groups are communicators.
///
///     void report(megatron2022::ParallelState& mpu, float& loss) {
///         if (mpu.is_pipeline_last_stage()) mpu.get_data_parallel_group().all_reduce(loss, mean);
///     }
class RANKMESH_EXPORT ParallelState : public State {
public:
    /// Initialized with `sizes`; throws UsageError for a member whose plan lacks one of the groups, or has a
    /// mesh or a split of other sizes; `plan` has all.
    ParallelState(const Member& member, const Sizes& sizes);

    /// Made once; `mpu = ParallelState(other_member, other_sizes)` makes it anew.
    void initialize_model_parallel(const Sizes& sizes = {}) = delete;
    /// Gives the communicators up, too.
    void destroy_model_parallel();

#define RANKMESH_GROUP(name, ...) Communicator& get_##name##_group();
    RANKMESH_MEGATRON2022_GROUPS(RANKMESH_GROUP, RANKMESH_GROUP)
#undef RANKMESH_GROUP

private:
    struct Live {
#define RANKMESH_GROUP(name, ...) Communicator name;
#define RANKMESH_PICKED(name, ...) std::optional<Communicator> name;
        RANKMESH_MEGATRON2022_GROUPS(RANKMESH_GROUP, RANKMESH_PICKED)
#undef RANKMESH_GROUP
#undef RANKMESH_PICKED
    };
    std::optional<Live> live_;
};

/// The original's own way to make it; what it leaves in global variables is the caller's object.
RANKMESH_EXPORT ParallelState initialize_model_parallel(const Member& member, const Sizes& sizes);

}  // namespace rankmesh::megatron2022
