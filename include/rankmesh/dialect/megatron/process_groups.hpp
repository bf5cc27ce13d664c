// SPDX-License-Identifier: Apache-2.0
// The process groups of Megatron-core's initialize_model_parallel: which there are, and what to join with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/group_list.hpp>
#include <rankmesh/dialect/megatron/rank_generator.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::megatron {

using dialect::Cut;
using dialect::GroupList;
using dialect::GroupPart;

/// SIZE(type, name, default): the arguments of initialize_model_parallel that determine the groups, in its
/// order.
///
/// `order` and hierarchical_context_parallel_sizes are innermost first; expert_tensor_parallel_size is
/// tensor_model_parallel_size if unset. The stages are what get_embedding_ranks and
/// get_position_embedding_ranks pick of a pipeline. local_world_size is the number of ranks from rank_offset
/// on, the whole world if unset; create_all_gather_group has the data and context ranks once more, to gather
/// beside.
#define RANKMESH_MEGATRON_SIZES(SIZE)                                  \
    SIZE(int, tensor_model_parallel_size, 1)                           \
    SIZE(int, pipeline_model_parallel_size, 1)                         \
    SIZE(std::optional<int>, virtual_pipeline_model_parallel_size, {}) \
    SIZE(int, context_parallel_size, 1)                                \
    SIZE(std::vector<int>, hierarchical_context_parallel_sizes, {})    \
    SIZE(bool, hybrid_context_parallel, false)                         \
    SIZE(int, expert_model_parallel_size, 1)                           \
    SIZE(int, gtp_remat_size, 1)                                       \
    SIZE(int, expert_gtp_remat_size, 1)                                \
    SIZE(int, num_distributed_optimizer_instances, 1)                  \
    SIZE(std::optional<int>, expert_tensor_parallel_size, {})          \
    SIZE(std::string, order, "tp-cp-ep-dp-pp")                         \
    SIZE(std::vector<int>, embedding_stages, {0, -1})                  \
    SIZE(std::vector<int>, position_embedding_stages, {0})             \
    SIZE(bool, create_gloo_process_groups, true)                       \
    SIZE(int, rank_offset, 0)                                          \
    SIZE(std::optional<int>, local_world_size, {})                     \
    SIZE(bool, create_all_gather_group, false)

struct Sizes {
#define RANKMESH_SIZE(type, name, ...) type name = __VA_ARGS__;
    RANKMESH_MEGATRON_SIZES(RANKMESH_SIZE)
#undef RANKMESH_SIZE
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
    /// A part's axis and size, outermost first.
    using Split = std::pair<std::string, int>;
    struct Kind {
        std::string desc;
        std::string_view token;  // along which the groups are
        bool of_experts = false;
        bool on_host = false;
        bool of_instances = false;
        bool is_declared = true;  // not where the last of hybrid groups is shorter
        const std::vector<int> Sizes::*picked = nullptr;
        std::string mesh;          // of the plan
        std::string name;          // of the pick, the channel or the part there; else the token's axes
        std::vector<Split> parts;  // what the groups are cut into, of which `name` is one
        Cut cut;                   // that one
        AxisSet axes;              // in the mesh that gives a rank its group
    };
    void add_kinds();
    void check(int world_size) const;
    const Kind* find(std::string_view desc) const;
    const Kind& at(std::string_view desc) const;
    const Mesh& mesh_of(const Kind& kind) const {
        return kind.of_instances ? *instances_ : (kind.of_experts ? expert_ : decoder_).mesh();
    }
    Declaration cut(const Kind& kind) const;

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

/// The section of each description's options in the file that `nccl_communicator_config_path` names, empty
/// for groups on the host. Kinds that are numbered have the description before the number.
RANKMESH_EXPORT std::vector<std::pair<std::string_view, std::string_view>> nccl_sections();

}  // namespace rankmesh::megatron
