// SPDX-License-Identifier: Apache-2.0
// A model as a line of words: `layers=32 hidden=4096 heads=32`.
#include <array>
#include <map>
#include <variant>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/plan/model.hpp>

#include "plan/csv.hpp"

namespace rankmesh::plan {

namespace of_line {

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
    auto names = names_of(sizes);
    names.insert(names.begin(), "name");
    throw UsageError(cat(source, ": ", in_quotes(word), " is not a size of a model; sizes are ",
                         listed(names), did_you_mean(word.substr(0, word.find('=')), names)));
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

}  // namespace of_line

void check_sizes(const Layer& layer, std::string_view of, std::int64_t width) {
    for (const auto& size : of_line::sizes) {
        const auto value = of_line::get(layer, size.place);
        const auto most = size.is<std::int64_t>() ? of_line::most_wide : width;
        const auto least = size.least < 0 ? -most : 0;
        if (value < least || value > most)
            throw UsageError(cat(of, " has ", size.name, "=", value, "; it takes ", least, " to ", most));
    }
}

Model read_line(std::string_view text, std::string_view source) {
    using namespace of_line;
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
    using namespace of_line;
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

}  // namespace rankmesh::plan
