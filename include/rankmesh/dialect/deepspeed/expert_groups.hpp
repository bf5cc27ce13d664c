// SPDX-License-Identifier: Apache-2.0
// The groups that DeepSpeed's utils/groups.py makes, as rules: which ranks are together, in which order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/dialect/group_list.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::deepspeed {

/// The expert and the expert-data groups of one expert size, listed in the original's order.
///
/// Ranks are those of blocks (pipeline stages, or tensor lanes of stages), each in an order of its own, in
/// which every rank has an index among the experts and one among their replicas.
///
/// Law: both kinds of groups partition the world, and share one rank or none.
class RANKMESH_EXPORT ExpertGroups {
public:
    int world_size() const { return world_size_; }
    int expert_parallel_size() const { return expert_; }
    int expert_data_parallel_size() const { return data_; }
    /// How many tensor ranks have their own expert groups; nothing without an mpu.
    std::optional<int> expert_tensor_parallel_size() const {
        return lanes_apart_ ? std::optional(lanes_) : std::nullopt;
    }
    /// `ep_size_4`.
    std::string group_name() const;

    /// All groups of a kind.
    dialect::GroupList expert_parallel() const { return dialect::GroupList(blocks(), expert_cut()); }
    dialect::GroupList expert_data_parallel() const { return dialect::GroupList(blocks(), data_cut()); }
    /// The group of `rank`.
    dialect::GroupPart expert_parallel_of(int rank) const { return part(rank, expert_cut()); }
    dialect::GroupPart expert_data_parallel_of(int rank) const { return part(rank, data_cut()); }
    /// The group rank of `rank`, and the group's lowest rank: torch sorts ranks.
    int expert_parallel_rank(int rank) const { return sorted_position(rank, expert_parallel_of(rank)); }
    int expert_data_parallel_rank(int rank) const {
        return sorted_position(rank, expert_data_parallel_of(rank));
    }
    int expert_data_parallel_first(int rank) const;
    /// All groups in the order in which the original makes them.
    std::vector<dialect::GroupList> new_groups() const;

    /// What to declare for them: axes `expert` and `expert_data`, each rank's group sorted as torch sorts.
    Plan plan() const;

private:
    friend ExpertGroups _create_expert_and_data_parallel(int, int, std::optional<int>, std::optional<int>,
                                                         std::string_view, bool);
    friend ExpertGroups _get_expert_parallel_ranks(int, int, int, int, bool);
    enum class Making { data_first, expert_first, by_stage };
    ExpertGroups() = default;

    Partition blocks() const;
    dialect::Cut expert_cut() const { return {expert_, data_inner_ ? data_ : 1}; }
    dialect::Cut data_cut() const { return {data_, data_inner_ ? 1 : expert_}; }
    dialect::GroupPart part(int rank, dialect::Cut cut) const;
    bool rises() const { return lanes_apart_ || lanes_ == 1; }  ///< every group's ranks, as torch sorts them
    int sorted_position(int rank, const dialect::GroupPart& group) const;

    int world_size_ = 1;
    int stage_ = 1;             // ranks of a pipeline stage
    int lanes_ = 1;             // tensor ranks, the fastest
    bool lanes_apart_ = false;  // each lane is a block; else a block is a stage, lane after lane
    int expert_ = 1;            // ranks of an expert group
    int data_ = 1;              // ranks of an expert-data group
    bool data_inner_ = false;   // replicas are next to each other, as D+E has them
    Making making_ = Making::expert_first;
};

/// Expert groups of stages cut into tensor lanes: E+D, or D+E with `use_data_before_expert_parallel_`.
///
/// Throws dialect::Error where a size does not divide, dialect::Refusal for one below 1 ("sizes-below-one").
///
///     deepspeed::_get_expert_parallel_ranks(16, 2, 4).expert_parallel()[2].back() == 7
RANKMESH_EXPORT ExpertGroups _get_expert_parallel_ranks(int world_size, int tensor_parallel_size_,
                                                        int expert_parallel_size_,
                                                        int pipeline_parallel_size_ = 1,
                                                        bool use_data_before_expert_parallel_ = false);

/// Expert groups of stages that are not cut: with `mp_size` above 1 and `mp_mode` "tp" one lane's ranks after
/// the other's, else as they are.
///
/// Throws dialect::Error where a size does not divide or D+E is asked with `mp_size` above 1,
/// dialect::Refusal for sizes below 1 ("sizes-below-one") and where stages or lanes do not divide
/// ("ranks-left-out").
RANKMESH_EXPORT ExpertGroups _create_expert_and_data_parallel(int world_size, int expert_parallel_size_,
                                                              std::optional<int> mp_size = {},
                                                              std::optional<int> pp_size = {},
                                                              std::string_view mp_mode = "tp",
                                                              bool use_data_before_expert_parallel_ = false);

/// The result of `_get_expert_parallel_ranks` for a client's mpu of these sizes.
inline ExpertGroups _create_expert_data_and_model_parallel(int world_size, int expert_parallel_size_,
                                                           int tensor_parallel_size_,
                                                           int pipeline_parallel_size_ = 1,
                                                           bool use_data_before_expert_parallel_ = false) {
    return _get_expert_parallel_ranks(world_size, tensor_parallel_size_, expert_parallel_size_,
                                      pipeline_parallel_size_, use_data_before_expert_parallel_);
}

/// `data_parallel tensor_parallel`: the original makes the data groups first.
///
/// Throws dialect::Error for a size above the world's, dialect::Refusal for one below 1 and for sizes that
/// leave ranks out ("ranks-left-out").
RANKMESH_EXPORT Mesh _init_tp_mesh_device(int world_size, int tensor_model_parallel_size = 1,
                                          std::optional<int> data_parallel_size = {});
/// The same, where a size above the world's counts as the world's and one that does not divide is an Error.
RANKMESH_EXPORT Mesh _create_model_parallel(int world_size, int model_parallel_size_);

/// `data_parallel sequence_parallel`: what `mesh_device` is with Ulysses' sequence parallelism.
RANKMESH_EXPORT Mesh sequence_parallel_mesh(int world_size, int sequence_parallel_size);

/// The same for `parallel_state_sp`, whose sequence-data group is the whole world.
///
/// Throws dialect::Error where the size does not divide the world, and for a size below 2.
RANKMESH_EXPORT Mesh initialize_sequence_parallel(int world_size, int sequence_parallel_size);

/// `zero_param_inter zero_param_intra`: hpZ's groups are along the second, of at most the world's size.
RANKMESH_EXPORT Mesh _create_zero_param_parallel_group(int world_size, int group_size);

/// `global local`: the all-to-all groups, `local_<node>` along the second and, with several nodes,
/// `global_<device>` along the first.
///
/// Throws dialect::Error for one node that is not full, dialect::Refusal for several of which the last is not
/// ("ranks-left-out").
RANKMESH_EXPORT Mesh _get_local_all_to_all_group(int world_size, int device_per_node);
/// The names of these groups in the original's order.
RANKMESH_EXPORT std::vector<std::string> all_to_all_names(const Mesh& all_to_all);

}  // namespace rankmesh::deepspeed
