// SPDX-License-Identifier: Apache-2.0
// The numbers that Megatron-core's parallel_state has for one rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/megatron/process_groups.hpp>

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
    /// True if this rank has a data-parallel group.
    bool is_initialized() const { return find("DATA_PARALLEL_GROUP").has_value(); }
    bool is_unitialized() const { return !is_initialized(); }
    /// True if this rank has tensor-, pipeline- and data-parallel groups.
    bool model_parallel_is_initialized() const;
    /// True if `create_all_gather_group` made this rank a group to gather in.
    bool has_separate_all_gather_group() const { return find(all_gather.desc).has_value(); }

    /// This rank's group rank, and the group's size.
    int get_tensor_model_parallel_rank() const;
    int get_tensor_model_parallel_world_size() const;
    int get_pipeline_model_parallel_rank() const;
    int get_pipeline_model_parallel_world_size() const;
    /// The same, 0 where no world is known.
    int get_data_parallel_rank(DataParallel which = {}) const;
    int get_data_parallel_world_size(DataParallel which = {}) const;
    int get_context_parallel_rank() const;
    int get_context_parallel_world_size() const;
    int get_tensor_and_context_parallel_rank() const;
    int get_tensor_and_context_parallel_world_size() const;
    int get_expert_model_parallel_rank() const;
    int get_expert_model_parallel_world_size() const;
    int get_expert_tensor_and_model_parallel_rank() const;
    int get_expert_tensor_and_model_parallel_world_size() const;
    int get_expert_data_parallel_rank(ExpertDataParallel which = {}) const;
    int get_expert_data_parallel_world_size(ExpertDataParallel which = {}) const;
    /// The same, 0 where there is no group.
    int get_gtp_weight_remat_rank() const;
    int get_gtp_weight_remat_world_size() const;
    int get_expert_gtp_weight_remat_rank() const;
    int get_expert_gtp_weight_remat_world_size() const;
    /// The same, but what was set for tensor parallelism, or nothing, where there is no group.
    std::optional<int> get_expert_tensor_parallel_rank() const;
    std::optional<int> get_expert_tensor_parallel_world_size() const;

    /// What the getters answer from now on; nothing: the group's own number again.
    void set_tensor_model_parallel_rank(std::optional<int> rank) { set_.tp_rank = rank; }
    void set_tensor_model_parallel_world_size(std::optional<int> size) { set_.tp_size = size; }
    void set_pipeline_model_parallel_rank(std::optional<int> rank) { set_.pp_rank = rank; }
    void set_pipeline_model_parallel_world_size(std::optional<int> size) { set_.pp_size = size; }
    void set_data_parallel_rank(std::optional<int> rank) { set_.dp_rank = rank; }
    void set_expert_model_parallel_rank(std::optional<int> rank) { set_.ep_rank = rank; }
    void set_expert_model_parallel_world_size(std::optional<int> size) { set_.ep_size = size; }
    void set_expert_tensor_parallel_rank(std::optional<int> rank) { set_.etp_rank = rank; }
    void set_expert_tensor_parallel_world_size(std::optional<int> size) { set_.etp_size = size; }

    /// The current virtual stage and how many there are; nothing without virtual stages.
    std::optional<int> get_virtual_pipeline_model_parallel_rank() const { return virtual_rank_; }
    std::optional<int> get_virtual_pipeline_model_parallel_world_size() const { return virtual_size_; }
    void set_virtual_pipeline_model_parallel_rank(std::optional<int> rank) { virtual_rank_ = rank; }
    void set_virtual_pipeline_model_parallel_world_size(std::optional<int> size) { virtual_size_ = size; }

    /// True in the first stage, and there in virtual stage 0 unless that is ignored.
    bool is_pipeline_first_stage(Stage stage = {}) const;
    /// True in the last stage, and there in the last virtual stage unless that is ignored.
    bool is_pipeline_last_stage(Stage stage = {}) const;
    /// True if this rank's stage holds word embeddings, as its pipeline's first or last in the virtual stage
    /// asked for.
    bool is_rank_in_embedding_group(Stage stage = {}) const;
    bool is_rank_in_position_embedding_group() const;

    /// The first rank of this rank's group.
    int get_tensor_model_parallel_src_rank() const;
    int get_model_parallel_src_rank() const;
    int get_expert_model_parallel_src_rank() const;
    /// The first rank of this rank's group without weight re-materialisation, unlike get_data_parallel_rank.
    int get_data_parallel_src_rank(bool with_context_parallel = false) const;
    /// The rank in a stage of this rank's pipeline; next and previous wrap.
    int get_pipeline_model_parallel_first_rank() const;
    int get_pipeline_model_parallel_last_rank() const;
    int get_pipeline_model_parallel_next_rank() const;
    int get_pipeline_model_parallel_prev_rank() const;

    /// The ranks of a group, ascending.
    GroupPart get_context_parallel_global_ranks() const;
    GroupPart get_gtp_weight_remat_global_ranks() const;
    GroupPart get_expert_gtp_weight_remat_global_ranks() const;

    /// `tp_gtp_dp_cp_pp_ep` of this rank: `0_0_2_1_0_0`.
    std::string get_all_ranks() const;

    /// The ranks of this rank's group of a description, ascending; nothing where it has none.
    std::optional<GroupPart> find(std::string_view desc) const;
    /// All groups; throws dialect::Error before they are made.
    const ProcessGroups& process_groups() const;

protected:
    /// A group, and what the original says where a rank has none.
    struct Named {
        std::string_view desc;
        std::string_view missing;
    };
    static const Named model_parallel, tensor_parallel, pipeline_parallel, context_parallel,
        tensor_and_context, embedding, position_embedding, expert_model, expert_tensor, expert_tensor_model,
        expert_tensor_model_pipeline, expert_tensor_model_pipeline_with_egtp, intra_instance, inter_instance,
        gtp_weight_remat, expert_gtp_weight_remat, all_gather;
    Named data_parallel(const DataParallel& which) const;
    Named data_parallel_gloo(const DataParallel& which) const;
    Named expert_data_parallel(const ExpertDataParallel& which) const;
    Named expert_data_parallel_gloo(const ExpertDataParallel& which) const;
    Named tensor_and_data(bool with_context_parallel) const;
    Named amax_reduction(bool with_context_parallel, bool tp_only_amax_red) const;
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
    struct Overrides {
        std::optional<int> tp_rank, tp_size, pp_rank, pp_size, dp_rank, ep_rank, ep_size, etp_rank, etp_size;
    };
    int position(const Named& named) const { return *ranks(named).group_rank(rank_); }
    /// 0 where no world is known.
    int position_in_world(const Named& named) const { return world_size_ ? position(named) : 0; }
    int size_in_world(const Named& named) const { return world_size_ ? ranks(named).size() : 0; }
    int position_or_0(const Named& named) const { return find(named.desc) ? position(named) : 0; }
    int size_or_0(const Named& named) const { return find(named.desc) ? ranks(named).size() : 0; }
    bool has_gtp() const { return groups_ && groups_->contains("DATA_PARALLEL_GROUP_WITH_GTP_REMAT"); }
    bool is_virtual_stage(const Stage& stage, int wanted) const;
    int in_pipeline(int stage) const;
    int around_pipeline(int by) const;

    int rank_ = 0;
    std::optional<int> world_size_;  // nothing: torch.distributed is not initialised
    std::optional<ProcessGroups> groups_;
    std::optional<int> virtual_rank_, virtual_size_;
    Overrides set_;
};

}  // namespace rankmesh::megatron
