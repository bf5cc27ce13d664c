// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/model.hpp>

#include <numeric>

#include "plan/csv.hpp"

namespace rankmesh::plan {

namespace of_model {

/// Limits of sizes; products of larger sizes might not fit in 64 bits.
constexpr int most_layers = 100000;
constexpr int most_width = 1 << 24;
constexpr int most_experts = 1 << 16;
constexpr auto too_many = std::int64_t{1} << 52;

Parameters::OfLayer parameters(const Layer& layer, std::int64_t hidden) {
    const std::int64_t matrices = layer.gated ? 3 : 2;
    const std::int64_t heads = layer.heads, head = layer.head_dim, value = layer.value_dim;
    auto count = Parameters::OfLayer{};
    count.mixer = layer.weights;
    if (layer.kv_rank > 0) {
        // Without a query rank, queries are projected directly from the hidden state.
        const auto query = heads * (head + layer.rope_dim);
        count.mixer += heads * value * hidden;
        count.mixer += layer.q_rank > 0 ? (hidden + query) * layer.q_rank : hidden * query;
        count.mixer += hidden * (layer.kv_rank + layer.rope_dim) + heads * (head + value) * layer.kv_rank;
    } else {
        count.mixer +=
            hidden * (heads * ((layer.gate ? 2 : 1) * head + value) + layer.kv_heads * (head + value));
    }
    count.expert = matrices * hidden * layer.expert_ffn;
    count.beside = count.mixer + matrices * hidden * (std::int64_t{layer.ffn} + layer.shared_ffn) +
                   hidden * layer.experts + 2 * hidden + layer.more;
    // The product of two sizes of 2^24 and 2^16 experts does not fit in 64 bits.
    const auto all = static_cast<double>(count.expert) * layer.experts;
    count.all = all > 1e15 ? too_many : count.beside + count.expert * layer.experts;
    count.active = count.beside + count.expert * layer.top_k;
    return count;
}

void check(const Layer& layer, const std::string& of) {
    check_sizes(layer, of, most_width);
    const auto refuse = [&](const auto&... parts) { throw UsageError(cat(of, " has ", parts...)); };
    if (layer.heads > 0 && (layer.state == 0 || layer.head_dim > 0)) {
        if (layer.head_dim < 1) refuse("head_dim=0; it takes 1 to ", most_width);
        if (layer.value_dim < 1) refuse("value_dim=0; it takes 1 to ", most_width);
        if (layer.kv_heads > 0 && (layer.kv_heads > layer.heads || layer.heads % layer.kv_heads != 0))
            refuse(layer.heads, " heads and ", layer.kv_heads,
                   " kv heads; heads must be a multiple of kv heads");
        if (std::int64_t{layer.heads} * std::max(layer.head_dim, layer.value_dim) > most_width)
            refuse(layer.heads, " heads of ", layer.head_dim, "; together they take at most ", most_width);
        if (layer.kv_rank == 0 && (layer.q_rank > 0 || layer.rope_dim > 0))
            refuse("sizes of latent attention, but kv_rank=0; it takes 1 or more");
    }
    if ((layer.state > 0) != (layer.weights > 0)) refuse("only one of state and weights; it takes both");
    if (layer.state > 0 && layer.heads < 1) refuse("a state, but heads=0; it takes 1 or more");
    if (layer.experts == 0) {
        if (layer.top_k > 0 || layer.expert_ffn > 0 || layer.shared_ffn > 0)
            refuse("no experts, but sizes of them; it takes experts=1 or more");
        if (layer.heads == 0 && layer.ffn == 0)
            refuse("a layer without heads, ffn and experts; it takes one of them");
        return;
    }
    if (layer.experts > most_experts) refuse(layer.experts, " experts; it takes at most ", most_experts);
    if (layer.top_k < 1 || layer.top_k > layer.experts)
        refuse("top_k=", layer.top_k, "; with ", layer.experts, " experts it takes 1 to ", layer.experts);
    if (layer.expert_ffn < 1) refuse("experts, but expert_ffn=0; it takes 1 or more");
}

}  // namespace of_model

void Model::add(int count, const Layer& layer) {
    if (count <= 0) return;
    const auto kind = static_cast<int>(std::ranges::find(kinds, layer) - kinds.begin());
    if (kind == std::ssize(kinds)) kinds.push_back(layer);
    if (runs.empty() || runs.back().kind != kind) runs.push_back({kind, 0});
    runs.back().count =
        std::min(of_model::most_layers + 1, runs.back().count + std::min(count, of_model::most_layers + 1));
}

int Model::layers() const {
    auto all = 0;
    for (const auto& run : runs) all += run.count;
    return all;
}

std::vector<int> Model::counts() const {
    auto all = std::vector<int>(kinds.size());
    for (const auto& run : runs) all[static_cast<std::size_t>(run.kind)] += run.count;
    return all;
}

int Model::most(int Layer::*size) const {
    auto found = 0;
    for (const auto& kind : kinds) found = std::max(found, kind.*size);
    return found;
}

int Model::kv_heads() const {
    auto found = 0;
    for (const auto& kind : kinds)
        if (kind.kv_heads > 0 && kind.kv_rank == 0)
            found = found == 0 ? kind.kv_heads : std::min(found, kind.kv_heads);
    return found;
}

int Model::experts() const {
    auto all = 0;
    for (const auto& kind : kinds) all = std::gcd(all, kind.experts);
    return all;
}

void check(const Model& model) {
    const auto of =
        cat("the model", model.name.empty() ? "" : " ", model.name.empty() ? "" : in_quotes(model.name));
    auto layers = std::int64_t{0};
    for (const auto& run : model.runs) {
        if (run.kind < 0 || run.kind >= std::ssize(model.kinds) || run.count < 1)
            throw UsageError(cat(of, " has a run of ", run.count, " layers of kind ", run.kind, " of ",
                                 model.kinds.size(), "; it takes 1 or more of a kind of the model"));
        layers += run.count;
    }
    if (layers < 1 || layers > of_model::most_layers)
        throw UsageError(cat(of, " has layers=", layers, "; it takes 1 to ", of_model::most_layers));
    for (const auto& [name, size] : {std::pair{"hidden", model.hidden}, {"vocabulary", model.vocabulary}})
        if (size < 1 || size > of_model::most_width)
            throw UsageError(cat(of, " has ", name, "=", size, "; it takes 1 to ", of_model::most_width));
    if (model.most_nodes < 0)
        throw UsageError(cat(of, " has most_nodes=", model.most_nodes, "; it takes 0 or more"));
    if (model.sequence < 0)
        throw UsageError(cat(of, " has a sequence of ", model.sequence, " tokens; it takes 0 or more"));
    if (model.predictors < 0 || model.predictors > 1000)
        throw UsageError(cat(of, " has mtp=", model.predictors, "; it takes 0 to 1000"));
    for (const auto& kind : model.kinds) of_model::check(kind, of);
    if (const auto total = parameters(model).total; total < 1 || total > std::int64_t{1} << 50)
        throw UsageError(
            cat(of, " has ", total, " parameters; it takes ", total < 1 ? "1 or more" : "at most 2^50"));
}

Parameters parameters(const Model& model) {
    auto count = Parameters{.embedding = std::int64_t{model.hidden} * model.vocabulary};
    count.total = count.active = count.embedding * (model.tied ? 1 : 2) + model.hidden + model.more;
    const auto counts = model.counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto& one = count.kinds.emplace_back(of_model::parameters(model.kinds[i], model.hidden));
        if (static_cast<double>(one.all) * counts[i] + static_cast<double>(count.total) > 4e15) {
            count.total = count.active = of_model::too_many;
            continue;
        }
        if (count.total == of_model::too_many) continue;
        count.total += one.all * counts[i];
        count.active += one.active * counts[i];
    }
    // Two states are joined before a further layer (DeepSeek-V3, arXiv 2412.19437, 2.2).
    if (model.predictors > 0 && count.total < of_model::too_many)
        count.total += model.predictors * (count.kinds[static_cast<std::size_t>(model.runs.back().kind)].all +
                                           2 * std::int64_t{model.hidden} * model.hidden);
    return count;
}

std::string layers_text(const Model& model) {
    auto words = std::vector<std::pair<std::string, int>>{};
    const auto counts = model.counts();
    const auto add = [&](int count, const std::string& word) {
        const auto found = std::ranges::find(words, word, &std::pair<std::string, int>::first);
        if (found == words.end()) return words.emplace_back(word, count), void();
        found->second += count;
    };
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto& one = model.kinds[i];
        const auto heads = one.kv_heads > 0 ? counted(one.kv_heads, "kv head") : "keys of earlier layers";
        if (one.state > 0) add(counts[i], "with a state");
        if (one.head_dim == 0) continue;
        if (one.kv_rank > 0)
            add(counts[i], "latent attention");
        else if (one.window > 0)
            add(counts[i], cat("attention in a window of ", one.window, " (", heads, ")"));
        else
            add(counts[i], cat("attention (", heads, ")"));
    }
    for (std::size_t i = 0; i < counts.size(); ++i)
        if (const auto& one = model.kinds[i]; one.experts > 0)
            add(counts[i], cat("experts (", one.experts, ", ", one.top_k, " a token)"));
        else if (one.ffn > 0)
            add(counts[i], "dense");
    auto text = cat(counted(model.layers(), "layer"), ":");
    for (const auto& [word, count] : words) text += cat(text.back() == ':' ? " " : ", ", count, " ", word);
    return text;
}

std::vector<Model> read_models(std::string_view text, std::string_view file) {
    const auto csv = Csv(text, file);
    csv.require({"model", "sizes"});
    auto models = std::vector<Model>{};
    for (std::size_t row = 0; row < csv.size(); ++row) {
        auto& model = models.emplace_back(read_line(csv.text(row, "sizes"), csv.place(row)));
        model.name = csv.text(row, "model");
        check_at(csv.place(row), model);
    }
    return models;
}

std::span<const Model> models() {
    static const auto all = read_models(models_csv, "src/plan/data/models.csv");
    return all;
}

}  // namespace rankmesh::plan
