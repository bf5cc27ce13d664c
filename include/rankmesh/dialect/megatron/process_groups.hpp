// SPDX-License-Identifier: Apache-2.0
// The process groups of Megatron-core's initialize_model_parallel: which there are, and what to join with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/megatron/group_list.hpp>
#include <rankmesh/dialect/megatron/rank_generator.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::megatron {

/// The arguments of initialize_model_parallel that determine the groups, in its order.
struct Sizes {
    int tensor_model_parallel_size = 1;
    int pipeline_model_parallel_size = 1;
    std::optional<int> virtual_pipeline_model_parallel_size = {};
    int context_parallel_size = 1;
    std::vector<int> hierarchical_context_parallel_sizes = {};  ///< innermost first; empty: none
    bool hybrid_context_parallel = false;
    int expert_model_parallel_size = 1;
    int gtp_remat_size = 1;
    int expert_gtp_remat_size = 1;
    int num_distributed_optimizer_instances = 1;
    std::optional<int> expert_tensor_parallel_size = {};  ///< tensor_model_parallel_size if unset
    std::string order = "tp-cp-ep-dp-pp";                 ///< innermost first
    std::vector<int> embedding_stages = {0, -1};          ///< what get_embedding_ranks picks of a pipeline
    std::vector<int> position_embedding_stages = {0};     ///< what get_position_embedding_ranks picks
    bool create_gloo_process_groups = true;
    int rank_offset = 0;
    std::optional<int> local_world_size = {};  ///< the ranks from rank_offset on; the whole world if unset
    bool create_all_gather_group = false;      ///< the data and context ranks once more, to gather beside
};

/// All process groups of a world, by the `group_desc` under which the original creates them.
///
/// Law: the groups of every description but the embeddings' cover the ranks and do not overlap.
///
///     megatron::ProcessGroups({}, 8).groups("DATA_PARALLEL_GROUP")[0].back() == 7
class RANKMESH_EXPORT ProcessGroups {
public:
    /// Throws dialect::Error wherever initialize_model_parallel raises, before anything is made, and
    /// dialect::Refusal for sizes below 1, a negative offset or an axis that `order` lists twice.
    ProcessGroups(const Sizes& sizes, int world_size);

    const Sizes& sizes() const { return sizes_; }
    /// The dense layers' grid and the experts', over the same ranks.
    const RankGenerator& decoder_rank_generator() const { return decoder_; }
    const RankGenerator& expert_decoder_rank_generator() const { return expert_; }

    /// Every description, in the order in which the original first uses it.
    std::vector<std::string> descriptions() const;
    bool contains(std::string_view desc) const { return find(desc) != nullptr; }
    /// The groups of a description in the order of their creation; throws dialect::Error for one that these
    /// sizes do not give.
    GroupList groups(std::string_view desc) const;
    /// The group of a rank, ascending; nothing where it has none.
    std::optional<GroupPart> group(std::string_view desc, int rank) const;
    /// How many groups the original creates.
    int new_group_calls() const;

    /// Where a communicator of a description is found: a mesh of the plan, and its axes or its pick.
    struct Location {
        std::string mesh;
        std::vector<std::string> names;
    };
    /// Nothing for groups that no plan can declare: hybrid ones of which the last is shorter.
    std::optional<Location> location(std::string_view desc) const;
    /// The plan to join: a declaration for each mesh that `location` names.
    Plan plan() const;

private:
    struct Kind {
        std::string desc;
        const char* token;
        bool of_experts = false;
        Cut cut = {};
        const std::vector<int> Sizes::*picked = nullptr;
        std::string mesh = {};                // that of the token's generator if unset
        std::vector<std::string> names = {};  // the token's if unset
        AxisSet axes = {};                    // the token's, in the mesh that gives a rank its group
        bool of_instances = false;
    };
    void add_kinds();
    void check(int world_size) const;
    const Kind* find(std::string_view desc) const;
    const Kind& at(std::string_view desc) const;
    const Mesh& mesh_of(const Kind& kind) const {
        return kind.of_instances ? *instances_ : (kind.of_experts ? expert_ : decoder_).mesh();
    }
    Declaration cut(std::string name, std::string_view token, const std::vector<Axis>& parts,
                    std::vector<std::string> axes) const;

    Sizes sizes_;
    RankGenerator decoder_;
    RankGenerator expert_;
    // The experts' mesh with its data axis taken apart into optimizer instances and what is inside one.
    std::optional<Mesh> instances_;
    std::vector<Kind> kinds_;
    bool partial_ = false;
};

/// The plan to join for ParallelState; throws what ProcessGroups throws.
RANKMESH_EXPORT Plan plan(const Sizes& sizes, int world_size);

}  // namespace rankmesh::megatron
