// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's ProcessTopology: named axes over ranks, row-major, the last fastest.
#pragma once

#include <rankmesh/dialect/topology.hpp>

namespace rankmesh::deepspeed {

using dialect::ProcessTopology, dialect::_prime_factors;

/// Data parallelism innermost.
struct PipeDataParallelTopology : ProcessTopology {
    PipeDataParallelTopology(int num_pp, int num_dp) : ProcessTopology({"pipe", "data"}, {num_pp, num_dp}) {}
};

/// Tensor slicing innermost.
struct PipeModelDataParallelTopology : ProcessTopology {
    PipeModelDataParallelTopology(int num_pp, int num_mp, int num_dp)
        : ProcessTopology({"pipe", "data", "model"}, {num_pp, num_dp, num_mp}) {}
};

}  // namespace rankmesh::deepspeed
