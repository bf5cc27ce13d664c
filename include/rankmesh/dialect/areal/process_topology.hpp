// SPDX-License-Identifier: Apache-2.0
// AReaL's ProcessTopology: DeepSpeed's, with two orders of three axes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/topology.hpp>

namespace rankmesh::areal {

/// pipe, data, tensor (training) or data, pipe, tensor (inference), outermost first.
class RANKMESH_EXPORT ProcessTopology : public dialect::ProcessTopology {
public:
    /// Throws dialect::Error for other axes, else what DeepSpeed's topology throws.
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

using dialect::_prime_factors;

}  // namespace rankmesh::areal
