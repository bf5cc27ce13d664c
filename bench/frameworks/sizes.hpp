// SPDX-License-Identifier: Apache-2.0
// The worlds that the benchmarks of frameworks ask about, in the words of each.
#pragma once

#include <rankmesh/frameworks/megatron.hpp>
#include <rankmesh/frameworks/olmo.hpp>
#include <rankmesh/frameworks/topology.hpp>

namespace rankmesh::bench {

/// Both worlds are cut on every axis, the large one into more.
struct Sizes {
    int world, tp, cp, pp, dp;
};
constexpr auto small = Sizes{64, 2, 2, 4, 4};
constexpr auto large = Sizes{65536, 8, 8, 16, 64};

inline olmo::Settings olmo_settings(const Sizes& s) {
    return {
        .dp_type = "hsdp", .num_replicas = s.dp / 2, .shard_degree = {}, .tp = s.tp, .cp = s.cp, .pp = s.pp};
}

inline megatron::Settings megatron_sizes(const Sizes& s) {
    return {.tensor_model_parallel_size = s.tp,
            .pipeline_model_parallel_size = s.pp,
            .context_parallel_size = s.cp,
            .expert_model_parallel_size = s.cp,
            .num_distributed_optimizer_instances = 2};
}

inline deepspeed::PipeModelDataParallelTopology deepspeed_topology(const Sizes& s) {
    return {s.pp, s.tp, s.dp * s.cp};
}

inline areal::PipeDataTensorParallelTopology areal_topology(const Sizes& s) {
    return {s.pp, s.tp, s.dp * s.cp, true, false, false};
}

}  // namespace rankmesh::bench
