// SPDX-License-Identifier: Apache-2.0
// ProcessTopology and the grid over it, which DeepSpeed and AReaL have: named axes over ranks, row-major.
#pragma once

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh::frameworks {

/// Where AReaL's topology says something else than DeepSpeed's.
struct TopologyStyle {
    std::string_view coord = "ProcessCoord";  ///< what a coordinate is called in texts
    bool world_digits = false;  ///< indices are padded to the digits of the world's size, else to two
};

/// The ranks of a job on named axes, outermost first; every question is answered by arithmetic.
///
///     frameworks::ProcessTopology({"pipe", "data"}, {2, 4}).get_rank({{"pipe", 1}, {"data", 2}}) == 6
class RANKMESH_EXPORT ProcessTopology {
public:
    /// Throws frameworks::Error for names that Python refuses and for fewer dims than axes;
    /// frameworks::Refusal for dims below 1 ("sizes-below-one") and for more dims than axes
    /// ("ranks-overwritten").
    ProcessTopology(std::vector<std::string> axes, std::vector<int> dims, TopologyStyle style = {});

    const std::vector<std::string>& axes() const { return axes_; }
    const std::vector<int>& dims() const { return dims_; }
    const std::vector<std::string>& get_axis_names() const { return axes_; }
    int world_size() const { return mesh_.size(); }
    /// The size of an axis; 0 where there is none of that name.
    int get_dim(std::string_view axis) const;

    /// The rank at a coordinate of all axes, named in any order.
    int get_rank(const Coordinate& coord) const;
    /// The coordinate of a rank, as `coord["pipe"]`.
    Coordinate get_coord(int rank) const;
    /// `model_01`: the rank's place on all axes but those left out, for the names of files.
    std::string get_rank_repr(int rank, const std::vector<std::string>& omit_axes = {"data", "pipe"},
                              std::string_view inner_sep = "_", std::string_view outer_sep = "-") const;

    /// The groups along an axis, by their first ranks; nothing where there is none of that name.
    std::optional<Partition> get_axis_comm_lists(std::string_view axis) const;
    /// The ranks, rising, at index `idx` of an axis; nothing where the axis does not reach that far.
    std::optional<Group> get_axis_list(std::string_view axis, int idx) const;
    /// The ranks, rising, at these indices of some axes, nothing where there are none; as in the original an
    /// index that does not exist ends the search before a later name is looked at.
    std::optional<Group> filter_match(const Coordinate& filter) const;

    /// The rank at another stage, with the index of `rank` on all other axes but those of `kwargs`.
    int stage_to_global(int rank, int stage_id, const Coordinate& kwargs = Coordinate({})) const;

    /// Python's text of the whole mapping: one entry a rank.
    std::string str() const;
    /// The axes as a mesh; without axes `world=1`.
    const Mesh& mesh() const { return mesh_; }

    /// True for the same sizes in the same order, whatever the axes are called.
    friend bool operator==(const ProcessTopology& a, const ProcessTopology& b) {
        return std::ranges::equal(a.sizes(), b.sizes());
    }

private:
    int find(std::string_view axis) const;
    std::span<const int> sizes() const { return std::span(dims_).first(axes_.size()); }

    std::vector<std::string> axes_;
    std::vector<int> dims_;
    TopologyStyle style_;
    Mesh mesh_;
};

/// The prime factors of a positive number, rising.
///
///     frameworks::_prime_factors(12) == std::vector{2, 2, 3}
RANKMESH_EXPORT std::vector<int> _prime_factors(int N);

}  // namespace rankmesh::frameworks

namespace rankmesh::deepspeed {

using frameworks::ProcessTopology, frameworks::_prime_factors;

/// Data parallelism innermost.
struct PipeDataParallelTopology : ProcessTopology {
    PipeDataParallelTopology(int num_pp, int num_dp) : ProcessTopology({"pipe", "data"}, {num_pp, num_dp}) {}
};

/// Tensor slicing innermost.
struct PipeModelDataParallelTopology : ProcessTopology {
    PipeModelDataParallelTopology(int num_pp, int num_mp, int num_dp)
        : ProcessTopology({"pipe", "data", "model"}, {num_pp, num_dp, num_mp}) {}
};

/// The topology that DeepSpeed takes where none is given: the world's prime factors, rising, dealt to pipe
/// and data in turn.
///
///     deepspeed::default_topology(12).mesh() == Mesh{{"pipe", 6}, {"data", 2}}
RANKMESH_EXPORT ProcessTopology default_topology(int world_size);

}  // namespace rankmesh::deepspeed

namespace rankmesh::areal {

/// pipe, data, tensor (training) or data, pipe, tensor (inference), outermost first. `axes()` and `dims()`
/// are settings of the grid.
class RANKMESH_EXPORT ProcessTopology : public frameworks::ProcessTopology {
public:
    /// Throws frameworks::Error for other axes, else what DeepSpeed's topology throws.
    ProcessTopology(const std::vector<std::string>& axes, const std::vector<int>& dims);

    /// `ProcessTopology(axes=['pipe', 'data', 'tensor'], dims=[2, 2, 2])`.
    std::string repr() const;
};

/// What a model trains on.
struct PipeDataTensorParallelTopology : ProcessTopology {
    PipeDataTensorParallelTopology(int num_pp, int num_tp, int num_dp, bool sequence, bool checkpointing,
                                   bool fusion, std::optional<int> prompt_len = {})
        : ProcessTopology({"pipe", "data", "tensor"}, {num_pp, num_dp, num_tp}),
          sequence_parallel(sequence),
          gradient_checkpointing(checkpointing),
          gradient_accumulation_fusion(fusion),
          max_prompt_len(prompt_len) {}

    bool sequence_parallel, gradient_checkpointing, gradient_accumulation_fusion;
    std::optional<int> max_prompt_len;
};

/// What a model generates on.
struct DataPipeTensorParallelTopology : ProcessTopology {
    DataPipeTensorParallelTopology(int num_pp, int num_tp, int num_dp, bool sequence,
                                   std::optional<int> prompt_len = {})
        : ProcessTopology({"data", "pipe", "tensor"}, {num_dp, num_pp, num_tp}),
          sequence_parallel(sequence),
          max_prompt_len(prompt_len) {}

    bool sequence_parallel;
    std::optional<int> max_prompt_len;
};

/// Every ordered triple of positive numbers whose product is n, each once; none for 0.
///
///     areal::decompose_to_three_factors(4).size() == 6
RANKMESH_EXPORT std::vector<std::array<int, 3>> decompose_to_three_factors(int n);

using frameworks::_prime_factors;

}  // namespace rankmesh::areal
