// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's utils/groups.py: which ranks are together, in which order, and an object with what the original
// keeps in global variables.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/dialect/group_list.hpp>
#include <rankmesh/engine/member.hpp>
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
    int expert_parallel_size() const { return expert_.size; }
    int expert_data_parallel_size() const { return data_.size; }
    /// How many tensor ranks have their own expert groups; nothing without an mpu.
    std::optional<int> expert_tensor_parallel_size() const {
        return lanes_apart_ ? std::optional(lanes_) : std::nullopt;
    }
    /// `ep_size_4`.
    std::string group_name() const;

    /// All groups of a kind.
    dialect::GroupList expert_parallel() const { return dialect::GroupList(blocks(), expert_); }
    dialect::GroupList expert_data_parallel() const { return dialect::GroupList(blocks(), data_); }
    /// The group of `rank`.
    dialect::GroupPart expert_parallel_of(int rank) const { return part(rank, expert_); }
    dialect::GroupPart expert_data_parallel_of(int rank) const { return part(rank, data_); }
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
    ExpertGroups(int world_size, int stage, int expert, int data, bool data_first)
        : world_size_(world_size),
          stage_(stage),
          expert_{expert, data_first ? data : 1},
          data_{data, data_first ? 1 : expert} {}

    Partition blocks() const;
    dialect::GroupPart part(int rank, dialect::Cut cut) const;
    bool rises() const { return lanes_apart_ || lanes_ == 1; }  ///< every group's ranks, as torch sorts them
    int sorted_position(int rank, const dialect::GroupPart& group) const;

    int world_size_;
    int stage_;                   // ranks of a pipeline stage
    dialect::Cut expert_, data_;  // how a block is cut; as D+E has them replicas are next to each other
    int lanes_ = 1;               // tensor ranks, the fastest
    bool lanes_apart_ = false;    // each lane is a block; else a block is a stage, lane after lane
    bool by_stage_ = false;       // the original makes both kinds of a stage before those of the next
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
/// Throws dialect::Error if the only node is not full, and dialect::Refusal ("ranks-left-out") if there are
/// several nodes and the last one is not full.
RANKMESH_EXPORT Mesh _get_local_all_to_all_group(int world_size, int device_per_node);
/// The names of these groups in the original's order.
RANKMESH_EXPORT std::vector<std::string> all_to_all_names(const Mesh& all_to_all);

/// What a job makes of groups.py; a size of 1 makes groups of one rank, which cost nothing.
struct GroupSizes {
    int world_size = 1;
    int tensor_parallel_size = 1;
    int sequence_parallel_size = 1;
    int zero_hpz_partition_size = 1;
    int device_per_node = 1;
    std::vector<ExpertGroups> expert = {};  ///< of different expert sizes
};

/// The plan to join for Groups.
RANKMESH_EXPORT Plan plan(const GroupSizes& sizes);

/// What groups.py knows of one rank, under its names, without starting a process.
class RANKMESH_EXPORT GroupsRankInfo {
public:
    /// Throws dialect::Error for sizes that do not divide the world, a rank outside it, or one expert size
    /// twice.
    GroupsRankInfo(const GroupSizes& sizes, int rank);

    /// Tensor parallelism; what is set wins until nothing is set.
    void set_tensor_model_parallel_world_size(std::optional<int> world_size);
    void set_tensor_model_parallel_rank(std::optional<int> rank) { tensor_rank_ = rank; }
    int get_tensor_model_parallel_world_size() const {
        return tensor_size_.value_or(tensor_.size("tensor_parallel"));
    }
    int get_tensor_model_parallel_rank() const {
        return tensor_rank_.value_or(tensor_.index(rank_, "tensor_parallel"));
    }
    int get_tensor_model_parallel_src_rank() const {
        return rank_ - rank_ % get_tensor_model_parallel_world_size();
    }
    int get_model_parallel_world_size() const { return get_tensor_model_parallel_world_size(); }
    int get_model_parallel_rank() const { return get_tensor_model_parallel_rank(); }
    int get_data_parallel_world_size() const { return tensor_.size("data_parallel"); }
    int get_data_parallel_rank() const { return tensor_.index(rank_, "data_parallel"); }

    /// Experts, by the name of their size, `ep_size_4`; throw dialect::Error for one that was not made.
    using Name = std::string_view;
    std::optional<int> _get_max_expert_size() const;
    std::string _get_max_expert_size_name() const;
    dialect::GroupPart _get_expert_parallel_group_ranks(Name name) const {
        return expert(name).expert_parallel_of(rank_);
    }
    dialect::GroupPart _get_expert_data_parallel_group_ranks(Name name) const {
        return expert_data(name).expert_data_parallel_of(rank_);
    }
    int _get_expert_parallel_world_size(Name name) const { return expert(name).expert_parallel_size(); }
    int _get_expert_data_parallel_world_size(Name name) const {
        return expert_data(name).expert_data_parallel_size();
    }
    int _get_expert_parallel_rank(Name name) const { return expert(name).expert_parallel_rank(rank_); }
    int _get_expert_data_parallel_rank(Name name) const {
        return expert_data(name).expert_data_parallel_rank(rank_);
    }
    /// (rank // size) * size; throws dialect::Refusal for a group whose ranks are not adjacent, which lacks it.
    int _get_expert_parallel_src_rank(Name name) const;
    int _get_expert_broadcast_src_rank(Name name) const {
        return expert_data(name).expert_data_parallel_first(rank_);
    }
    /// How many tensor ranks have their own expert groups, in the groups that were made last with an mpu.
    int _get_expert_model_parallel_world_size() const;

    /// Data and sequence parallelism without an mpu.
    Group _get_data_parallel_group_ranks() const { return sequence_.group(rank_, "data_parallel"); }
    int _get_broadcast_src_rank() const { return sequence_.group(rank_, "data_parallel").front(); }
    int _get_data_parallel_world_size() const { return sequence_.size("data_parallel"); }
    int _get_model_parallel_world_size() const { return 1; }
    int _get_data_parallel_rank() const { return sequence_.index(rank_, "data_parallel"); }
    int _get_sequence_parallel_world_size() const { return sequence_.size("sequence_parallel"); }
    int _get_sequence_parallel_rank() const { return sequence_.index(rank_, "sequence_parallel"); }
    int _get_sequence_data_parallel_world_size() const { return _get_data_parallel_world_size(); }
    int _get_sequence_data_parallel_rank() const { return _get_data_parallel_rank(); }

    /// ZeRO++'s partitions inside a group (hpZ).
    Group _get_zero_param_intra_parallel_group_ranks() const {
        return zero_.group(rank_, "zero_param_intra");
    }
    int _get_zero_param_intra_parallel_group_world_size() const { return zero_.size("zero_param_intra"); }
    int _get_zero_param_intra_parallel_rank_in_mygroup() const {
        return zero_.index(rank_, "zero_param_intra");
    }

protected:
    const ExpertGroups& expert(Name name, const char* kind = "expert") const;
    const ExpertGroups& expert_data(Name name) const { return expert(name, "expert data"); }

    int rank_;
    std::vector<ExpertGroups> experts_;
    Mesh tensor_, sequence_, zero_, all_to_all_;
    std::optional<int> tensor_size_, tensor_rank_;
};

/// The same, live: with its communicators.
///
/// Throws UsageError for a member whose plan lacks one of them, or has a mesh of other sizes; `plan` has all.
class RANKMESH_EXPORT Groups : public GroupsRankInfo {
public:
    Groups(const Member& member, const GroupSizes& sizes);

    Communicator& get_tensor_model_parallel_group() { return tensor_group_; }
    Communicator& get_model_parallel_group() { return tensor_group_; }
    Communicator& get_data_parallel_group() { return data_group_; }

    /// Of one expert size, and of the largest; throw dialect::Error for a name that was not made.
    Communicator& _get_expert_parallel_group(Name name) {
        static_cast<void>(expert(name));  // throws
        return expert_.find(name)->second;
    }
    Communicator& _get_expert_data_parallel_group(Name name) {
        static_cast<void>(expert_data(name));
        return data_.find(name)->second;
    }
    Communicator& _get_max_expert_parallel_group() {
        return _get_expert_parallel_group(_get_max_expert_size_name());
    }
    using ByName = std::map<std::string, Communicator, std::less<>>;
    ByName& _get_expert_parallel_group_dict() { return expert_; }
    ByName& _get_expert_data_parallel_group_dict() { return data_; }

    Communicator& _clone_world_group() { return world_group_; }
    Communicator& _get_data_parallel_group() { return sequence_data_group_; }
    Communicator& _get_sequence_parallel_group() { return sequence_group_; }
    Communicator& _get_sequence_data_parallel_group() { return sequence_data_group_; }
    Communicator& _get_zero_param_intra_parallel_group() { return zero_group_; }
    /// This rank's all-to-all groups by name: `local_<node>` and, with several nodes, `global_<device>`.
    ByName& _get_local_all_to_all_group() { return all_to_all_group_; }

private:
    Communicator tensor_group_, data_group_, world_group_, sequence_data_group_, sequence_group_, zero_group_;
    ByName expert_, data_, all_to_all_group_;
};

}  // namespace rankmesh::deepspeed
