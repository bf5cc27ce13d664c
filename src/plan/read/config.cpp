// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's config.json by the keys, defaults and layers of its model type. The formulas follow
// transformers 5.24, models/*/modeling_*.py and configuration_*.py.
#include <cmath>
#include <tuple>

#include "plan/read/family.hpp"

namespace rankmesh::plan::of_read {

using Wide = std::int64_t;

namespace of_config_file {

/// Gated delta rule (Yang et al., arXiv 2412.06464): projections of queries, keys, values and the output
/// gate, two numbers of each head, and a convolution.
Layer delta(const Family& f, Wide hidden, const Layer& attention) {
    // OLMo Hybrid has defaults by the sizes of attention.
    const Wide heads = f.number("linear_num_value_heads").value_or(attention.heads);
    const Wide key_heads = f.number("linear_num_key_heads").value_or(attention.heads);
    const Wide key_dim = f.at(0, "linear_key_head_dim", static_cast<int>(3 * hidden / 4 / key_heads));
    const Wide dim = f.number("linear_value_head_dim").value_or(2 * key_dim);
    const Wide kernel = f.number("linear_conv_kernel_dim").value_or(4);
    const auto wide = 2 * key_heads * key_dim + heads * dim;
    return {.heads = static_cast<int>(heads),
            .state = heads * dim * key_dim + wide * (kernel - 1),
            .weights = hidden * (wide + heads * dim + 2 * heads) + wide * kernel + heads * dim * hidden};
}

/// Kimi Delta Attention (arXiv 2510.26692): as above, with a gate for each channel through a small matrix.
Layer kimi(const Family& f, Wide hidden, const Layer& attention) {
    const Wide heads = f.number("linear_num_heads").value_or(attention.heads);
    const Wide dim = f.at(0, "linear_head_dim", f.at(0, "head_dim", 0));
    const auto wide = heads * dim;
    const Wide kernel = f.number("short_conv_kernel_size").value_or(4);
    return {.heads = static_cast<int>(heads),
            .state = heads * dim * dim + 3 * wide * (kernel - 1),
            .weights = hidden * (3 * wide + heads) + wide * hidden + 3 * wide * kernel +
                       (f.has("wide-gates") || f.is("linear_attn_config.use_full_rank_gate")
                            ? 2 * hidden * wide
                            : 2 * (hidden * dim + dim * wide))};
}

/// Mamba-1 (Gu and Dao, arXiv 2312.00752).
Layer mamba1(const Family& f, Wide hidden, const Layer&) {
    Wide inner = f.number("mamba_expand").value_or(2) * hidden;
    if (f.has("own-width")) inner = f.number("intermediate_size").value_or(static_cast<int>(inner));
    const Wide n = f.needed("mamba_d_state", "the size of the state");
    const Wide kernel = f.number("mamba_d_conv").value_or(4);
    const Wide rank = f.number("mamba_dt_rank").value_or(static_cast<int>((hidden + 15) / 16));
    return {.heads = static_cast<int>(inner),
            .state = inner * (n + kernel - 1),
            .weights = inner * (3 * hidden + kernel + 2 * rank + 3 * n + 3)};
}

/// Mamba-2 (Dao and Gu, arXiv 2405.21060).
Layer mamba2(const Family& f, Wide hidden, const Layer&) {
    const auto heads = f.needed("mamba_num_heads", "the heads of Mamba-2");
    Wide inner = f.number("mamba_expand").value_or(2) * hidden;
    if (const auto dim = f.number("mamba_head_dim")) inner = Wide{heads} * *dim;
    if (const auto width = f.number("mamba_d_ssm")) inner = *width;
    const Wide n = f.needed("mamba_d_state", "the size of the state");
    const Wide kernel = f.number("mamba_d_conv").value_or(4);
    const auto wide = inner + 2 * f.number("mamba_n_groups").value_or(1) * n;
    return {.heads = heads,
            .state = inner * n + wide * (kernel - 1),
            .weights =
                hidden * (inner + wide + heads) + wide * (kernel + 1) + 3 * heads + inner + inner * hidden};
}

/// Lightning attention (MiniMax-01, arXiv 2501.08313): queries, keys, values, an output gate.
Layer lightning(const Family&, Wide hidden, const Layer& attention) {
    const Wide wide = Wide{attention.heads} * attention.head_dim;
    return {.heads = attention.heads, .state = wide * attention.head_dim, .weights = 5 * hidden * wide};
}

/// A short convolution between two gates (LFM2).
Layer convolution(const Family& f, Wide hidden, const Layer&) {
    const Wide kernel = f.needed("conv_L_cache", "the width of the convolution");
    return {.heads = static_cast<int>(hidden),
            .state = hidden * (kernel - 1),
            .weights = 4 * hidden * hidden + hidden * kernel};
}

/// RG-LRU (Griffin, arXiv 2402.19427): three matrices, and two gates in blocks of the heads.
Layer recurrent(const Family& f, Wide hidden, const Layer& attention) {
    const Wide width = f.number("lru_width").value_or(static_cast<int>(hidden));
    const Wide kernel = f.number("conv1d_width").value_or(4);
    return {.heads = attention.heads,
            .state = width * kernel,
            .weights = 3 * hidden * width + width * (kernel + 4) + 2 * width * width / attention.heads};
}

/// Returns the layer that a family has instead of some attention, or beside it.
Layer state_of(const Family& family, int hidden, const Layer& attention) {
    using Read = Layer (*)(const Family&, Wide, const Layer&);
    for (const auto& [tag, read] : {std::pair<const char*, Read>{"delta", delta},
                                    {"kimi", kimi},
                                    {"mamba1", mamba1},
                                    {"mamba2", mamba2},
                                    {"lightning", lightning},
                                    {"conv", convolution},
                                    {"recurrent", recurrent}})
        if (family.has(tag)) return read(family, hidden, attention);
    family.fail(cat(in_quotes(family.type()), " has layers without attention that plan does not know"));
}

struct Sizes {
    const Family& f;
    int layers, hidden, heads;
    std::string mixers = {};   ///< by layer: F full, S window, L state, or only E experts, D a dense network
    std::string experts = {};  ///< by layer: 1 or E has experts
    std::int64_t shared_layers = 0;  ///< the last ones, which use keys of earlier layers
};

template <class Letter>
std::string by_layer(const Sizes& s, const Letter& letter) {
    auto all = std::string(static_cast<std::size_t>(s.layers), ' ');
    for (int i = 0; i < s.layers; ++i) all[static_cast<std::size_t>(i)] = letter(i);
    return all;
}

std::string mixers(const Sizes& s) {
    const auto& f = s.f;
    const auto by = [&](const auto& letter) { return by_layer(s, letter); };
    const auto listed = [&](std::string_view name) {
        auto all = f.letters(name, s.layers);
        for (auto& one : all)
            if (one == '0')
                one = f.has("delta") || f.has("lightning") ? 'L' : 'F';
            else if (one == '1')
                one = f.has("lightning") ? 'F' : 'S';
        return all;
    };
    if (f.gives("layer_types")) return listed("layer_types");
    if (const auto* rotated = f.find("no_rope_layers"); rotated != nullptr && *rotated != Json::array({}))
        return listed("no_rope_layers");
    // The first layers of Cohere 2 MoE, which have no experts, have a pattern of their own.
    if (const auto dense = f.at(0, "first_k_dense_replace", 0);
        dense > 0 && f.knows("prefix_dense_sliding_window_pattern"))
        return by([&](int i) {
            const auto* key = i < dense ? "prefix_dense_sliding_window_pattern" : "sliding_window_pattern";
            return (i - (i < dense ? 0 : dense) + 1) % f.number(key).value_or(1) == 0 ? 'F' : 'S';
        });
    // A number N means that every Nth layer is full.
    for (const auto& [key, other] :
         {std::pair{"sliding_window_pattern", 'S'}, {"full_attention_interval", 'L'}})
        if (const auto every = f.gives(key) ? f.number(key) : std::nullopt)
            return by([&](int i) { return (i + 1) % *every == 0 ? 'F' : other; });
    if (const auto period = f.number("attn_layer_period"))
        return by([&](int i) { return i % *period == f.at(0, "attn_layer_offset", 0) ? 'F' : 'L'; });
    for (const auto& [key, in, out, first] : {std::tuple{"full_attn_idxs", 'F', 'L', 0},
                                              {"local_layer_ids", 'S', 'F', 0},
                                              {"linear_attn_config.full_attn_layers", 'F', 'L', 1}})
        if (f.gives(key)) return by([&](int i) { return f.lists(key, i + first) ? in : out; });
    if (auto all = listed("layer_types"); !all.empty()) return all;
    if (f.knows("use_sliding_window"))
        return by([&](int i) {
            return f.is("use_sliding_window") && i >= f.at(0, "max_window_layers", 0) ? 'S' : 'F';
        });
    const auto all = f.has("state") || f.has("states") ? 'L' : f.at(0, "sliding_window", 0) > 0 ? 'S' : 'F';
    return by([&](int) { return all; });
}

/// Returns which layers have experts; "" if none has.
std::string experts(const Sizes& s) {
    const auto& f = s.f;
    const auto* count = f.find("num_experts");
    // Doge has its experts in two embeddings. A layer of Jamba with one expert has no router.
    if (count == nullptr || f.knows("is_moe") || (f.has("mamba1") && *count == Json(1)) ||
        (f.knows("enable_moe_block") && !f.is("enable_moe_block")) ||
        (f.has("hybrid-shared") && *count == Json(0)))
        return "";
    if (*count == Json(0)) f.needed("num_experts", "the experts of a layer");
    const auto by = [&](const auto& has) { return by_layer(s, [&](int i) { return has(i) ? '1' : '0'; }); };
    if (f.find("moe_layers") != nullptr) return by([&](int i) { return f.lists("moe_layers", i); });
    if (const auto* list = f.find("moe_layer_freq"); list != nullptr && !list->is_number())
        return f.letters("moe_layer_freq", s.layers);
    const auto* first = "first_k_dense_replace";
    if (f.gives("mlp_layer_types") || (f.find("mlp_layer_types") != nullptr && !f.gives(first)))
        return f.letters("mlp_layer_types", s.layers);
    if (const auto step = f.number("interleave_moe_layer_step", 0))
        return by([&](int i) { return *step > 0 && (i + 1) % *step == 0; });
    if (const auto period = f.number("expert_layer_period"))
        return by([&](int i) { return i % *period == f.at(0, "expert_layer_offset", 0); });
    if (const auto step = f.number("decoder_sparse_step", 0))
        return by([&](int i) { return *step > 0 && (i + 1) % *step == 0 && !f.lists("mlp_only_layers", i); });
    const auto* end = f.find("moe_layer_end_index");
    const auto last =
        end != nullptr && *end == Json(-1) ? s.layers : f.at(0, "moe_layer_end_index", s.layers);
    const auto every = std::max(1, f.at(0, "moe_layer_freq", 1));
    return by([&](int i) {
        return i >= f.at(0, first, 0) && i <= last && (f.has("from-one") ? i + 1 : i) % every == 0;
    });
}

Layer attention(const Sizes& s, int i, bool windowed) {
    const auto& f = s.f;
    auto layer = Layer{.heads = f.at(i, "num_attention_heads_per_layer", s.heads)};
    auto kv = f.at(i, "num_key_value_heads", layer.heads);
    if (f.knows("multi_query") && !f.is("new_decoder_architecture"))
        kv = f.is("multi_query") ? 1 : layer.heads;
    if (f.knows("multi_query_attention") && !f.is("multi_query_attention")) kv = layer.heads;
    if (kv == 0) kv = layer.heads;
    layer.head_dim = f.at(i, "head_dim", 0);
    if (layer.head_dim == 0) layer.head_dim = s.hidden / s.heads;
    if (windowed) {
        layer.heads = f.at(i, "swa_num_attention_heads", layer.heads);
        kv = f.at(i, "swa_num_key_value_heads", f.has("double-window") ? 2 * kv : kv);
        layer.head_dim = f.at(i, "swa_head_dim", layer.head_dim);
        if (!f.knows("sliding_window"))
            f.fail(cat(in_quotes(f.type()), " has layers with a window, but no sliding_window; add it"));
        layer.window = f.at(i, "sliding_window", 0);
        if (f.is("use_bidirectional_attention")) layer.window = layer.window / 2 + 1;
    } else {
        if (!f.knows("attention_k_eq_v") || f.is("attention_k_eq_v"))
            kv = f.at(i, "num_global_key_value_heads", kv);
        if (!f.gives("per_layer_config")) layer.head_dim = f.at(i, "global_head_dim", layer.head_dim);
    }
    layer.kv_heads = kv;
    if (f.has("square") && layer.heads * layer.head_dim != s.hidden)
        f.fail(cat(in_quotes(f.type()), " takes num_attention_heads * head_dim = hidden_size, but ",
                   layer.heads, " * ", layer.head_dim, " is not ", s.hidden,
                   "; transformers cannot run it either"));
    layer.value_dim =
        f.at(i, windowed ? "swa_v_head_dim" : "v_head_dim", f.at(i, "v_head_dim", layer.head_dim));
    const auto* gating = f.find("gating");
    layer.gate = f.has("gate") || f.is("attn_output_gate") ||
                 (gating != nullptr && (*gating == Json(false) || *gating == Json("per-element")));
    if (const auto rank = f.number("kv_lora_rank").value_or(0); rank > 0) {
        layer.kv_rank = rank;
        layer.q_rank = f.number("q_lora_rank").value_or(0);
        layer.head_dim = f.needed("qk_nope_head_dim", "the part of each head without rotation");
        layer.rope_dim = f.needed("qk_rope_head_dim", "the part of each head with rotation");
        layer.value_dim = f.number("v_head_dim").value_or(s.hidden / s.heads);
        layer.kv_heads = layer.heads;
        const std::int64_t index = f.at(i, "index_n_heads", 0), dim = f.at(i, "index_head_dim", 0);
        layer.more += dim * index * layer.q_rank + s.hidden * (dim + index);
    } else if (i >= s.layers - s.shared_layers) {
        layer.kv_heads = 0;
    } else if (!windowed && f.is("attention_k_eq_v")) {
        layer.more -= std::int64_t{s.hidden} * kv * layer.value_dim;
    }
    const Wide hidden = s.hidden, queries = Wide{layer.heads} * layer.head_dim;
    if (f.has("head-gate")) layer.more += hidden * layer.heads;
    if (f.is("mla_use_output_gate")) layer.more += hidden * layer.heads * layer.value_dim;
    // Step 3: the heads share a first projection of the queries.
    if (const Wide rank = f.at(0, "share_q_dim", 0))
        layer.more += rank * (hidden + queries) - hidden * queries;
    return layer;
}

void feed_forward(const Sizes& s, int i, bool has_experts, Layer& layer) {
    const auto& f = s.f;
    layer.gated = !f.has("plain");
    const auto* widths = "intermediate_size";
    auto width = f.find(widths) == nullptr && (f.has("four-times") || !layer.gated)
                     ? f.at(0, "intermediate_multiple_size", 4) * s.hidden
                     : f.at(i, widths, 0);
    if (f.has("half-width")) width /= 2;
    if (f.is("use_double_wide_mlp") && i >= s.layers - s.shared_layers) width *= 2;
    if (f.is("block_auto_adjust_ff_dim")) {
        const auto unit = f.number("block_multiple_of").value_or(1);
        const auto* times = f.find("block_ffn_dim_multiplier");
        width = static_cast<int>((times != nullptr && times->is_number_float()
                                      ? times->get<double>()
                                      : f.number("block_ffn_dim_multiplier").value_or(1)) *
                                 (width * 2 / 3));
        width = (width + unit - 1) / unit * unit;
    }
    const auto shared = f.at(i, "shared_expert_intermediate_size", 0);
    if (!has_experts) {
        layer.ffn = f.has("hybrid-shared") ? shared : f.at(i, "intermediate_size_mlp", width);
        if (layer.ffn == 0) f.needed(widths, "the width of the feed-forward network");
        return;
    }
    layer.experts = f.at(i, "num_experts", 0);
    layer.top_k = f.at(i, "num_experts_per_tok", 0);
    if (layer.top_k == 0) f.needed("num_experts_per_tok", "the experts of each token");
    layer.expert_ffn = f.at(i, "moe_intermediate_size", width);
    // `shared` is a width; the number of shared experts is multiplied by the width of an expert.
    layer.shared_ffn = shared > 0 ? shared : f.at(0, "num_shared_experts", 0) * layer.expert_ffn;
    if (f.has("one-shared") || (f.has("wide-shared") && layer.shared_ffn == 0)) layer.shared_ffn = width;
    // Nemotron 3 Super: experts work on a narrower state, so they are as large as narrower experts.
    if (const auto latent = f.number("moe_latent_size")) {
        layer.expert_ffn = static_cast<int>(std::int64_t{layer.expert_ffn} * *latent / s.hidden);
        layer.more += 2 * std::int64_t{s.hidden} * *latent;
    }
}

Layer layer_at(const Sizes& s, int i) {
    const auto& f = s.f;
    const auto mixer = s.mixers[static_cast<std::size_t>(i)];
    auto layer = Layer{};
    if (mixer == 'F' || mixer == 'S') layer = attention(s, i, mixer == 'S');
    if (mixer == 'L') layer = state_of(f, s.hidden, s.heads > 0 ? attention(s, i, false) : layer);
    if (f.has("parallel-state")) {
        const auto state = state_of(f, s.hidden, layer);
        layer.state = state.state, layer.weights = state.weights;
    }
    // A layer of Nemotron-H and Mamba is one part only.
    const auto kind = s.experts.empty() ? '0' : s.experts[static_cast<std::size_t>(i)];
    if (mixer == 'E' || (mixer == 'D' || !f.has("one-part")))
        feed_forward(s, i, mixer == 'E' || (mixer != 'D' && (kind == '1' || kind == 'E')), layer);
    else
        layer.gated = false;
    if (f.is("is_moe")) {
        const std::int64_t count = f.needed("num_experts", "the experts of a layer");
        layer.more += 2 * s.hidden * (count + static_cast<std::int64_t>(std::sqrt(count)));
    }
    if (f.has("cross")) layer.more += 4 * std::int64_t{s.hidden} * s.hidden;
    if (const std::int64_t each = f.at(0, "hidden_size_per_layer_input", 0))
        layer.more += 2 * each * s.hidden;
    if (const std::int64_t rank = f.at(0, "laurel_rank", 0)) layer.more += 2 * rank * s.hidden;
    // JetMoE: each expert of attention has queries and outputs of its own.
    if (f.has("attention-experts"))
        layer.more +=
            2 * (std::int64_t{layer.experts} * layer.kv_heads - layer.heads) * layer.head_dim * s.hidden;
    return layer;
}

void extras(const Sizes& s, Model& model) {
    const auto& f = s.f;
    const std::int64_t hidden = s.hidden;
    if (f.has("positions"))
        model.more += hidden * f.needed("max_position_embeddings", "the number of positions");
    if (f.has("head")) model.more += hidden * hidden;
    model.more += hidden * f.at(0, "additional_vocab_size", 0);
    if (const auto heads = f.number("output_vocab_size"); heads && !model.tied)
        model.more += (*heads - model.vocabulary) * hidden;
    if (const auto width = f.number("embedding_size"); width && *width != hidden)
        model.more += (*width - hidden) * model.vocabulary + 2 * *width * hidden;
    // Gemma 3n and 4: an embedding for each layer.
    if (const std::int64_t each = f.at(0, "hidden_size_per_layer_input", 0); each > 0) {
        model.more +=
            each * s.layers * (f.number("vocab_size_per_layer_input").value_or(model.vocabulary) + hidden);
        if (const auto inputs = f.number("altup_num_inputs"))
            model.more += 2 * (*inputs - 1) * hidden * hidden;
    }
}

Model read(const Family& f) {
    const auto* list = f.find("layers_block_type");
    const auto length = !f.gives("layers_block_type") || f.gives("num_hidden_layers") ? std::size_t{0}
                        : list->is_string()                                           ? list->text().size()
                        : list->is_array()                                            ? list->size()
                                                                                      : 0;
    auto s =
        Sizes{.f = f,
              .layers = length > 0 && length < 100000 ? static_cast<int>(length)
                                                      : f.needed("num_hidden_layers", "the number of layers"),
              .hidden = f.needed("hidden_size", "the width of the model"),
              .heads = 0};
    auto model = Model{.name = f.type(), .hidden = s.hidden};
    if (f.has("attention-experts"))
        s.heads = f.at(0, "num_key_value_heads", 0) * f.at(0, "num_experts_per_tok", 0);
    if (!f.has("state") && s.heads == 0) s.heads = f.needed("num_attention_heads", "the number of heads");
    model.vocabulary = f.needed("vocab_size", "the size of the vocabulary");
    model.tied = f.is("tie_word_embeddings");
    s.mixers = mixers(s);
    const auto some_full = s.mixers.find('F') != std::string::npos || f.gives("layer_types");
    if (f.has("last-full") || (f.has("some-full") && !some_full)) s.mixers.back() = 'F';
    s.shared_layers = f.at(0, "num_kv_shared_layers", 0);
    s.experts = experts(s);
    // DeepSeek trains with as many groups of experts as nodes.
    if (const auto groups = f.number("n_group", 0); groups && *groups > 1)
        model.most_nodes = f.at(0, "topk_group", 0);
    for (int i = 0; i < s.layers; ++i) model.add(1, layer_at(s, i));
    extras(s, model);
    return model;
}

}  // namespace of_config_file

Model of_config(const Fields& given, Checkpoint& checkpoint) {
    using namespace of_config_file;
    if (!given.values().is_object()) given.fail("is not a JSON object");
    // MLX writes quantization, in later versions both.
    for (const auto* key : {"quantization_config", "quantization"})
        if (const auto* quantized = given.find(key); quantized != nullptr && !checkpoint.weights)
            read_quantization(*quantized, checkpoint);
    const auto type = given.word("model_type");
    for (const auto& [key, what] :
         {std::pair("peft_type", "is of an adapter; give the config.json of its base model"),
          {"draft_vocab_size", "is of a draft that guesses tokens; give the config.json of the model itself"},
          {"n_layers",
           "is in the form of Meta's and Mistral's own code; give the config.json for transformers"}})
        if (given.find(key) != nullptr && (type.empty() || key == std::string_view("draft_vocab_size")))
            given.fail(what);
    // A model with images or sound holds its language model in one of these; what stands beside it is not
    // counted, except whether embedding and head are tied. transformers mostly decides that outside.
    const auto by = value_in("~", type);
    constexpr auto tie = "tie_word_embeddings";
    for (const auto* key : {"thinker_config", "text_config", "llm_config", "language_config"}) {
        const auto* inner = given.find(key);
        if (inner == nullptr || !inner->is_object() || given.find("num_hidden_layers") != nullptr ||
            by == "refused")
            continue;
        auto values = *inner;
        if (!values.contains("model_type") && !type.empty())
            values["model_type"] = Family::is_known(type + "_text") ? type + "_text" : type;
        const auto source = cat(given.source(), " in ", key);
        const auto text = Fields(source, values);
        const auto inside = text.word("model_type");
        const auto says = text.find(tie) != nullptr, said = given.find(tie) != nullptr;
        const auto own = says ? text.is(tie) : Family::is_known(inside) && value_in(inside, tie) == "true";
        auto both = said ? given.is(tie) : by == "true" || (by != "false" && own);
        if (by == "inner" || (by == "either" && own)) both = own;
        if (both != own && (says || !said))
            checkpoint.notes.push_back(cat("embedding and head are ", both ? "one matrix" : "two matrices",
                                           ", as transformers builds ", type, ", although ", key,
                                           " alone says otherwise"));
        values[tie] = both;
        auto model = of_config(Fields(source, values), checkpoint);
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
    const auto unused = family.unused();
    // Without a type, nobody knows what other keys say of sizes.
    for (const auto& name : unused)
        if (type.empty() && has_part(name, {"expert", "moe", "heads", "group", "_dim", "rank", "types"}))
            given.fail(cat("has no model_type, so plan cannot know what ", name, " means; add model_type"));
    if (!unused.empty()) checkpoint.notes.push_back(cat("not used: ", detail::listed(unused)));
    return model;
}

}  // namespace rankmesh::plan::of_read
