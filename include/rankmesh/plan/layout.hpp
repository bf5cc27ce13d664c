// SPDX-License-Identifier: Apache-2.0
// A layout: the parallel sizes and memory settings of a training job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/plan/model.hpp>

namespace rankmesh::plan {

/// What the backward pass recomputes: nothing, the core of attention, the whole layer, the element-wise
/// operations, or these and every second matrix product.
enum class Recompute : std::uint8_t { none, selective, full, elementwise, operations };

/// The order of forward and backward passes in a pipeline: 1F1B, interleaved if a stage has several chunks;
/// ZB-H1 of zero-bubble pipelines (Qi et al., arXiv 2401.10241); DualPipe (DeepSeek-V3, arXiv 2412.19437).
enum class Schedule : std::uint8_t { one_f_one_b, zero_bubble, dual_pipe };

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
    int etp = 1;               ///< tensor parallelism inside each expert; `ep * etp` divides `tp * cp * dp`
    Schedule schedule = Schedule::one_f_one_b;
    bool overlap_experts = false;  ///< all-to-all of experts runs beside the compute of another micro-batch
    bool dispatch_once = false;    ///< sends a token to each node once, which passes it on (DeepEP)
    int gradient_bytes = 0;        ///< per parameter, held and sent: 2 or 4; 0: as the framework does
    bool bf16_moments = false;     ///< both moments of the optimizer in bfloat16
    bool fp8_activations = false;  ///< inputs of matrix products kept, and tokens dispatched, in FP8
    int offload = 0;               ///< percent of the activations that wait in the memory of the host
    friend bool operator==(const Layout&, const Layout&) = default;

    int devices() const { return tp * cp * pp * dp; }
    int shards() const { return zero_group > 0 ? zero_group : dp * cp; }
};

/// Returns the number of layers of one stage. `first_layers` and `last_layers` fix the first and last stage.
/// The other stages are as even as possible, larger ones first.
RANKMESH_EXPORT int stage_layers(const Layout& layout, int layers, int stage);

/// Returns the number of layers of a chunk. With `vpp` above 1 only the first chunk of the first stage and
/// the last chunk of the last stage may have fewer.
RANKMESH_EXPORT int chunk_layers(const Layout& layout, int layers);

/// Returns the mesh of a layout, `pp=4 dp=8 cp=2 tp=8`, without axes of size 1.
RANKMESH_EXPORT Mesh mesh(const Layout& layout);

/// Throws UsageError, with the reason, if the model with `batch` sequences of `sequence` tokens cannot use
/// this layout.
RANKMESH_EXPORT void check(const Layout& layout, const Model& model, std::int64_t batch,
                           std::int64_t sequence);

/// Returns a layout as text: the mesh, then all settings that differ from their defaults. `sp=0` means that
/// tensor-parallel ranks do not shard the sequence. `pp=4 dp=8 tp=8 vpp=2 mbs=1 zero=1 recompute=full:3
/// first=7 last=6`
RANKMESH_EXPORT std::string to_string(const Layout& layout);

/// Returns the settings of a layout without its mesh: `vpp=2 mbs=1 zero=1 recompute=full`.
RANKMESH_EXPORT std::string settings_text(const Layout& layout);

/// Reads the text of a layout, its words in any order. A missing dp is computed from `devices`, unless that
/// is 0. Throws UsageError for any other text.
///
/// Law: `read_layout(to_string(layout)) == layout`.
RANKMESH_EXPORT Layout read_layout(std::string_view text, int devices = 0);

/// Returns `none`, `selective`, `full`, `elementwise` or `operations`.
RANKMESH_EXPORT std::string_view to_string(Recompute recompute);
/// Returns `1f1b`, `zb` or `dualpipe`.
RANKMESH_EXPORT std::string_view to_string(Schedule schedule);

}  // namespace rankmesh::plan
