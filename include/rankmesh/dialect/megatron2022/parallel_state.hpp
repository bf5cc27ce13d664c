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
    /// How many groups the original makes: one of each kind for a pipeline, and all the others.
    int count() const { return data().size() + model().size() + tensor().size() + 3 * pipeline().size(); }

    Mesh mesh;  ///< `pp dp tp` over the whole world
    Sizes sizes;
};

/// What the original's module knows in one process, under its names, without starting a process.
///
/// Where the original asserts that something was initialized, these throw dialect::Error in its words.
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

    /// The ranks of this rank's group of each kind, in order.
    Group get_model_parallel_group() const;
    Group get_tensor_model_parallel_group() const;
    Group get_pipeline_model_parallel_group() const;
    Group get_data_parallel_group() const;
    /// The same; throws dialect::Error on the stages that are not in it.
    Group get_embedding_group() const;
    Group get_position_embedding_group() const;

    /// The ranks of this rank's pipeline, data and embedding groups, on every stage; throws dialect::Refusal
    /// after destroy_model_parallel, where the original's lists are stale.
    Group pipeline_global_ranks() const;
    Group data_parallel_global_ranks() const;
    Group embedding_global_ranks() const;
    Group position_embedding_global_ranks() const;

    /// What was set wins over the groups until nothing is set; throws dialect::Refusal for sizes below one.
    void set_tensor_model_parallel_world_size(std::optional<int> world_size);
    void set_pipeline_model_parallel_world_size(std::optional<int> world_size);
    void set_tensor_model_parallel_rank(std::optional<int> rank) { set_tensor_rank_ = rank; }
    void set_pipeline_model_parallel_rank(std::optional<int> rank) { set_pipeline_rank_ = rank; }
    /// Does nothing: the original writes a variable that is never read.
    void set_pipeline_model_parallel_split_rank(std::optional<int>) {}

    int get_tensor_model_parallel_world_size() const;
    int get_pipeline_model_parallel_world_size() const;
    int get_data_parallel_world_size() const { return get_data_parallel_group().size(); }
    int get_tensor_model_parallel_rank() const;
    int get_pipeline_model_parallel_rank() const;
    int get_data_parallel_rank() const { return *get_data_parallel_group().group_rank(rank_); }

    /// The first rank of as many contiguous ones as the tensor model parallel size says.
    int get_tensor_model_parallel_src_rank() const;
    int get_data_parallel_src_rank() const { return data_parallel_global_ranks().front(); }
    int get_pipeline_model_parallel_first_rank() const { return pipeline_global_ranks().front(); }
    /// The ranks on the last, next and previous stage, by the pipeline's size and this rank's stage as set;
    /// next and previous wrap.
    int get_pipeline_model_parallel_last_rank() const;
    int get_pipeline_model_parallel_next_rank() const { return stage_after(+1); }
    int get_pipeline_model_parallel_prev_rank() const { return stage_after(-1); }

    /// True on the first stage of the pipeline and, unless ignored, at the first virtual stage.
    bool is_pipeline_first_stage(bool ignore_virtual = false) const;
    /// True on the last stage of the pipeline and, unless ignored, at the last virtual stage.
    bool is_pipeline_last_stage(bool ignore_virtual = false) const;
    /// True for a member; the first and last must, unless ignored, be at the first and last virtual stage.
    bool is_rank_in_embedding_group(bool ignore_virtual = false) const;
    bool is_rank_in_position_embedding_group() const;

    /// True if a stage, this rank's if not given, is before the split, or there is no split.
    bool is_pipeline_stage_before_split(std::optional<int> rank = {}) const;
    /// True if a stage is not before the split, or there is no split.
    bool is_pipeline_stage_after_split(std::optional<int> rank = {}) const;
    /// True if this stage is before the split and the next one after it.
    bool is_pipeline_stage_at_split() const;
    /// The split that these go by, as it was given; throws dialect::Refusal for one that is left over from
    /// before destroy_model_parallel.
    std::optional<int> pipeline_model_parallel_split_rank() const;

    std::optional<int> get_virtual_pipeline_model_parallel_rank() const { return virtual_rank_; }
    void set_virtual_pipeline_model_parallel_rank(std::optional<int> rank) { virtual_rank_ = rank; }
    std::optional<int> get_virtual_pipeline_model_parallel_world_size() const { return virtual_size_; }

protected:
    /// All groups; throws dialect::Error that `what` is not initialized.
    const Groups& groups(std::string_view what) const;

private:
    const Groups& listed(std::string_view what) const;
    Group members(const Group& group, std::string_view what) const;
    int stage_after(int by) const;
    bool before_split(std::int64_t stage) const;
    bool after_split(std::int64_t stage) const;

    int rank_ = 0;
    int world_size_ = 0;  // 0: in no world
    std::optional<Groups> groups_;
    bool destroyed_ = false;  // there were groups, and there are none
    std::optional<int> split_;
    std::optional<int> virtual_rank_, virtual_size_;
    std::optional<int> set_tensor_size_, set_pipeline_size_, set_tensor_rank_, set_pipeline_rank_;
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

    Communicator& get_model_parallel_group();
    Communicator& get_tensor_model_parallel_group();
    Communicator& get_pipeline_model_parallel_group();
    Communicator& get_data_parallel_group();
    /// Throws dialect::Error on the stages that are not in it.
    Communicator& get_embedding_group();
    Communicator& get_position_embedding_group();

private:
    struct Live {
        Communicator model, tensor, pipeline, data;
        std::optional<Communicator> embedding, position_embedding;
    };
    std::optional<Live> live_;
};

/// The original's own way to make it; what it leaves in global variables is the caller's object.
RANKMESH_EXPORT ParallelState initialize_model_parallel(const Member& member, const Sizes& sizes);

}  // namespace rankmesh::megatron2022
