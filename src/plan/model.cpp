// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/model.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <rankmesh/core/detail/number.hpp>

#include "plan/csv.hpp"

namespace rankmesh::plan {

namespace of_model {

constexpr auto most_wide = std::int64_t{1} << 48;

/// Where the number of a word belongs; of a run of layers nowhere.
using Place = std::variant<std::monostate, int Layer::*, bool Layer::*, std::int64_t Layer::*, int Model::*,
                           bool Model::*, std::int64_t Model::*>;

struct Size {
    std::string_view name;
    Place place;
    std::int64_t least = 0;

    template <class Number>
    bool is() const {
        return std::holds_alternative<Number Layer::*>(place) ||
               std::holds_alternative<Number Model::*>(place);
    }
};

/// `layers` begins a run of equal layers. A run has the sizes of the run before it that it does not give.
const auto sizes = std::array<Size, 27>{
    {{"hidden", &Model::hidden, 1},  {"vocab", &Model::vocabulary, 1},   {"tied", &Model::tied},
     {"beside", &Model::more, -1},   {"mtp", &Model::predictors},        {"most_nodes", &Model::most_nodes},
     {"seq", &Model::sequence, 1},   {"heads", &Layer::heads},           {"kv", &Layer::kv_heads},
     {"head_dim", &Layer::head_dim}, {"value_dim", &Layer::value_dim},   {"window", &Layer::window},
     {"gate", &Layer::gate},         {"q_rank", &Layer::q_rank},         {"kv_rank", &Layer::kv_rank},
     {"rope", &Layer::rope_dim},     {"state", &Layer::state},           {"weights", &Layer::weights},
     {"ffn", &Layer::ffn},           {"gated", &Layer::gated},           {"experts", &Layer::experts},
     {"topk", &Layer::top_k},        {"expert_ffn", &Layer::expert_ffn}, {"shared", &Layer::shared_ffn},
     {"more", &Layer::more, -1},     {"layers", std::monostate{}, 1},    {"dense", std::monostate{}}}};

template <class Of>
std::int64_t get(const Of& of, const Place& place) {
    return std::visit(
        [&](auto member) -> std::int64_t {
            if constexpr (requires { of.*member; }) return static_cast<std::int64_t>(of.*member);
            return 0;
        },
        place);
}

template <class Of>
bool set(Of& of, const Place& place, std::int64_t value) {
    return std::visit(
        [&](auto member) {
            if constexpr (requires { of.*member = {}; }) {
                of.*member = static_cast<std::remove_cvref_t<decltype(of.*member)>>(value);
                return true;
            }
            return false;
        },
        place);
}

/// Returns the name of a size in rankmesh, for its name or a common alias.
std::string_view plain(std::string_view name) {
    static const auto others = std::map<std::string_view, std::string_view>{
        {"kv_heads", "kv"},        {"vocabulary", "vocab"}, {"top_k", "topk"},   {"shared_ffn", "shared"},
        {"dense_layers", "dense"}, {"rope_dim", "rope"},    {"sequence", "seq"}, {"moe_ffn", "expert_ffn"}};
    const auto found = others.find(name);
    return found == others.end() ? name : found->second;
}

const Size& size_of(std::string_view word, std::string_view source) {
    const auto found = std::ranges::find(sizes, plain(word.substr(0, word.find('='))), &Size::name);
    if (found != sizes.end()) return *found;
    auto names = std::vector<std::string_view>{"name"};
    for (const auto& one : sizes) names.push_back(one.name);
    throw UsageError(cat(source, ": ", in_quotes(word), " is not a size of a model; sizes are ",
                         detail::listed({names.begin(), names.end()}),
                         did_you_mean(word.substr(0, word.find('=')), names)));
}

/// Returns the number of a word; 1 for a size that is true or false without one.
std::int64_t value_of(std::string_view source, const Size& size, std::string_view word) {
    if (size.is<bool>() && word == size.name) return 1;
    const auto text = name_and_value(word).second;
    const auto value = detail::number_in<std::int64_t>(text);
    const auto most = size.is<bool>()           ? std::int64_t{1}
                      : size.is<std::int64_t>() ? most_wide
                                                : std::int64_t{2147483647};
    const auto least = size.least < 0 ? -most : size.least;
    if (!value || *value < least || *value > most)
        throw UsageError(cat(source, ": ", size.name, " is ", in_quotes(text),
                             "; it must be a whole number from ", least, " to ", most));
    return *value;
}

struct Names {
    std::string_view source;
    std::vector<std::string_view> all = {};

    bool has(std::string_view name) const { return std::ranges::find(all, name) != all.end(); }
    void add(std::string_view name) {
        if (has(name)) throw UsageError(cat(source, ": ", name, " is given twice; give it once"));
        all.push_back(name);
    }
};

/// A run of equal layers, while its words are read.
struct Layers {
    int count = 0;
    int dense = 0;  ///< the first ones, which have no experts
    Layer layer = {};

    /// Appends the layers to a model, and keeps the sizes for the next run.
    void end(Model& model, Names& given) {
        if (!model.runs.empty() && given.all.size() < 2) given.add("layers");
        if (given.has("heads") && layer.state == 0) {
            if (!given.has("kv")) layer.kv_heads = layer.heads;
            if (layer.head_dim == 0 && layer.heads > 0) {
                if (model.hidden % layer.heads != 0)
                    throw UsageError(cat(given.source, ": hidden ", model.hidden,
                                         " is not a multiple of heads ", layer.heads, "; add head_dim=N"));
                layer.head_dim = model.hidden / layer.heads;
            }
        }
        if ((given.has("heads") || given.has("head_dim")) && !given.has("value_dim"))
            layer.value_dim = layer.head_dim;
        auto without = layer;
        without.experts = without.top_k = without.expert_ffn = without.shared_ffn = 0;
        if (layer.experts > 0) {
            if (layer.top_k == 0)
                throw UsageError(cat(given.source, ": has experts but no topk; add topk=N"));
            if (layer.expert_ffn == 0) layer.expert_ffn = layer.ffn;
            layer.ffn = 0;
        } else {
            layer = without;
        }
        model.add(std::min(dense, count), without);
        model.add(count - std::min(dense, count), layer);
        count = dense = 0;
        given.all.clear();
    }
};

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

void check_sizes(const Layer& layer, std::string_view of, std::int64_t width) {
    for (const auto& size : of_model::sizes) {
        const auto value = of_model::get(layer, size.place);
        const auto most = size.is<std::int64_t>() ? of_model::most_wide : width;
        const auto least = size.least < 0 ? -most : 0;
        if (value < least || value > most)
            throw UsageError(cat(of, " has ", size.name, "=", value, "; it takes ", least, " to ", most));
    }
}

Model read_line(std::string_view text, std::string_view source) {
    using namespace of_model;
    auto model = Model{};
    auto of_model = Names{source}, of_run = of_model;
    auto words = std::vector<std::pair<const Size*, std::int64_t>>{};  // of runs
    for_each_word(text, [&](std::string_view word) {
        if (word.starts_with("name=") && word.size() > 5) {
            model.name = checked_name(word.substr(5));
            return of_model.add("name");
        }
        const auto& size = size_of(word, source);
        const auto value = value_of(source, size, word);
        // Model sizes count for all runs, wherever they stand.
        if (set(model, size.place, value)) return of_model.add(size.name);
        words.emplace_back(&size, value);
    });
    const auto missing = [&](std::string_view name) {
        throw UsageError(cat(source, ": has no ", name, "; add ", name, "=N"));
    };
    for (const auto* name : {"hidden", "vocab"})
        if (!of_model.has(name)) missing(name);
    auto run = Layers{};
    for (const auto& [size, value] : words) {
        if (size->name == "layers" && run.count > 0) run.end(model, of_run);
        of_run.add(size->name);
        if (size->name == "layers")
            run.count = static_cast<int>(value);
        else if (size->name == "dense")
            run.dense = static_cast<int>(value);
        else
            set(run.layer, size->place, value);
    }
    const auto& layer = run.layer;
    if (run.count == 0) missing("layers");
    if (layer.heads == 0 && model.runs.empty() && !of_run.has("heads")) missing("heads");
    if (layer.ffn == 0 && layer.expert_ffn == 0 && layer.state == 0 && model.runs.empty()) missing("ffn");
    run.end(model, of_run);
    return model;
}

std::string to_line(const Model& model) {
    using namespace of_model;
    auto text = model.name.empty() ? std::string{} : cat("name=", model.name);
    const auto add = [&](const Size& size, std::int64_t value) {
        text += cat(text.empty() ? "" : " ", size.name, size.is<bool>() && value == 1 ? "" : cat("=", value));
    };
    for (const auto& size : sizes)
        if (const auto value = get(model, size.place); value != 0) add(size, value);
    auto before = Layer{};
    for (const auto& run : model.runs) {
        const auto& layer = model.kinds[static_cast<std::size_t>(run.kind)];
        text += cat(text.empty() ? "" : " ", "layers=", run.count);
        for (const auto& size : sizes) {
            const auto value = get(layer, size.place);
            // Without words of their own, kv heads are as many as heads, and values as large as keys.
            auto usual = get(before, size.place);
            if (size.name == "kv" && layer.heads != before.heads && layer.state == 0) usual = layer.heads;
            if (size.name == "value_dim" &&
                (layer.heads != before.heads || layer.head_dim != before.head_dim))
                usual = layer.head_dim;
            if (value != usual) add(size, value);
        }
        before = layer;
    }
    return text;
}

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
