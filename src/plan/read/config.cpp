// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's config.json of Llama, Qwen, Mixtral, DeepSeek and models with the same names of sizes.
#include <algorithm>
#include <array>

#include "plan/read/fields.hpp"

namespace rankmesh::plan::of_read {

namespace of_config_file {

/// The model types whose feed-forward network has two matrices.
constexpr auto two_matrices = std::array<std::string_view, 9>{
    "gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "mpt", "starcoder2"};

void read_experts(const Fields& fields, std::string_view type, Model& model) {
    model.experts = fields.number({"n_routed_experts", "num_local_experts", "num_experts"}, 0).value_or(0);
    if (model.experts == 0) return;
    model.top_k = fields.needed({"num_experts_per_tok", "experts_per_token"}, "the experts of each token");
    // Mixtral and gpt-oss have only the size of their experts.
    model.expert_ffn = fields.number({"moe_intermediate_size"}).value_or(model.ffn);
    if (const auto shared = fields.number({"n_shared_experts"}, 0))
        model.shared_ffn = *shared * model.expert_ffn;
    if (const auto shared = fields.number({"shared_expert_intermediate_size"}, 0)) model.shared_ffn = *shared;
    model.dense_layers = fields.number({"first_k_dense_replace"}, 0).value_or(0);
    // DeepSeek trains with as many groups of experts as nodes.
    if (const auto groups = fields.number({"n_group"}, 0); groups && *groups > 1)
        model.most_nodes = fields.number({"topk_group"}, 0).value_or(0);
    for (const auto* name : {"decoder_sparse_step", "moe_layer_freq"})
        if (const auto every = fields.number({name}); every && *every != 1)
            fields.fail(cat(name, " is ", *every,
                            "; plan supports only experts in every layer after the first dense layers"));
    if (const auto* dense = fields.find({"mlp_only_layers"});
        dense != nullptr && dense->is_array() && dense->size() > 0)
        fields.fail(cat("mlp_only_layers of ", type.empty() ? "this model" : type,
                        " lists layers; plan supports dense layers only in front"));
}

void read_latent(const Fields& fields, Model& model) {
    model.kv_rank = fields.number({"kv_lora_rank"}).value_or(0);
    if (model.kv_rank == 0) return;
    model.q_rank = fields.number({"q_lora_rank"}).value_or(0);
    model.head_dim = fields.needed({"qk_nope_head_dim"}, "the part of each head without rotation");
    model.rope_dim = fields.needed({"qk_rope_head_dim"}, "the part of each head with rotation");
    if (const auto value = fields.number({"v_head_dim"}); value && *value != model.head_dim)
        fields.fail(cat("v_head_dim is ", *value, " and qk_nope_head_dim ", model.head_dim,
                        "; plan requires them to be equal"));
}

}  // namespace of_config_file

Model of_config(const Fields& given) {
    using namespace of_config_file;
    if (!given.values().is_object()) given.fail("is not a JSON object");
    if (const auto* inner = given.find({"text_config"});
        inner != nullptr && inner->is_object() && given.find({"num_hidden_layers"}) == nullptr)
        return of_config(Fields(given.source() + " in text_config", *inner));
    const auto& fields = given;
    auto model = Model{};
    const auto type = fields.word({"model_type"}).value_or("");
    model.name = type;
    model.layers = fields.needed({"num_hidden_layers", "n_layer", "n_layers"}, "the number of layers");
    model.hidden = fields.needed({"hidden_size", "n_embd", "d_model"}, "the width of the model");
    model.heads = fields.needed({"num_attention_heads", "n_head", "n_heads"}, "the number of heads");
    model.kv_heads = fields.number({"num_key_value_heads"}).value_or(model.heads);
    model.vocabulary = fields.needed({"vocab_size"}, "the size of the vocabulary");
    model.gated = std::ranges::find(two_matrices, std::string_view(type)) == two_matrices.end();
    const auto ffn = fields.number({"intermediate_size", "n_inner", "ffn_dim"});
    if (!ffn && model.gated)
        fields.fail("has no intermediate_size, the width of the feed-forward network; add it");
    if (!ffn && model.hidden > 100'000'000)
        fields.fail(cat("hidden_size is ", model.hidden, ", which is too large"));
    model.ffn = ffn ? *ffn : 4 * model.hidden;
    model.tied = fields.flag({"tie_word_embeddings"}).value_or(!model.gated || type.starts_with("gemma"));
    if (const auto dim = fields.number({"head_dim"})) model.head_dim = *dim;
    read_latent(fields, model);
    if (model.head_dim == 0)
        model.head_dim = divided(fields, "hidden_size", model.hidden, "num_attention_heads", model.heads);
    read_experts(fields, type, model);
    const auto* kinds = fields.find({"layer_types"});
    if (const auto window = fields.number({"sliding_window"}, 0);
        window && kinds != nullptr && kinds->is_array()) {
        const auto has = [&](std::string_view kind) {
            return std::ranges::any_of(
                *kinds, [&](const Json& one) { return one.is_string() && one.text() == kind; });
        };
        if (has("full_attention") && has("sliding_attention")) model.window = *window;
    }
    return model;
}

}  // namespace rankmesh::plan::of_read
