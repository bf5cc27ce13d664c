// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's config.json by the keys, defaults and layers of its model type. The formulas follow
// transformers 5.24, models/*/modeling_*.py and configuration_*.py.
#include <algorithm>
#include <array>
#include <cmath>

#include "plan/read/family.hpp"

namespace rankmesh::plan::of_read {

namespace of_config_file {

using Names = std::initializer_list<std::string_view>;

const Names numbers_of_experts = {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts",
                                  "ffn_config.moe_num_experts"};

const Names windows = {"sliding_window",        "sliding_window_size", "attention_chunk_size",
                       "attention_window_size", "window_size",         "local_attention"};

/// What a config.json says of all layers.
struct Sizes {
    const Family& f;
    int layers, hidden, heads;
    std::string mixers =
        {};  ///< by layer: F full, S in a window, L a state, or only E experts, D a dense network
    std::string experts = {};        ///< by layer: 1 has experts
    std::int64_t shared_layers = 0;  ///< the last ones, which use keys of earlier layers
};

/// Returns `letter(i)` for each layer.
template <class Letter>
std::string by_layer(const Sizes& s, const Letter& letter) {
    auto all = std::string(static_cast<std::size_t>(s.layers), ' ');
    for (int i = 0; i < s.layers; ++i) all[static_cast<std::size_t>(i)] = letter(i);
    return all;
}

/// Returns what mixes the tokens of each layer.
std::string mixers(const Sizes& s) {
    const auto& f = s.f;
    const auto by = [&](const auto& letter) { return by_layer(s, letter); };
    const auto at = [&](std::string_view key, const char in, const char out, int first = 0) {
        return by([&](int i) { return f.lists(key, i + first) ? in : out; });
    };
    const Names lists = {"layer_types",      "layers_block_type",    "hybrid_override_pattern", "block_types",
                         "attention_layers", "hybrid_layer_pattern", "attn_type_list"};
    const auto listed = [&](Names names) {
        auto all = f.letters(names, s.layers);
        for (auto& one : all)
            if (one == '0')
                one = f.has("delta") || f.has("lightning") ? 'L' : 'F';
            else if (one == '1')
                one = f.has("lightning") ? 'F' : 'S';
        return all;
    };
    if (f.gives(lists)) return listed(lists);
    if (const auto* rotated = f.find({"no_rope_layers"}); rotated != nullptr && *rotated != Json::array({}))
        return listed({"no_rope_layers"});
    // A number N means that every Nth layer is full.
    for (const auto& [key, other] : {std::pair{"sliding_window_pattern", 'S'},
                                     {"no_rope_layer_interval", 'S'},
                                     {"global_attn_every_n_layers", 'S'},
                                     {"full_attention_interval", 'L'},
                                     {"layer_group_size", 'L'}})
        if (const auto every = f.gives({key}) ? f.number({key}) : std::nullopt)
            return by([&](int i) { return (i + 1) % *every == 0 ? 'F' : other; });
    if (const auto period = f.number({"attn_layer_period"}))
        return by([&](int i) { return i % *period == f.at(0, {"attn_layer_offset"}, 0) ? 'F' : 'L'; });
    for (const auto* key : {"attn_layer_indices", "full_attn_idxs"})
        if (f.gives({key})) return at(key, 'F', 'L');
    if (f.gives({"local_layer_ids"})) return at("local_layer_ids", 'S', 'F');
    const auto* linear = "linear_attn_config.full_attn_layers";
    if (f.gives({linear})) return at(linear, 'F', 'L', 1);
    if (auto all = listed(lists); !all.empty()) return all;
    if (f.values().contains("use_sliding_window"))
        return by([&](int i) {
            return f.is("use_sliding_window") && i >= f.at(0, {"max_window_layers"}, 0) ? 'S' : 'F';
        });
    const auto all = f.has("state") || f.has("states")                 ? 'L'
                     : f.number({"sliding_window"}, 0).value_or(0) > 0 ? 'S'
                                                                       : 'F';
    return by([&](int) { return all; });
}

/// Returns which layers have experts; "" if none has.
std::string experts(const Sizes& s) {
    const auto& f = s.f;
    const auto* count = f.find(numbers_of_experts);
    // Doge has its experts in two embeddings. A layer of Jamba with one expert has no router.
    if (count == nullptr || f.values().contains("is_moe") || (f.has("mamba1") && *count == Json(1)) ||
        (f.values().contains("enable_moe_block") && !f.is("enable_moe_block")) ||
        (f.has("hybrid-shared") && *count == Json(0)))
        return "";
    if (*count == Json(0)) f.needed(numbers_of_experts, "the experts of a layer");
    const auto by = [&](const auto& has) { return by_layer(s, [&](int i) { return has(i) ? '1' : '0'; }); };
    const auto listed = [&](Names names) {
        auto all = f.letters(names, s.layers);
        for (auto& one : all) one = one == 'E' || one == '1' ? '1' : '0';
        return all;
    };
    const auto number = [&](Names names, int otherwise) { return f.number(names, 0).value_or(otherwise); };
    const Names kinds = {"mlp_layer_types"};
    const Names rules = {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"};
    if (f.gives(kinds) || (f.find(kinds) != nullptr && !f.gives(rules))) return listed(kinds);
    if (const auto* list = f.find({"moe_layer_freq"}); list != nullptr && !list->is_number())
        return listed({"moe_layer_freq"});
    if (f.find({"moe_layers"}) != nullptr) return by([&](int i) { return f.lists("moe_layers", i); });
    if (const auto step = f.number({"interleave_moe_layer_step"}, 0))
        return by([&](int i) { return *step > 0 && (i + 1) % *step == 0; });
    if (const auto period = f.number({"expert_layer_period"}))
        return by([&](int i) { return i % *period == number({"expert_layer_offset"}, 0); });
    if (const auto step = f.number({"decoder_sparse_step"}, 0)) {
        return by([&](int i) { return *step > 0 && (i + 1) % *step == 0 && !f.lists("mlp_only_layers", i); });
    }
    const auto first = number(rules, 0);
    auto last = number({"moe_layer_end_index"}, s.layers);
    if (const auto* end = f.find({"moe_layer_end_index"}); end != nullptr && *end == Json(-1))
        last = s.layers;
    const auto every = std::max(1, number({"moe_layer_interval", "moe_layer_freq"}, 1));
    return by([&](int i) { return i >= first && i <= last && (f.has("from-one") ? i + 1 : i) % every == 0; });
}

/// Returns the sizes of attention of layer `i`.
Layer attention(const Sizes& s, int i, bool windowed) {
    const auto& f = s.f;
    auto layer = Layer{.heads = f.at(i, {"num_attention_heads_per_layer"}, s.heads)};
    auto kv = f.at(i,
                   {"num_key_value_heads", "num_kv_heads", "num_query_groups", "multi_query_group_num",
                    "attn_config.kv_n_heads"},
                   layer.heads);
    if (f.values().contains("multi_query") && !f.is("new_decoder_architecture"))
        kv = f.is("multi_query") ? 1 : layer.heads;
    if (f.values().contains("multi_query_attention") && !f.is("multi_query_attention")) kv = layer.heads;
    if (kv == 0) kv = layer.heads;
    layer.head_dim =
        f.at(i, {"head_dim", "attention_head_dim", "dim_head", "kv_channels", "d_kv", "d_head"}, 0);
    if (layer.head_dim == 0) layer.head_dim = s.hidden / s.heads;
    if (windowed) {
        layer.heads = f.at(i, {"swa_num_attention_heads"}, layer.heads);
        kv = f.at(i, {"swa_num_key_value_heads"}, f.has("double-window") ? 2 * kv : kv);
        layer.head_dim = f.at(i, {"swa_head_dim"}, layer.head_dim);
        if (std::ranges::none_of(windows, [&](auto name) { return f.values().contains(name); }))
            f.fail(cat(in_quotes(f.type()), " has layers with a window, but no sliding_window; add it"));
        layer.window = f.at(i, windows, 0);
        if (f.is("use_bidirectional_attention")) layer.window = layer.window / 2 + 1;
    } else {
        if (!f.values().contains("attention_k_eq_v") || f.is("attention_k_eq_v"))
            kv = f.at(i, {"num_global_key_value_heads"}, kv);
        if (!f.gives({"per_layer_config"})) layer.head_dim = f.at(i, {"global_head_dim"}, layer.head_dim);
    }
    layer.kv_heads = kv;
    layer.value_dim = f.at(i, windowed ? Names{"swa_v_head_dim"} : Names{"v_head_dim"},
                           f.at(i, {"v_head_dim"}, layer.head_dim));
    const auto* gating = f.find({"gating"});
    layer.gate = f.has("gate") || f.is("attn_output_gate") ||
                 (gating != nullptr && (*gating == Json(false) || *gating == Json("per-element")));
    if (const auto rank = f.number({"kv_lora_rank"}).value_or(0); rank > 0) {
        layer.kv_rank = rank;
        layer.q_rank = f.number({"q_lora_rank"}).value_or(0);
        layer.head_dim = f.needed({"qk_nope_head_dim"}, "the part of each head without rotation");
        layer.rope_dim = f.needed({"qk_rope_head_dim"}, "the part of each head with rotation");
        layer.value_dim = f.number({"v_head_dim"}).value_or(s.hidden / s.heads);
        layer.kv_heads = layer.heads;
        const std::int64_t index = f.at(i, {"index_n_heads"}, 0), dim = f.at(i, {"index_head_dim"}, 0);
        layer.more += dim * index * layer.q_rank + s.hidden * (dim + index);
    } else if (i >= s.layers - s.shared_layers) {
        layer.kv_heads = 0;
    } else if (!windowed && f.is("attention_k_eq_v")) {
        layer.more -= std::int64_t{s.hidden} * kv * layer.value_dim;
    }
    return layer;
}

/// Adds the feed-forward network of layer `i`.
void feed_forward(const Sizes& s, int i, bool has_experts, Layer& layer) {
    const auto& f = s.f;
    layer.gated = !f.has("plain");
    const Names widths = {"block_ff_dim",    "intermediate_size",
                          "n_inner",         "ffn_dim",
                          "decoder_ffn_dim", "dff",
                          "dim_ff",          "d_inner",
                          "ffn_hidden_size", "ffn_config.ffn_hidden_size"};
    const auto given = f.find(widths) != nullptr ? f.at(i, widths, 0) : 0;
    auto width = f.find(widths) == nullptr && (f.has("four-times") || !layer.gated)
                     ? f.at(0, {"intermediate_multiple_size"}, 4) * s.hidden
                     : given;
    if (f.has("half-width")) width /= 2;
    if (f.is("use_double_wide_mlp") && i >= s.layers - s.shared_layers) width *= 2;
    if (f.is("block_auto_adjust_ff_dim")) {
        const auto unit = f.number({"block_multiple_of"}).value_or(1);
        const auto* times = f.find({"block_ffn_dim_multiplier"});
        width = static_cast<int>((times != nullptr && times->is_number_float()
                                      ? times->get<double>()
                                      : f.number({"block_ffn_dim_multiplier"}).value_or(1)) *
                                 (width * 2 / 3));
        width = (width + unit - 1) / unit * unit;
    }
    const auto shared = f.at(i,
                             {"shared_expert_intermediate_size", "shared_intermediate_size",
                              "moe_shared_expert_intermediate_size", "shared_experts_intermediate_size"},
                             0);
    if (!has_experts) {
        layer.ffn =
            f.has("hybrid-shared")
                ? shared
                : f.at(i,
                       {"intermediate_size_mlp", "dense_intermediate_size", "prefix_dense_intermediate_size"},
                       width);
        if (layer.ffn == 0) f.needed(widths, "the width of the feed-forward network");
        return;
    }
    layer.experts = f.at(i, numbers_of_experts, 0);
    const Names chosen = {"num_experts_per_tok",
                          "moe_topk",
                          "moe_k",
                          "top_k_experts",
                          "num_experts_per_token",
                          "experts_per_token",
                          "ffn_config.moe_top_k"};
    layer.top_k = f.at(i, chosen, 0);
    if (layer.top_k == 0) f.needed(chosen, "the experts of each token");
    layer.expert_ffn = f.at(i, {"moe_intermediate_size", "expert_ffn_hidden_size"}, width);
    // `shared` is a width; the number of shared experts is multiplied by the width of an expert.
    layer.shared_ffn = shared;
    if (shared == 0)
        layer.shared_ffn =
            f.number({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, 0).value_or(0) *
            layer.expert_ffn;
    if (f.has("one-shared")) layer.shared_ffn = width;
    // Nemotron 3 Super: experts work on a narrower state, so they are as large as narrower experts.
    if (const auto latent = f.number({"moe_latent_size"})) {
        layer.expert_ffn = static_cast<int>(std::int64_t{layer.expert_ffn} * *latent / s.hidden);
        layer.more += 2 * std::int64_t{s.hidden} * *latent;
    }
}

Layer layer_at(const Sizes& s, int i) {
    const auto& f = s.f;
    const auto mixer = s.mixers[static_cast<std::size_t>(i)];
    auto layer = Layer{};
    if (mixer == 'F' || mixer == 'S') layer = attention(s, i, mixer == 'S');
    if (mixer == 'L') {
        if (s.heads > 0) layer = attention(s, i, false);
        layer.more = 0, layer.kv_rank = layer.q_rank = layer.rope_dim = 0;
        read_state(f, s.hidden, layer);
    }
    if (f.has("parallel-state")) {
        auto state = layer;
        read_state(f, s.hidden, state);
        layer.state = state.state, layer.weights = state.weights;
    }
    // A layer of Nemotron-H and Mamba is one part only.
    if (mixer == 'E' || (mixer == 'D' || !f.has("one-part")))
        feed_forward(s, i,
                     mixer == 'E' || (mixer != 'D' && !s.experts.empty() &&
                                      s.experts[static_cast<std::size_t>(i)] == '1'),
                     layer);
    else
        layer.gated = false;
    if (f.is("is_moe")) {
        const std::int64_t count = f.needed(numbers_of_experts, "the experts of a layer");
        layer.more += 2 * s.hidden * (count + static_cast<std::int64_t>(std::sqrt(count)));
    }
    if (f.has("cross")) layer.more += 4 * std::int64_t{s.hidden} * s.hidden;
    if (const std::int64_t each = f.number({"hidden_size_per_layer_input"}, 0).value_or(0))
        layer.more += 2 * each * s.hidden;
    if (const std::int64_t rank = f.number({"laurel_rank"}, 0).value_or(0)) layer.more += 2 * rank * s.hidden;
    // JetMoE: each expert of attention has queries and outputs of its own.
    if (f.has("attention-experts"))
        layer.more +=
            2 * (std::int64_t{layer.experts} * layer.kv_heads - layer.heads) * layer.head_dim * s.hidden;
    return layer;
}

/// Parameters beside those of the closed forms.
void extras(const Sizes& s, Model& model) {
    const auto& f = s.f;
    const std::int64_t hidden = s.hidden;
    if (f.has("positions"))
        model.more += hidden * f.needed({"n_positions", "max_position_embeddings", "max_target_positions"},
                                        "the number of positions");
    if (f.has("head")) model.more += hidden * hidden;
    if (const auto heads = f.number({"output_vocab_size"}); heads && !model.tied)
        model.more += (*heads - model.vocabulary) * hidden;
    if (const auto width = f.number({"word_embed_proj_dim", "embedding_size", "input_embedding_size"});
        width && *width != hidden)
        model.more += (*width - hidden) * model.vocabulary + 2 * *width * hidden;
    // Gemma 3n and 4: an embedding for each layer.
    if (const std::int64_t each = f.number({"hidden_size_per_layer_input"}, 0).value_or(0); each > 0) {
        model.more +=
            each * s.layers * (f.number({"vocab_size_per_layer_input"}).value_or(model.vocabulary) + hidden);
        if (const auto inputs = f.number({"altup_num_inputs"}))
            model.more += 2 * (*inputs - 1) * hidden * hidden;
    }
}

Model read(const Family& f) {
    const Names lists = {"layers_block_type", "hybrid_override_pattern"};
    const auto* list = f.gives(lists) && !f.gives({"num_hidden_layers"}) ? f.find(lists) : nullptr;
    const auto length = list == nullptr     ? std::size_t{0}
                        : list->is_string() ? list->text().size()
                        : list->is_array()  ? list->size()
                                            : 0;
    auto s = Sizes{.f = f,
                   .layers = length > 0 && length < 100000
                                 ? static_cast<int>(length)
                                 : f.needed({"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                                             "decoder_layers", "num_decoder_layers"},
                                            "the number of layers"),
                   .hidden = f.needed({"n_embed", "hidden_size", "n_embd", "d_model", "emb_dim"},
                                      "the width of the model"),
                   .heads = 0};
    auto model = Model{.name = f.type(), .hidden = s.hidden};
    if (f.has("attention-experts"))
        s.heads = f.at(0, {"num_key_value_heads"}, 0) * f.at(0, {"num_experts_per_tok"}, 0);
    if (!f.has("state") && s.heads == 0)
        s.heads = f.needed({"num_attention_heads", "n_head", "n_heads", "num_heads",
                            "decoder_attention_heads", "attention_heads", "num_decoder_attention_heads"},
                           "the number of heads");
    model.vocabulary =
        f.needed({"padded_vocab_size", "decoder_vocab_size", "vocab_size"}, "the size of the vocabulary");
    model.tied = f.flag({"tie_embedding", "tie_word_embeddings"}).value_or(false);
    s.mixers = mixers(s);
    if (f.has("last-full")) s.mixers.back() = 'F';
    s.shared_layers = f.number({"num_kv_shared_layers"}, 0).value_or(0);
    s.experts = experts(s);
    // DeepSeek trains with as many groups of experts as nodes.
    if (const auto groups = f.number({"n_group"}, 0); groups && *groups > 1)
        model.most_nodes = f.number({"topk_group"}, 0).value_or(0);
    for (int i = 0; i < s.layers; ++i) model.add(1, layer_at(s, i));
    extras(s, model);
    return model;
}

}  // namespace of_config_file

Model of_config(const Fields& given, Checkpoint& checkpoint) {
    using namespace of_config_file;
    if (!given.values().is_object()) given.fail("is not a JSON object");
    if (const auto* quantized = given.find({"quantization_config"}))
        read_quantization(*quantized, checkpoint);
    const auto type = given.word({"model_type"}).value_or("");
    // A model with images or sound holds its language model in one of these; what stands beside it is not
    // counted, except whether embedding and head are tied.
    for (const auto* key : {"thinker_config", "text_config", "llm_config", "language_config"}) {
        const auto* inner = given.find({key});
        if (inner == nullptr || !inner->is_object() || given.find({"num_hidden_layers"}) != nullptr) continue;
        auto values = *inner;
        if (!values.contains("model_type") && Family::is_known(type + "_text"))
            values["model_type"] = type + "_text";
        if (const auto* tied = given.find({"tie_word_embeddings"})) values["tie_word_embeddings"] = *tied;
        auto model = of_config(Fields(cat(given.source(), " in ", key), values), checkpoint);
        auto beside = std::string{};
        for (const auto& [name, value] : given.values().items())
            if (name != key && name.ends_with("_config") && value.is_object() &&
                name != "quantization_config")
                beside += cat(beside.empty() ? "" : ", ", name);
        if (!beside.empty()) checkpoint.notes.push_back(cat("not used: ", beside));
        return model;
    }
    const auto family = Family(given);
    auto model = read(family);
    if (const auto unused = family.unused(); !unused.empty())
        checkpoint.notes.push_back(cat("not used: ", detail::listed(unused)));
    return model;
}

}  // namespace rankmesh::plan::of_read
