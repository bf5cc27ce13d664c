// SPDX-License-Identifier: Apache-2.0
// The getters of Megatron-core's parallel_state, and the numbers that it has for one rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/megatron/process_groups.hpp>

// The getters, a row each: what C++, Python and `convert` have of them follows from these.

/// GROUP(name, description, text where a rank has none, sentence): `get_NAME_group` without options.
#define RANKMESH_MEGATRON_GROUPS(GROUP)                                                                     \
    GROUP(                                                                                                  \
        model_parallel, "MODEL_PARALLEL_GROUP", "model parallel group is not initialized",                  \
        "Tensor and pipeline parallel ranks of one replica, those of weight re-materialisation with them.") \
    GROUP(tensor_model_parallel, "TENSOR_MODEL_PARALLEL_GROUP",                                             \
          "tensor model parallel group is not initialized", "This rank's tensor-parallel group.")           \
    GROUP(pipeline_model_parallel, "PIPELINE_MODEL_PARALLEL_GROUP",                                         \
          "pipeline_model parallel group is not initialized", "This rank's pipeline.")                      \
    GROUP(context_parallel, "CONTEXT_PARALLEL_GROUP", "context parallel group is not initialized",          \
          "This rank's context-parallel group.")                                                            \
    GROUP(embedding, "EMBEDDING_GROUP", "embedding group is not initialized",                               \
          "The ranks of this rank's pipeline that hold word embeddings, on these stages.")                  \
    GROUP(position_embedding, "POSITION_EMBEDDING_GROUP", "position embedding group is not initialized",    \
          "The ranks of this rank's pipeline that hold position embeddings, on these stages.")              \
    GROUP(tensor_and_context_parallel, "TENSOR_AND_CONTEXT_PARALLEL_GROUP",                                 \
          "tensor and context parallel group is not initialized",                                           \
          "The tensor and context parallel ranks of one replica's stage.")                                  \
    GROUP(gtp_weight_remat, "GTP_WEIGHT_REMAT_GROUP",                                                       \
          "generalized tensor parallel group is not initialized",                                           \
          "The ranks that share the pieces of a weight that is gathered before use.")                       \
    GROUP(expert_gtp_weight_remat, "EXPERT_GTP_WEIGHT_REMAT_GROUP",                                         \
          "expert generalized tensor parallel group is not initialized",                                    \
          "The ranks that share the pieces of an expert's weight.")                                         \
    GROUP(expert_model_parallel, "EXPERT_MODEL_PARALLEL_GROUP",                                             \
          "expert model parallel group is not initialized", "The ranks that hold other experts.")           \
    GROUP(expert_tensor_parallel, "EXPERT_TENSOR_PARALLEL_GROUP",                                           \
          "Expert tensor parallel group is not initialized",                                                \
          "The ranks that hold the other pieces of an expert.")                                             \
    GROUP(expert_tensor_and_model_parallel, "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP",                       \
          "Expert tensor and model parallel group is not initialized",                                      \
          "All ranks that hold one set of experts on a stage.")                                             \
    GROUP(intra_distributed_optimizer_instance, "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",               \
          "Intra distributed optimizer instance group is not initialized",                                  \
          "All ranks of one optimizer instance.")                                                           \
    GROUP(inter_distributed_optimizer_instance, "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1",               \
          "Attention and MLP/Expert share same inter distributed optimize instance group, which has not "   \
          "been initialized",                                                                               \
          "This rank's counterparts in the other optimizer instances.")

/// ANSWER(type, name, parameters, value, sentence): the getters of numbers that `convert` tells, in its
/// order.
#define RANKMESH_MEGATRON_ANSWERS(ANSWER)                                                                    \
    ANSWER(int, get_tensor_model_parallel_rank, (),                                                          \
           rank_in(tensor_model_parallel, Without::raises, set_.tensor_model_parallel_rank),                 \
           "Where this rank stands in its tensor-parallel group, or what was set.")                          \
    ANSWER(int, get_tensor_model_parallel_world_size, (),                                                    \
           size_in(tensor_model_parallel, Without::raises, set_.tensor_model_parallel_world_size),           \
           "The size of the tensor-parallel group, or what was set.")                                        \
    ANSWER(int, get_pipeline_model_parallel_rank, (),                                                        \
           rank_in(pipeline_model_parallel, Without::raises, set_.pipeline_model_parallel_rank),             \
           "This rank's stage, or what was set.")                                                            \
    ANSWER(int, get_pipeline_model_parallel_world_size, (),                                                  \
           size_in(pipeline_model_parallel, Without::raises, set_.pipeline_model_parallel_world_size),       \
           "The number of stages, or what was set.")                                                         \
    ANSWER(int, get_data_parallel_rank, (DataParallel which = {}),                                           \
           set_.data_parallel_rank ? *set_.data_parallel_rank                                                \
           : world_size_           ? rank_in(data_parallel(which))                                           \
                                   : 0,                                                                                \
           "Where this rank stands in its data-parallel group, or what was set; 0 where no world is known.") \
    ANSWER(int, get_data_parallel_world_size, (DataParallel which = {}),                                     \
           world_size_ ? size_in(data_parallel(which)) : 0,                                                  \
           "The size of the data-parallel group; 0 where no world is known.")                                \
    ANSWER(int, get_context_parallel_rank, (), rank_in(context_parallel, Without::world_0),                  \
           "Where this rank stands in its context-parallel group; 0 where no world is known.")               \
    ANSWER(int, get_context_parallel_world_size, (), size_in(context_parallel, Without::world_0),            \
           "The size of the context-parallel group; 0 where no world is known.")                             \
    ANSWER(int, get_tensor_and_context_parallel_rank, (),                                                    \
           rank_in(tensor_and_context_parallel, Without::world_0),                                           \
           "Where this rank stands in the tensor and context parallel group; 0 where no world is known.")    \
    ANSWER(int, get_tensor_and_context_parallel_world_size, (),                                              \
           size_in(tensor_and_context_parallel, Without::world_0),                                           \
           "The size of the tensor and context parallel group; 0 where no world is known.")                  \
    ANSWER(int, get_expert_model_parallel_rank, (),                                                          \
           rank_in(expert_model_parallel, Without::world_0, set_.expert_model_parallel_rank),                \
           "Where this rank stands in its expert-parallel group, or what was set; 0 where no world is "      \
           "known.")                                                                                         \
    ANSWER(int, get_expert_model_parallel_world_size, (),                                                    \
           size_in(expert_model_parallel, Without::world_0, set_.expert_model_parallel_world_size),          \
           "The size of the expert-parallel group, or what was set; 0 where no world is known.")             \
    ANSWER(                                                                                                  \
        std::optional<int>, get_expert_tensor_parallel_rank, (),                                             \
        rank_or(expert_tensor_parallel, set_.expert_tensor_parallel_rank, set_.tensor_model_parallel_rank),  \
        "Where this rank stands in the experts' tensor-parallel group, or what was set for it, else for "    \
        "tensor parallelism.")                                                                               \
    ANSWER(std::optional<int>, get_expert_tensor_parallel_world_size, (),                                    \
           size_or(expert_tensor_parallel, set_.expert_tensor_parallel_world_size,                           \
                   set_.tensor_model_parallel_world_size),                                                   \
           "The size of the experts' tensor-parallel group, or what was set for it, else for tensor "        \
           "parallelism.")                                                                                   \
    ANSWER(int, get_expert_data_parallel_rank, (ExpertDataParallel which = {}),                              \
           rank_in(expert_data_parallel(which), Without::world_0),                                           \
           "Where this rank stands in the experts' data-parallel group; 0 where no world is known.")         \
    ANSWER(int, get_expert_data_parallel_world_size, (ExpertDataParallel which = {}),                        \
           size_in(expert_data_parallel(which), Without::world_0),                                           \
           "The size of the experts' data-parallel group; 0 where no world is known.")                       \
    ANSWER(int, get_tensor_model_parallel_src_rank, (),                                                      \
           first_of({tensor_model_parallel.desc, "Tensor model parallel group is not initialized"}),         \
           "The first rank of this rank's tensor-parallel group.")                                           \
    ANSWER(int, get_data_parallel_src_rank, (bool with_context_parallel = false),                            \
           first_of(data_parallel_src(with_context_parallel)),                                               \
           "The first rank of this rank's data-parallel group without weight re-materialisation, unlike "    \
           "get_data_parallel_rank.")                                                                        \
    ANSWER(int, get_model_parallel_src_rank, (),                                                             \
           first_of({model_parallel.desc, "Model parallel group is not initialized"}),                       \
           "The first rank of this rank's replica.")                                                         \
    ANSWER(int, get_expert_model_parallel_src_rank, (),                                                      \
           first_of({expert_model_parallel.desc, "Expert model parallel group is not initialized"}),         \
           "The first rank of this rank's expert-parallel group.")                                           \
    ANSWER(int, get_pipeline_model_parallel_first_rank, (), in_pipeline(0),                                  \
           "The rank in the first stage of this rank's pipeline.")                                           \
    ANSWER(int, get_pipeline_model_parallel_last_rank, (), last_in_pipeline(),                               \
           "The rank in the last stage of this rank's pipeline.")                                            \
    ANSWER(int, get_pipeline_model_parallel_next_rank, (), around_pipeline(+1),                              \
           "The rank in the next stage, the first after the last.")                                          \
    ANSWER(int, get_pipeline_model_parallel_prev_rank, (), around_pipeline(-1),                              \
           "The rank in the stage before, the last before the first.")                                       \
    ANSWER(bool, is_pipeline_first_stage, (Stage stage = {}),                                                \
           is_virtual_stage(stage, 0) && get_pipeline_model_parallel_rank() == 0,                            \
           "True in the first stage, and there in virtual stage 0 unless that is ignored.")                  \
    ANSWER(bool, is_pipeline_last_stage, (Stage stage = {}), is_last_stage(stage),                           \
           "True in the last stage, and there in the last virtual stage unless that is ignored.")            \
    ANSWER(                                                                                                  \
        bool, is_rank_in_embedding_group, (Stage stage = {}), holds_embedding(stage),                        \
        "True if this rank's stage holds word embeddings, as its pipeline's first or last in the virtual "   \
        "stage asked for.")                                                                                  \
    ANSWER(bool, is_rank_in_position_embedding_group, (), find(position_embedding.desc).has_value(),         \
           "True if this rank's stage holds position embeddings.")

/// ANSWER of the same form: the other ones.
#define RANKMESH_MEGATRON_OTHER_ANSWERS(ANSWER)                                                           \
    ANSWER(bool, is_initialized, (), find("DATA_PARALLEL_GROUP").has_value(),                             \
           "True if this rank has a data-parallel group.")                                                \
    ANSWER(bool, model_parallel_is_initialized, (),                                                       \
           find(tensor_model_parallel.desc) && find(pipeline_model_parallel.desc) && is_initialized(),    \
           "True if this rank has tensor-, pipeline- and data-parallel groups.")                          \
    ANSWER(bool, has_separate_all_gather_group, (), find(all_gather.desc).has_value(),                    \
           "True if `create_all_gather_group` made this rank a group to gather in.")                      \
    ANSWER(int, get_expert_tensor_and_model_parallel_rank, (),                                            \
           rank_in(expert_tensor_and_model_parallel, Without::world_0),                                   \
           "Where this rank stands among the ranks that hold one set of experts on a stage; 0 where no "  \
           "world is known.")                                                                             \
    ANSWER(int, get_expert_tensor_and_model_parallel_world_size, (),                                      \
           size_in(expert_tensor_and_model_parallel, Without::world_0),                                   \
           "The number of ranks that hold one set of experts on a stage; 0 where no world is known.")     \
    ANSWER(int, get_gtp_weight_remat_rank, (), rank_in(gtp_weight_remat, Without::group_0),               \
           "Which piece of a weight this rank has; 0 where there is no group.")                           \
    ANSWER(int, get_gtp_weight_remat_world_size, (), size_in(gtp_weight_remat, Without::group_0),         \
           "How many ranks share the pieces of a weight; 0 where there is no group.")                     \
    ANSWER(int, get_expert_gtp_weight_remat_rank, (), rank_in(expert_gtp_weight_remat, Without::group_0), \
           "Which piece of an expert's weight this rank has; 0 where there is no group.")                 \
    ANSWER(int, get_expert_gtp_weight_remat_world_size, (),                                               \
           size_in(expert_gtp_weight_remat, Without::group_0),                                            \
           "How many ranks share the pieces of an expert's weight; 0 where there is no group.")           \
    ANSWER(std::optional<int>, get_virtual_pipeline_model_parallel_rank, (),                              \
           set_.virtual_pipeline_model_parallel_rank,                                                     \
           "The current virtual stage; nothing without virtual stages.")                                  \
    ANSWER(std::optional<int>, get_virtual_pipeline_model_parallel_world_size, (),                        \
           set_.virtual_pipeline_model_parallel_world_size,                                               \
           "How many virtual stages there are; nothing without them.")                                    \
    ANSWER(std::string, get_all_ranks, (), all_ranks(), "`tp_gtp_dp_cp_pp_ep` of this rank: `0_0_2_1_0_0`.")

/// RANKS(name): `get_NAME_global_ranks`, the ranks of the group that `get_NAME_group` gives.
#define RANKMESH_MEGATRON_RANKS(RANKS) \
    RANKS(context_parallel)            \
    RANKS(gtp_weight_remat)            \
    RANKS(expert_gtp_weight_remat)

/// SLOT(name, parameter): `set_NAME`, what the getter answers from then on; nothing for its own answer again.
#define RANKMESH_MEGATRON_SLOTS(SLOT)                    \
    SLOT(tensor_model_parallel_rank, rank)               \
    SLOT(tensor_model_parallel_world_size, world_size)   \
    SLOT(pipeline_model_parallel_rank, rank)             \
    SLOT(pipeline_model_parallel_world_size, world_size) \
    SLOT(data_parallel_rank, rank)                       \
    SLOT(expert_model_parallel_rank, rank)               \
    SLOT(expert_model_parallel_world_size, world_size)   \
    SLOT(expert_tensor_parallel_rank, rank)              \
    SLOT(expert_tensor_parallel_world_size, world_size)  \
    SLOT(virtual_pipeline_model_parallel_rank, rank)     \
    SLOT(virtual_pipeline_model_parallel_world_size, world_size)

namespace rankmesh::megatron {

/// Which data-parallel group is meant.
struct DataParallel {
    bool with_context_parallel = false;
    bool partial_data_parallel = false;  ///< that of one optimizer instance
    bool with_gtp_remat = true;
    bool independent_all_gather = false;  ///< that of `create_all_gather_group`, with context parallelism
};

/// Which of the experts' data-parallel groups is meant.
struct ExpertDataParallel {
    bool partial_expert_data_parallel = false;  ///< that of one optimizer instance
    bool with_gtp_remat = true;
};

/// The virtual stage of a rank that a call is about.
struct Stage {
    bool ignore_virtual = true;
    std::optional<int> vp_stage = {};
};

/// The numbers of one rank: where it stands in each kind of group, whose first rank is whose source, who is
/// next.
///
/// Every getter of a group's rank or size throws dialect::Error, in the original's words, where this rank has
/// no such group. What the original sets on the fly wins over the group's own number until it is set to
/// nothing.
class RANKMESH_EXPORT ParallelRanks {
public:
#define RANKMESH_ANSWER(type, name, parameters, value, sentence) \
    type name parameters const { return value; }
    RANKMESH_MEGATRON_ANSWERS(RANKMESH_ANSWER)
    RANKMESH_MEGATRON_OTHER_ANSWERS(RANKMESH_ANSWER)
#undef RANKMESH_ANSWER
#define RANKMESH_RANKS(name) \
    GroupPart get_##name##_global_ranks() const { return ranks(name); }
    RANKMESH_MEGATRON_RANKS(RANKMESH_RANKS)
#undef RANKMESH_RANKS
#define RANKMESH_SLOT(name, parameter) \
    void set_##name(std::optional<int> parameter) { set_.name = parameter; }
    RANKMESH_MEGATRON_SLOTS(RANKMESH_SLOT)
#undef RANKMESH_SLOT
    bool is_unitialized() const { return !is_initialized(); }

    /// The ranks of this rank's group of a description, ascending; nothing where it has none.
    std::optional<GroupPart> find(std::string_view desc) const;
    /// All groups; throws dialect::Error before they are made.
    const ProcessGroups& process_groups() const;

protected:
    /// A group, and what the original says where a rank has none.
    struct Named {
        std::string_view desc;
        std::string_view missing;
        bool with_gtp_remat = false;  ///< which the text says too
    };
#define RANKMESH_GROUP(name, ...) static const Named name;
    RANKMESH_MEGATRON_GROUPS(RANKMESH_GROUP)
#undef RANKMESH_GROUP
    Named data_parallel(const DataParallel& which) const;
    Named data_parallel_gloo(const DataParallel& which) const;
    Named expert_data_parallel(const ExpertDataParallel& which) const;
    Named expert_data_parallel_gloo(const ExpertDataParallel& which) const;
    static Named expert_tensor_model_pipeline(bool with_egtp_remat);
    static Named tensor_and_data(bool with_context_parallel);
    static Named amax_reduction(bool with_context_parallel, bool tp_only_amax_red);
    /// The descriptions of this rank's groups, level by level.
    std::vector<std::string> hierarchical() const;
    std::string hybrid(int group_size) const;
    /// Throws dialect::Error where this rank has no such group.
    GroupPart ranks(const Named& named) const;

    ParallelRanks() = default;
    ParallelRanks(int rank, int world_size) { enter(rank, world_size); }
    /// As one rank of a world from now on; throws dialect::Error where groups are made.
    void enter(int rank, int world_size);
    void initialize(const Sizes& sizes);
    void destroy();
    int rank() const { return rank_; }

private:
    struct Slots {
#define RANKMESH_SLOT(name, parameter) std::optional<int> name = {};
        RANKMESH_MEGATRON_SLOTS(RANKMESH_SLOT)
#undef RANKMESH_SLOT
    };
    static const Named all_gather;
    /// What a number is without a group: an error, 0 where no world is known, or 0.
    enum class Without { raises, world_0, group_0 };
    bool is_0(const Named& named, Without without) const {
        return without == Without::world_0 ? !world_size_ : without == Without::group_0 && !find(named.desc);
    }
    int rank_in(const Named& named, Without without = Without::raises, std::optional<int> set = {}) const {
        return set ? *set : is_0(named, without) ? 0 : *ranks(named).group_rank(rank_);
    }
    int size_in(const Named& named, Without without = Without::raises, std::optional<int> set = {}) const {
        return set ? *set : is_0(named, without) ? 0 : ranks(named).size();
    }
    /// What was set, else the group's own number, else what was set of another group.
    std::optional<int> rank_or(const Named& named, std::optional<int> set, std::optional<int> other) const {
        return set || find(named.desc) ? rank_in(named, Without::raises, set) : other;
    }
    std::optional<int> size_or(const Named& named, std::optional<int> set, std::optional<int> other) const {
        return set || find(named.desc) ? size_in(named, Without::raises, set) : other;
    }
    int first_of(const Named& named) const { return ranks(named).front(); }
    static Named data_parallel_src(bool with_context_parallel);
    /// The first of some descriptions that the sizes give, else the last one.
    std::string_view made_of(std::initializer_list<std::string_view> descriptions) const;
    bool is_virtual_stage(const Stage& stage, int wanted) const;
    bool is_last_stage(const Stage& stage) const;
    bool holds_embedding(const Stage& stage) const;
    int in_pipeline(int stage) const;
    int last_in_pipeline() const;
    int around_pipeline(int by) const;
    std::string all_ranks() const;

    int rank_ = 0;
    std::optional<int> world_size_;  // nothing: torch.distributed is not initialised
    std::optional<ProcessGroups> groups_;
    Slots set_;
};

}  // namespace rankmesh::megatron
