// SPDX-License-Identifier: Apache-2.0
// A layout: the parallel sizes and memory settings of a training job.
#pragma once

#include <cstdint>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/plan/model.hpp>

namespace rankmesh::plan {

/// What the backward pass recomputes: nothing, the core of attention, the whole layer, the element-wise
/// operations, or these and every second matrix product.
enum class Recompute : std::uint8_t { none, selective, full, elementwise, operations };

/// The parallel sizes and settings of a job. It uses `tp * cp * pp * dp` devices; `ep` divides `tp * cp *
/// dp`.
struct Layout {
    int tp = 1;
    int cp = 1;
    int ep = 1;
    int pp = 1;
    int vpp = 1;  ///< chunks of layers per stage
    int dp = 1;
    int zero = 0;         ///< ZeRO stage: dp shards 1 the optimizer, 2 also gradients, 3 also parameters
    int zero_group = 0;   ///< ranks that shard these; 0: all of dp * cp
    int micro_batch = 1;  ///< sequences
    bool sequence_parallel = false;
    Recompute recompute = Recompute::none;
    int recompute_layers = 0;  ///< recomputed layers per stage under `full`; 0: all
    int first_layers = 0;      ///< layers of the first stage; 0: stages are even
    int last_layers = 0;       ///< layers of the last stage; 0: stages are even
    friend bool operator==(const Layout&, const Layout&) = default;

    int devices() const { return tp * cp * pp * dp; }
    int shards() const { return zero_group > 0 ? zero_group : dp * cp; }
};

/// Returns the number of layers of one stage. `first_layers` and `last_layers` fix the first and last stage.
/// The other stages are as even as possible, larger ones first.
RANKMESH_EXPORT int stage_layers(const Layout& layout, int layers, int stage);

/// Returns the mesh of a layout, `pp=4 dp=8 cp=2 tp=8`, without axes of size 1.
RANKMESH_EXPORT Mesh mesh(const Layout& layout);

/// Throws UsageError, with the reason, if the model with `batch` sequences of `sequence` tokens cannot use
/// this layout.
RANKMESH_EXPORT void check(const Layout& layout, const Model& model, std::int64_t batch,
                           std::int64_t sequence);

}  // namespace rankmesh::plan
