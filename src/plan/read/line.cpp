// SPDX-License-Identifier: Apache-2.0
// Reads and writes a model as a line of sizes.
#include <algorithm>
#include <array>
#include <map>
#include <variant>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/plan/read.hpp>

#include "formats/text.hpp"
#include "plan/names.hpp"
#include "plan/read/fields.hpp"
#include "plan/stages.hpp"

namespace rankmesh::plan {

namespace of_read {

namespace of_line_text {

/// Where the number of a word belongs.
using Place = std::variant<int Layer::*, bool Layer::*, std::int64_t Layer::*, int Model::*, bool Model::*,
                           std::int64_t Model::*>;

struct Size {
    std::string_view name;
    Place place;
    std::int64_t least = 0;
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
     {"more", &Layer::more, -1},     {"layers", &Model::hidden, 1},      {"dense", &Model::hidden}}};

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

/// Returns the number of a word; 1 for a size that is true or false without one.
std::int64_t value_of(std::string_view source, const Size& size, std::string_view name,
                      std::string_view word) {
    const auto text = word.substr(std::min(word.size(), word.find('=') + 1));
    const auto is_flag = std::holds_alternative<bool Layer::*>(size.place) ||
                         std::holds_alternative<bool Model::*>(size.place);
    if (is_flag && word == size.name) return 1;
    const auto is_wide = std::holds_alternative<std::int64_t Layer::*>(size.place) ||
                         std::holds_alternative<std::int64_t Model::*>(size.place);
    const auto value = detail::number_in<std::int64_t>(text);
    const auto most = is_flag ? std::int64_t{1} : is_wide ? std::int64_t{1} << 48 : std::int64_t{2147483647};
    if (!value || *value < (size.least < 0 ? -most : size.least) || *value > most)
        throw UsageError(cat(source, ": ", name, " is ", in_quotes(text), "; it must be a whole number from ",
                             size.least < 0 ? -most : size.least, " to ", most));
    return *value;
}

}  // namespace of_line_text

Model of_line(std::string_view text, const std::string& source) {
    using namespace of_line_text;
    auto model = Model{};
    auto layer = Layer{};
    auto layers = 0, dense = 0;
    auto seen = std::vector<std::string_view>{}, ever = seen;
    const auto in = [](const auto& names, std::string_view name) {
        return std::ranges::find(names, name) != names.end();
    };
    const auto missing = [&](std::string_view name) {
        throw UsageError(cat(source, ": has no ", name, "; add ", name, "=N"));
    };
    const auto end_run = [&] {
        if (!model.runs.empty() && seen.size() < 2)
            throw UsageError(cat(source, ": layers is given twice; give it once"));
        if (in(seen, "heads") && layer.state == 0) {
            if (!in(seen, "kv")) layer.kv_heads = layer.heads;
            if (layer.head_dim == 0 && layer.heads > 0) {
                if (model.hidden % layer.heads != 0)
                    throw UsageError(cat(source, ": hidden ", model.hidden, " is not a multiple of heads ",
                                         layer.heads, "; add head_dim=N"));
                layer.head_dim = model.hidden / layer.heads;
            }
        }
        if ((in(seen, "heads") || in(seen, "head_dim")) && !in(seen, "value_dim"))
            layer.value_dim = layer.head_dim;
        if (layer.experts > 0) {
            if (layer.top_k == 0) throw UsageError(cat(source, ": has experts but no topk; add topk=N"));
            if (layer.expert_ffn == 0) layer.expert_ffn = layer.ffn;
        }
        add_layers(model, layers, layer, dense, 0);
        if (layer.experts > 0)
            layer.ffn = 0;
        else
            layer.top_k = layer.expert_ffn = layer.shared_ffn = 0;
        dense = 0;
        seen.clear();
    };
    // Model sizes count for all runs, wherever they stand.
    for (const auto pass : {0, 1}) {
        for_each_word(text, [&](std::string_view word) {
            const auto name = plain(word.substr(0, word.find('=')));
            const auto size = std::ranges::find(sizes, name, &Size::name);
            if (name == "name" && word.size() > 5) {
                if (pass == 0 && in(ever, name))
                    throw UsageError(cat(source, ": name is given twice; give it once"));
                model.name = checked_name(word.substr(5));
                if (pass == 0) ever.push_back(name);
                return;
            }
            if (size == sizes.end()) {
                auto names = std::vector<std::string_view>{"name"};
                for (const auto& one : sizes) names.push_back(one.name);
                throw UsageError(cat(source, ": ", in_quotes(word), " is not a size of a model; sizes are ",
                                     detail::listed({names.begin(), names.end()}),
                                     did_you_mean(name, names)));
            }
            const auto value = value_of(source, *size, name, word);
            const auto of_run = name == "layers" || name == "dense" || !set(model, size->place, value);
            auto& given = of_run ? seen : ever;
            if (pass == 1 && name == "layers" && layers > 0) end_run();
            if ((pass == 0) != of_run && in(given, name))
                throw UsageError(cat(source, ": ", name, " is given twice; give it once"));
            if ((pass == 0) != of_run) given.push_back(name);
            if (pass == 0) return;
            if (name == "layers")
                layers = static_cast<int>(value);
            else if (name == "dense")
                dense = static_cast<int>(value);
            else if (of_run)
                set(layer, size->place, value);
        });
        if (pass == 0)
            for (const auto* name : {"hidden", "vocab"})
                if (!in(ever, name)) missing(name);
    }
    if (layers == 0) missing("layers");
    if (layer.heads == 0 && model.runs.empty() && !in(seen, "heads")) missing("heads");
    if (layer.ffn == 0 && layer.expert_ffn == 0 && layer.state == 0 && model.runs.empty()) missing("ffn");
    end_run();
    return model;
}

}  // namespace of_read

std::string to_line(const Model& model) {
    using namespace of_read;
    using namespace of_read::of_line_text;
    auto text = model.name.empty() ? std::string{} : cat("name=", model.name);
    const auto add = [&](const Size& size, std::int64_t value) {
        const auto is_flag = std::holds_alternative<bool Layer::*>(size.place) ||
                             std::holds_alternative<bool Model::*>(size.place);
        text += cat(text.empty() ? "" : " ", size.name, is_flag && value == 1 ? "" : cat("=", value));
    };
    for (const auto& size : sizes)
        if (const auto value = get(model, size.place);
            value != 0 && size.name != "layers" && size.name != "dense")
            add(size, value);
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
