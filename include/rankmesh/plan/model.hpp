// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::plan {

/// The shape of a decoder-only transformer; 0 where a part is absent.
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
    int ffn = 0;         ///< of a dense layer
    bool gated = false;  ///< three matrices in each feed-forward network instead of two
    int vocabulary = 0;
    bool tied = false;  ///< one matrix is embedding and head
    int experts = 0;    ///< of each layer but the first `dense_layers`
    int top_k = 0;      ///< experts that a token is sent to
    int expert_ffn = 0;
    int shared_ffn = 0;         ///< of the expert that sees every token
    int dense_layers = 0;       ///< at the front, where there are experts
    int q_rank = 0;             ///< multi-head latent attention (DeepSeek): rank of the queries
    int kv_rank = 0;            ///< of keys and values; above 0 attention is latent
    int rope_dim = 0;           ///< of each head's query and key, beside `head_dim`
    int window = 0;             ///< keys that a query of every other layer sees
    std::int64_t sequence = 0;  ///< tokens, where the job says nothing
    friend bool operator==(const Model&, const Model&) = default;
};

/// Parameters in closed form, biases left out, which are below one in a thousand.
struct Parameters {
    std::int64_t dense_layer = 0;   ///< of a layer without experts
    std::int64_t expert_layer = 0;  ///< of a layer with experts, all of them
    std::int64_t attention = 0;     ///< of each layer
    std::int64_t expert = 0;        ///< of one expert
    std::int64_t embedding = 0;     ///< of one matrix of the vocabulary
    std::int64_t total = 0;
    std::int64_t active = 0;  ///< that one token meets
};

/// Throws UsageError that says which size is impossible.
RANKMESH_EXPORT void check(const Model& model);

/// Counts the parameters of a model that `check` accepts.
RANKMESH_EXPORT Parameters parameters(const Model& model);

/// The shapes that the library knows by name, from `src/plan/data/models.csv`.
RANKMESH_EXPORT std::span<const Model> models();

/// Reads models from text with the columns of `src/plan/data/models.csv`, of which those for latent attention
/// and windows may be missing; lines without layers or heads are passed over. Throws UsageError with `file`
/// and line.
RANKMESH_EXPORT std::vector<Model> read_models(std::string_view text, std::string_view file);

}  // namespace rankmesh::plan
