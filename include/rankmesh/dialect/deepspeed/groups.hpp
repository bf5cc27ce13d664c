// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's utils/groups.py as an object: what the original keeps in global variables is a member here.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/deepspeed/expert_groups.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::deepspeed {

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
        return first_of_adjacent(get_tensor_model_parallel_world_size());
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
    /// The original's number, (rank // size) * size, which is in the group only where its ranks are adjacent.
    int _get_expert_parallel_src_rank(Name name) const {
        return first_of_adjacent(_get_expert_parallel_world_size(name));
    }
    int _get_expert_broadcast_src_rank(Name name) const {
        return expert_data(name).expert_data_parallel_first(rank_);
    }
    /// How many tensor ranks have their own expert groups, in the groups that were made last with an mpu.
    int _get_expert_model_parallel_world_size() const;

    /// Data and sequence parallelism without an mpu.
    Group _get_data_parallel_group_ranks() const { return sequence_.ranks(); }
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
    int first_of_adjacent(int size) const { return rank_ / size * size; }

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
