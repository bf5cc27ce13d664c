// SPDX-License-Identifier: Apache-2.0
// Layouts of an inference engine: whether weights and KV cache fit, and the roofline of decode and prefill.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/job.hpp>

namespace rankmesh::plan {

/// The layout of one engine of vLLM or SGLang on `pp * dp * tp` devices.
///
/// Attention: `dp` ranks divide the requests, `tp` ranks the heads. `dcp` of the tp ranks divide the cached
/// tokens. The experts of a layer are on all `dp * tp` ranks: whole ones if `ep` is `dp * tp`, slices of all
/// if it is 1.
struct ServeLayout {
    int tp = 1;
    int pp = 1;
    int dp = 1;
    int ep = 1;
    int dcp = 1;
    bool fp8_cache = false;  ///< keys and values take one byte instead of two
    friend bool operator==(const ServeLayout&, const ServeLayout&) = default;

    int devices() const { return pp * dp * tp; }
};

/// Returns a layout as text: `pp=2 dp=8 tp=2 ep=16 dcp=2 cache=fp8`.
RANKMESH_EXPORT std::string to_string(const ServeLayout& layout);

/// Reads the text of a layout, its words in any order. Computes a missing dp from `devices`, unless that is
/// 0. Throws UsageError for any other text.
///
/// Law: `read_serve_layout(to_string(layout)) == layout`.
RANKMESH_EXPORT ServeLayout read_serve_layout(std::string_view text, int devices = 0);

/// Throws UsageError, with the reason, if vLLM cannot run the model in this layout.
RANKMESH_EXPORT void check(const ServeLayout& layout, const Model& model);

/// Returns the bytes that one cached token of one layer takes on one device: keys and values of the device's
/// heads, or the latent state. More tp ranks than kv heads hold copies, and each rank holds the latent state.
RANKMESH_EXPORT std::int64_t cache_bytes(const Layer& layer, const ServeLayout& layout);

/// Bytes on the device that needs most.
///
/// Law: `estimate` is the sum of weights, cache, state, activations and overhead.
struct ServeMemory {
    std::int64_t weights = 0;
    std::int64_t cache = 0;        ///< of the requests of the job, each with all its tokens
    std::int64_t state = 0;        ///< of these requests, of linear attention and state space models
    std::int64_t activations = 0;  ///< of a prefill of 8192 tokens and the logits of 256 requests
    std::int64_t overhead = 0;     ///< communicators, driver and allocator
    std::int64_t estimate = 0;
    std::int64_t tokens = 0;  ///< tokens for which the devices together have room
    int stage = 0;            ///< the pipeline stage that needs most
};

/// One resource of a pass, and the seconds that it alone takes.
struct ServePart {
    std::string_view name = {};  ///< `compute`, `memory`, `tp`, `dcp`, `ep` or `pp`
    double amount = 0;           ///< operations, bytes read, or bytes sent by one device, over all stages
    double low = 0;              ///< at the rates of the data sheet
    double high = 0;             ///< at the rates that training sustains
};

/// A pass of tokens through the model.
///
/// Law: `low` is the largest `low` of a part, because resources work at the same time. `high` is the sum of
/// all `high`. No engine is faster than `low`; one that waits for the host is slower than `high`.
struct Pass {
    std::vector<ServePart> parts = {};
    double low = 0;
    double high = 0;
};

/// A layout with its memory and passes.
struct Served {
    ServeLayout layout = {};
    ServeMemory memory = {};
    Pass decode = {};   ///< the last token of all `batch` requests
    Pass prefill = {};  ///< one prompt of `sequence` tokens on each dp rank
};

/// Returns the memory and the roofline of `batch` requests of `sequence` tokens each. Throws UsageError like
/// `check`. `job.stack`, the constants of a training framework, has no effect here.
///
///     auto job = plan::Job{.model = plan::models().front(), .devices = 8, .sequence = 2048, .batch = 64};
///     job.machine = {plan::device("H100"), 8, 450e9, 50e9};
///     const auto served = plan::serve(job, {.tp = 8});
///     EXPECT_LE(served.decode.low, served.decode.high);
RANKMESH_EXPORT Served serve(const Job& job, const ServeLayout& layout);

/// Returns the bytes of each device that an engine uses: 0.9 of the memory, vLLM's default.
RANKMESH_EXPORT std::int64_t serve_capacity(const Device& device);

/// The result of a search over layouts.
struct FoundServing {
    std::vector<Served> best = {};  ///< layouts that fit, least `decode.high` first
    Served roomiest = {};           ///< the layout with room for most tokens, whether or not it fits
    std::int64_t layouts = 0;       ///< layouts that vLLM can run
};

/// Evaluates every layout on the job's devices. `fix` holds texts such as `tp=8` or `cache=fp8`, `most` texts
/// such as `pp=2`. Throws UsageError if vLLM can run no layout, or for any other text.
RANKMESH_EXPORT FoundServing serve_search(const Job& job, const std::vector<std::string>& fix = {},
                                          const std::vector<std::string>& most = {});

}  // namespace rankmesh::plan
