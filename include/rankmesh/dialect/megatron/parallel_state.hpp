// SPDX-License-Identifier: Apache-2.0
// Megatron-core's parallel_state: the groups of one rank, as ranks and as communicators.
#pragma once

#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/megatron/parallel_ranks.hpp>
#include <rankmesh/engine/member.hpp>

namespace rankmesh::megatron {

/// The getters of groups, which give a `Handle`: ranks without a process, communicators with one.
///
/// Every getter throws dialect::Error, in the original's words, where this rank has no such group; `find`
/// gives nothing instead.
template <class Handle>
class ParallelGroups : public ParallelRanks {
public:
    /// This rank's group of a description; nothing where it has none.
    std::optional<Handle> group(std::string_view desc) const {
        return find(desc) ? std::optional(handle({desc, {}})) : std::nullopt;
    }

#define RANKMESH_GROUP(name, ...) \
    Handle get_##name##_group() const { return handle(name); }
    RANKMESH_MEGATRON_GROUPS(RANKMESH_GROUP)
#undef RANKMESH_GROUP
    Handle get_data_parallel_group(DataParallel which = {}) const { return handle(data_parallel(which)); }
    /// The same on the host; throws dialect::Error if `create_gloo_process_groups` is false.
    Handle get_data_parallel_group_gloo(DataParallel which = {}) const {
        return handle(data_parallel_gloo(which));
    }
    /// One group a level, innermost first.
    std::vector<Handle> get_hierarchical_context_parallel_groups() const {
        auto groups = std::vector<Handle>{};
        for (const auto& desc : hierarchical()) groups.push_back(handle({desc, "no such level"}));
        return groups;
    }
    /// The group of `group_size` consecutive data and context parallel ranks.
    Handle get_hybrid_data_context_parallel_groups(int group_size) const {
        const auto desc = hybrid(group_size);
        return handle({desc, "hybrid context parallel groups are not initialized"});
    }
    /// Those who agree on a largest value: tensor with data or context parallel ranks.
    Handle get_amax_reduction_group(bool with_context_parallel = false, bool tp_only_amax_red = false) const {
        return handle(amax_reduction(with_context_parallel, tp_only_amax_red));
    }
    Handle get_tensor_and_data_parallel_group(bool with_context_parallel = false) const {
        return handle(tensor_and_data(with_context_parallel));
    }
    Handle get_expert_tensor_model_pipeline_parallel_group(bool with_egtp_remat = false) const {
        return handle(expert_tensor_model_pipeline(with_egtp_remat));
    }
    Handle get_expert_data_parallel_group(ExpertDataParallel which = {}) const {
        return handle(expert_data_parallel(which));
    }
    /// The same on the host; throws dialect::Error if `create_gloo_process_groups` is false.
    Handle get_expert_data_parallel_group_gloo(ExpertDataParallel which = {}) const {
        return handle(expert_data_parallel_gloo(which));
    }
    Handle get_data_modulo_expert_parallel_group(ExpertDataParallel which = {}) const {
        return get_expert_data_parallel_group(which);
    }

protected:
    using ParallelRanks::ParallelRanks;
    ~ParallelGroups() = default;

private:
    virtual Handle handle(const Named& named) const = 0;
};

/// The parallel state of any rank, without a process.
///
///     megatron::State({.tensor_model_parallel_size = 2}, 3, 8).get_data_parallel_group().front() == 1
class State final : public ParallelGroups<GroupPart> {
public:
    /// As before torch.distributed is initialised: no world is known.
    State() = default;
    /// As before the groups are made.
    State(int rank, int world_size) : ParallelGroups(rank, world_size) {}

    /// As after the groups are made; throws what ProcessGroups throws.
    State(const Sizes& sizes, int rank, int world_size) : State(rank, world_size) { initialize(sizes); }

    /// Throws dialect::Error without a world or where groups were made already, and what ProcessGroups
    /// throws; then nothing has changed.
    void initialize_model_parallel(const Sizes& sizes) { initialize(sizes); }
    /// Everything but rank and world is as before.
    void destroy_model_parallel() { destroy(); }

private:
    GroupPart handle(const Named& named) const override { return ranks(named); }
};

/// The same, live: with communicators under the same names.
///
///     void step(Member& me, const megatron::Sizes& sizes, std::vector<float>& gradients) {
///         auto mpu = megatron::ParallelState(me, sizes);
///         mpu.get_data_parallel_group().all_reduce(gradients);
///     }
class RANKMESH_EXPORT ParallelState final : public ParallelGroups<Communicator> {
public:
    /// Throws UsageError for a member that was not joined with `plan(sizes, world_size)`.
    ParallelState(const Member& member, const Sizes& sizes);

private:
    Communicator handle(const Named& named) const override;

    std::vector<std::pair<std::string, Member>> places_;  // by mesh
};

}  // namespace rankmesh::megatron
