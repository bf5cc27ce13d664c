// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/plan/model.hpp>

namespace rankmesh::plan {

/// What of a layer is computed again in the backward pass: nothing, the core of attention, all, what is
/// element-wise, or that and every second matrix product.
enum class Recompute : std::uint8_t { none, selective, full, elementwise, operations };

/// How a job is laid over its devices: `tp * cp * pp * dp` of them, and `ep` divides `tp * cp * dp`.
struct Layout {
    int tp = 1;
    int cp = 1;
    int ep = 1;
    int pp = 1;
    int vpp = 1;  ///< chunks of layers on each stage
    int dp = 1;
    int zero = 0;         ///< what data-parallel ranks shard: 1 optimizer, 2 gradients too, 3 parameters too
    int zero_group = 0;   ///< ranks that shard it, 0 for all of dp * cp
    int micro_batch = 1;  ///< sequences
    bool sequence_parallel = false;
    Recompute recompute = Recompute::none;
    int recompute_layers = 0;  ///< of each stage, under `full`; 0 for all
    int first_layers = 0;      ///< of the first stage, 0 where stages are even
    int last_layers = 0;       ///< of the last stage, 0 where stages are even
    friend bool operator==(const Layout&, const Layout&) = default;

    int devices() const { return tp * cp * pp * dp; }
    int shards() const { return zero_group > 0 ? zero_group : dp * cp; }
};

/// Layers of one stage: those of `first_layers` and `last_layers`, the rest as evenly as it goes with the
/// larger ones in front.
RANKMESH_EXPORT int stage_layers(const Layout& layout, int layers, int stage);

/// The mesh of a layout, `pp=4 dp=8 cp=2 tp=8`, without the axes of one rank.
RANKMESH_EXPORT Mesh mesh(const Layout& layout);

/// Throws UsageError that says why the model, in `batch` sequences of `sequence` tokens, cannot be laid out
/// so.
RANKMESH_EXPORT void check(const Layout& layout, const Model& model, std::int64_t batch,
                           std::int64_t sequence);

}  // namespace rankmesh::plan
