// SPDX-License-Identifier: Apache-2.0
// Reads and writes a model as a line of sizes.
#include <algorithm>
#include <array>
#include <map>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/plan/read.hpp>

#include "formats/text.hpp"
#include "plan/names.hpp"
#include "plan/read/fields.hpp"

namespace rankmesh::plan {

namespace of_read {

namespace of_line_text {

/// One size by its name in a line.
struct Size {
    std::string_view name;
    int Model::*value;
    int least = 1;
};

constexpr auto sizes = std::array<Size, 18>{{{"layers", &Model::layers},
                                             {"hidden", &Model::hidden},
                                             {"heads", &Model::heads},
                                             {"kv", &Model::kv_heads},
                                             {"head_dim", &Model::head_dim},
                                             {"ffn", &Model::ffn},
                                             {"vocab", &Model::vocabulary},
                                             {"experts", &Model::experts},
                                             {"topk", &Model::top_k},
                                             {"expert_ffn", &Model::expert_ffn},
                                             {"shared", &Model::shared_ffn, 0},
                                             {"dense", &Model::dense_layers, 0},
                                             {"q_rank", &Model::q_rank},
                                             {"kv_rank", &Model::kv_rank},
                                             {"rope", &Model::rope_dim},
                                             {"most_nodes", &Model::most_nodes},
                                             {"window", &Model::window},
                                             {"seq", nullptr}}};
constexpr auto flags = std::array<std::pair<std::string_view, bool Model::*>, 2>{
    {{"gated", &Model::gated}, {"tied", &Model::tied}}};

/// Returns the name of a size in rankmesh, for its name or a common alias.
std::string_view plain(std::string_view name) {
    static const auto others = std::map<std::string_view, std::string_view>{
        {"kv_heads", "kv"},        {"vocabulary", "vocab"}, {"top_k", "topk"},   {"shared_ffn", "shared"},
        {"dense_layers", "dense"}, {"rope_dim", "rope"},    {"sequence", "seq"}, {"moe_ffn", "expert_ffn"}};
    const auto found = others.find(name);
    return found == others.end() ? name : found->second;
}

int value_of(std::string_view source, std::string_view name, std::string_view text, int least) {
    const auto value = detail::number_in(text);
    if (!value || *value < least)
        throw UsageError(cat(source, ": ", name, " is ", in_quotes(text), "; it must be a whole number from ",
                             least, " to 2147483647"));
    return *value;
}

}  // namespace of_line_text

Model of_line(std::string_view text, const std::string& source) {
    using namespace of_line_text;
    auto model = Model{};
    auto seen = std::vector<std::string_view>{};
    for_each_word(text, [&](std::string_view word) {
        const auto equals = word.find('=');
        const auto name = plain(word.substr(0, equals));
        const auto value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
        if (std::ranges::find(seen, name) != seen.end())
            throw UsageError(cat(source, ": ", name, " is given twice; give it once"));
        const auto size = std::ranges::find(sizes, name, &Size::name);
        const auto flag = std::ranges::find(flags, name, &std::pair<std::string_view, bool Model::*>::first);
        if (flag != flags.end() && equals == std::string_view::npos) {
            model.*(flag->second) = true;
        } else if (name == "name" && !value.empty()) {
            model.name = checked_name(value);
        } else if (size != sizes.end()) {
            const auto number = value_of(source, name, value, size->least);
            if (size->value == nullptr)
                model.sequence = number;
            else
                model.*(size->value) = number;
        } else {
            auto names = std::vector<std::string_view>{"name", "gated", "tied"};
            for (const auto& one : sizes) names.push_back(one.name);
            auto words = std::vector<std::string>(names.begin(), names.end());
            throw UsageError(cat(source, ": ", in_quotes(word), " is not a size of a model; sizes are ",
                                 detail::listed(words), did_you_mean(name, names)));
        }
        seen.push_back(name);
    });
    const auto has = [&](std::string_view name) { return std::ranges::find(seen, name) != seen.end(); };
    for (const auto* name : {"layers", "hidden", "heads", "vocab"})
        if (!has(name)) throw UsageError(cat(source, ": has no ", name, "; add ", name, "=N"));
    if (!has("ffn") && !has("expert_ffn")) throw UsageError(cat(source, ": has no ffn; add ffn=N"));
    if (!has("kv")) model.kv_heads = model.heads;
    if (!has("head_dim")) {
        if (model.hidden % model.heads != 0)
            throw UsageError(cat(source, ": hidden ", model.hidden, " is not a multiple of heads ",
                                 model.heads, "; add head_dim=N"));
        model.head_dim = model.hidden / model.heads;
    }
    if (model.experts > 0) {
        if (!has("topk")) throw UsageError(cat(source, ": has experts but no topk; add topk=N"));
        if (!has("expert_ffn")) model.expert_ffn = model.ffn;
    }
    return model;
}

}  // namespace of_read

std::string to_line(const Model& model) {
    using namespace of_read;
    using namespace of_read::of_line_text;
    auto text = model.name.empty() ? std::string{} : cat("name=", model.name);
    const auto add = [&](const std::string& word) { text += cat(text.empty() ? "" : " ", word); };
    for (const auto& size : sizes) {
        if (size.value != nullptr && model.*(size.value) != 0) add(cat(size.name, "=", model.*(size.value)));
        if (size.name == "ffn")
            for (const auto& [name, value] : flags)
                if (model.*value) add(std::string(name));
    }
    if (model.sequence > 0) add(cat("seq=", model.sequence));
    return text;
}

}  // namespace rankmesh::plan
