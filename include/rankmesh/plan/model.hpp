// SPDX-License-Identifier: Apache-2.0
// Models: the sizes of a transformer and its parameter counts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::plan {

/// The shape of a decoder-only transformer. 0 means that the part is absent.
///
///     auto model = plan::Model{.name = "8B", .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8};
///     model.head_dim = 128;
///     model.ffn = 14336;
///     model.gated = true;
///     model.vocabulary = 128256;
///     EXPECT_EQ(plan::parameters(model).total, 8030261248);
struct Model {
    std::string name = {};
    int layers = 0;
    int hidden = 0;
    int heads = 0;
    int kv_heads = 0;
    int head_dim = 0;
    int ffn = 0;         ///< hidden size of the feed-forward network of a dense layer
    bool gated = false;  ///< each feed-forward network has three matrices instead of two
    int vocabulary = 0;
    bool tied = false;  ///< embedding and head share one matrix
    int experts = 0;    ///< per layer, except in the first `dense_layers`
    int top_k = 0;      ///< experts per token
    int expert_ffn = 0;
    int shared_ffn = 0;         ///< hidden size of the shared expert, which sees every token
    int dense_layers = 0;       ///< dense layers at the front of a model with experts
    int q_rank = 0;             ///< multi-head latent attention (DeepSeek): rank of the query projection
    int kv_rank = 0;            ///< rank of the key-value projection; above 0: attention is latent
    int rope_dim = 0;           ///< rotary dimensions per head, in addition to `head_dim`
    int most_nodes = 0;         ///< nodes to which a token is routed at most; 0: no limit
    int window = 0;             ///< keys that a query sees in every other layer
    std::int64_t sequence = 0;  ///< tokens per sequence if the job does not say
    friend bool operator==(const Model&, const Model&) = default;
};

/// Parameter counts in closed form. Biases are ignored; they are less than 0.1 %.
struct Parameters {
    std::int64_t dense_layer = 0;   ///< one layer without experts
    std::int64_t expert_layer = 0;  ///< one layer with experts, including all experts
    std::int64_t attention = 0;     ///< attention of one layer
    std::int64_t expert = 0;        ///< one expert
    std::int64_t embedding = 0;     ///< one matrix of vocabulary times hidden
    std::int64_t total = 0;
    std::int64_t active = 0;  ///< parameters that one token uses
};

/// Throws UsageError, which names the size, if a size is impossible.
RANKMESH_EXPORT void check(const Model& model);

/// Returns the parameter counts of a model, which `check` must accept.
RANKMESH_EXPORT Parameters parameters(const Model& model);

/// Returns the built-in models, from `src/plan/data/models.csv`.
RANKMESH_EXPORT std::span<const Model> models();

/// Reads models from text with the columns of `src/plan/data/models.csv`. The columns for latent attention
/// and windows may be missing. Lines without layers or heads are ignored. Throws UsageError with `file` and
/// the line.
RANKMESH_EXPORT std::vector<Model> read_models(std::string_view text, std::string_view file);

}  // namespace rankmesh::plan
