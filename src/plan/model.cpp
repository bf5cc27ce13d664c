// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/model.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "plan/csv.hpp"
#include "plan/data.hpp"

namespace rankmesh::plan {

using detail::cat;
using detail::in_quotes;

namespace of_model {

/// Limits of sizes; products of larger sizes might not fit in 64 bits.
constexpr int most_layers = 100000;
constexpr int most_width = 1 << 24;
constexpr int most_experts = 1 << 16;

}  // namespace of_model

void check(const Model& model) {
    const auto of = [&] {
        return cat("the model", model.name.empty() ? "" : " ",
                   model.name.empty() ? "" : in_quotes(model.name));
    };
    using Size = std::pair<const char*, int>;
    const auto width = of_model::most_width;
    const auto at_least_one =
        std::array{Size{"layers", model.layers},     Size{"hidden", model.hidden},
                   Size{"heads", model.heads},       Size{"kv_heads", model.kv_heads},
                   Size{"head_dim", model.head_dim}, Size{"vocabulary", model.vocabulary}};
    for (const auto& [name, size] : at_least_one) {
        const auto most = std::string_view(name) == "layers" ? of_model::most_layers : width;
        if (size < 1 || size > most)
            throw UsageError(cat(of(), " has ", name, "=", size, "; it takes 1 to ", most));
    }
    const auto not_negative = std::array{Size{"ffn", model.ffn},
                                         Size{"experts", model.experts},
                                         Size{"top_k", model.top_k},
                                         Size{"expert_ffn", model.expert_ffn},
                                         Size{"shared_ffn", model.shared_ffn},
                                         Size{"dense_layers", model.dense_layers},
                                         Size{"q_rank", model.q_rank},
                                         Size{"kv_rank", model.kv_rank},
                                         Size{"rope_dim", model.rope_dim},
                                         Size{"most_nodes", model.most_nodes},
                                         Size{"window", model.window}};
    for (const auto& [name, size] : not_negative)
        if (size < 0 || size > width)
            throw UsageError(cat(of(), " has ", name, "=", size, "; it takes 0 to ", width));
    if (model.sequence < 0)
        throw UsageError(cat(of(), " has a sequence of ", model.sequence, " tokens; it takes 0 or more"));
    if (model.kv_heads > model.heads || model.heads % model.kv_heads != 0)
        throw UsageError(cat(of(), " has ", model.heads, " heads and ", model.kv_heads,
                             " kv heads; heads must be a multiple of kv heads"));
    if (static_cast<std::int64_t>(model.heads) * model.head_dim > width)
        throw UsageError(cat(of(), " has ", model.heads, " heads of ", model.head_dim,
                             "; together they take at most ", width));
    if (model.experts == 0) {
        if (model.ffn < 1) throw UsageError(cat(of(), " has ffn=0; a model without experts takes 1 or more"));
        if (model.top_k > 0 || model.expert_ffn > 0 || model.shared_ffn > 0 || model.dense_layers > 0)
            throw UsageError(cat(of(), " has no experts, but sizes of them; it takes experts=1 or more"));
    } else {
        if (model.experts > of_model::most_experts)
            throw UsageError(
                cat(of(), " has ", model.experts, " experts; it takes at most ", of_model::most_experts));
        if (model.top_k < 1 || model.top_k > model.experts)
            throw UsageError(cat(of(), " has top_k=", model.top_k, "; with ", model.experts,
                                 " experts it takes 1 to ", model.experts));
        if (model.expert_ffn < 1)
            throw UsageError(cat(of(), " has experts, but expert_ffn=0; it takes 1 or more"));
        if (model.dense_layers > model.layers)
            throw UsageError(cat(of(), " has ", model.dense_layers, " dense layers of ", model.layers));
        if (model.dense_layers > 0 && model.ffn < 1)
            throw UsageError(
                cat(of(), " has ffn=0; its ", model.dense_layers, " dense layers take 1 or more"));
    }
    if (model.kv_rank == 0 && (model.q_rank > 0 || model.rope_dim > 0))
        throw UsageError(cat(of(), " has sizes of latent attention, but kv_rank=0; it takes 1 or more"));
    if (const auto total = parameters(model).total; total > std::int64_t{1} << 50)
        throw UsageError(cat(of(), " has ", total, " parameters; it takes at most 2^50"));
}

Parameters parameters(const Model& model) {
    const std::int64_t hidden = model.hidden;
    const std::int64_t matrices = model.gated ? 3 : 2;
    const std::int64_t heads = model.heads, head = model.head_dim;
    auto count = Parameters{};
    count.attention = heads * head * hidden;
    if (model.kv_rank > 0) {
        // Without a query rank, queries are projected directly from the hidden state.
        const std::int64_t query = heads * (head + model.rope_dim);
        count.attention += model.q_rank > 0 ? (hidden + query) * model.q_rank : hidden * query;
        count.attention += hidden * (model.kv_rank + model.rope_dim) + heads * 2 * head * model.kv_rank;
    } else {
        count.attention += hidden * (heads + 2 * std::int64_t{model.kv_heads}) * head;
    }
    const auto norms = 2 * hidden;
    count.dense_layer = count.attention + matrices * hidden * model.ffn + norms;
    count.expert = matrices * hidden * model.expert_ffn;
    const auto router = hidden * model.experts;
    const auto shared = matrices * hidden * model.shared_ffn;
    // The product of two sizes of 2^24 and 2^16 experts does not fit in 64 bits.
    const auto beside = count.attention + router + shared + norms;
    const auto all = static_cast<double>(count.expert) * model.experts;
    constexpr auto too_many = std::int64_t{1} << 52;
    count.expert_layer = all > 1e15 ? too_many : beside + count.expert * model.experts;
    count.embedding = hidden * model.vocabulary;
    const auto dense = model.experts == 0 ? model.layers : model.dense_layers;
    const auto others = count.embedding * (model.tied ? 1 : 2) + hidden;
    const auto sum = static_cast<double>(count.dense_layer) * dense +
                     static_cast<double>(count.expert_layer) * (model.layers - dense);
    if (sum > 4e15) {
        count.total = count.active = too_many;
        return count;
    }
    count.total = others + dense * count.dense_layer + (model.layers - dense) * count.expert_layer;
    count.active =
        others + dense * count.dense_layer + (model.layers - dense) * (beside + count.expert * model.top_k);
    return count;
}

std::vector<Model> read_models(std::string_view text, std::string_view file) {
    const auto csv = Csv(text, file);
    csv.require({"model", "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated_mlp",
                 "vocab", "tied_embeddings", "experts", "topk", "moe_ffn", "shared_expert_ffn",
                 "dense_layers", "default_seq"});
    auto models = std::vector<Model>{};
    for (std::size_t row = 0; row < csv.size(); ++row) {
        const auto size = [&](std::string_view column) {
            return static_cast<int>(csv.count(row, column).value_or(0));
        };
        auto model = Model{.name = std::string(csv.text(row, "model")),
                           .layers = size("layers"),
                           .hidden = size("hidden"),
                           .heads = size("heads"),
                           .kv_heads = size("kv_heads"),
                           .head_dim = size("head_dim"),
                           .ffn = size("ffn_hidden"),
                           .gated = size("gated_mlp") != 0,
                           .vocabulary = size("vocab"),
                           .tied = size("tied_embeddings") != 0,
                           .experts = size("experts"),
                           .top_k = size("topk"),
                           .expert_ffn = size("moe_ffn"),
                           .shared_ffn = size("shared_expert_ffn"),
                           .dense_layers = size("dense_layers"),
                           .q_rank = size("q_rank"),
                           .kv_rank = size("kv_rank"),
                           .rope_dim = size("rope_dim"),
                           .most_nodes = size("most_nodes"),
                           .window = size("window"),
                           .sequence = size("default_seq")};
        if (model.layers == 0 || model.heads == 0) continue;
        try {
            check(model);
        } catch (const UsageError& error) {
            throw UsageError(cat(csv.place(row), ": ", error.what()));
        }
        models.push_back(std::move(model));
    }
    return models;
}

std::span<const Model> models() {
    static const auto all = read_models(models_csv, "src/plan/data/models.csv");
    return all;
}

}  // namespace rankmesh::plan
