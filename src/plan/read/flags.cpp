// SPDX-License-Identifier: Apache-2.0
// Reads Megatron's flags from a line, or from a shell script that sets variables.
#include <algorithm>
#include <charconv>
#include <map>

#include <rankmesh/core/detail/number.hpp>

#include "formats/text.hpp"
#include "plan/read/fields.hpp"
#include "plan/stages.hpp"

namespace rankmesh::plan::of_read {

namespace of_flags_text {

/// Returns the words of a shell text, without quotes, comments and the brackets of lists.
std::vector<std::string> words_of(std::string_view text) {
    auto words = std::vector<std::string>{};
    auto word = std::string{};
    const auto end = [&] {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
    };
    auto round = 0;  // open brackets inside a quoted word, as in --moe-layer-freq
    auto quote = '\0';
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = text[i];
        if (quote != '\0' && c == quote) {
            quote = '\0';
        } else if (quote == '\0' && (c == '"' || c == '\'')) {
            quote = c;
        } else if (quote == '\0' && c == '#' && word.empty()) {
            while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || (c == '\\' && quote == '\0')) {
            // Flags in one quoted text, as in ARGS="--num-layers 24 ...", are also words.
            end();
            round = 0;
        } else if (quote == '\0' && c == '(' && (word.empty() || word.back() == '=')) {
            end();
        } else if (quote == '\0' && c == ')' && round == 0) {
            end();
        } else {
            round += c == '(' ? 1 : c == ')' ? -1 : 0;
            word += c;
        }
    }
    end();
    return words;
}

bool is_variable(std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
}

Json value_of(std::string_view word) {
    if (const auto number = detail::number_in<std::int64_t>(word)) return *number;
    return std::string(word);
}

/// Returns flags by name without dashes; true if no value follows.
Json flags_in(std::string_view text, const std::string& source) {
    auto variables = std::map<std::string, std::string, std::less<>>{};
    auto all = Json::object();
    auto name = std::string{};
    for (auto word : words_of(text)) {
        if (const auto equals = word.find('='); !word.starts_with('-') && equals != std::string::npos &&
                                                is_variable(std::string_view(word).substr(0, equals))) {
            variables[word.substr(0, equals)] = word.substr(equals + 1);
            word.erase(0, equals + 1);
            name.clear();
        }
        if (word.starts_with("--")) {
            const auto equals = word.find('=');
            name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
            std::ranges::replace(name, '_', '-');
            if (all.contains(name))
                throw UsageError(cat(source, ": --", detail::excerpt(name), " is given twice; give it once"));
            if (all.size() == 10'000)
                throw UsageError(cat(source, ": has more than 10000 flags; give only flags of the model"));
            all.add(name, true);
            if (equals == std::string::npos) continue;
            word.erase(0, equals + 1);
        }
        if (name.empty()) continue;
        if (word.starts_with('$')) {
            auto variable = std::string_view(word).substr(1);
            if (variable.starts_with('{') && variable.ends_with('}'))
                variable = variable.substr(1, variable.size() - 2);
            if (const auto known = variables.find(variable); known != variables.end()) word = known->second;
        }
        all[name] = value_of(word);
        name.clear();
    }
    return all;
}

/// Returns the number of dense layers at the front, from `--moe-layer-freq ([0]*3+[1]*58)`.
int dense_layers(const Fields& fields, int layers) {
    const auto* value = fields.find({"moe-layer-freq"});
    if (value == nullptr || *value == Json(1)) return 0;
    auto pattern = value->is_string() ? value->text() : value->dump();
    const auto given = pattern;
    std::erase_if(pattern, [](char c) { return c == '(' || c == ')' || c == ' '; });
    auto kinds = std::vector<std::pair<char, int>>{};
    auto rest = std::string_view(pattern);
    while (rest.size() >= 3 && rest[0] == '[' && (rest[1] == '0' || rest[1] == '1') && rest[2] == ']') {
        const auto kind = rest[1];
        auto times = 1;
        rest.remove_prefix(3);
        if (rest.starts_with('*')) {
            const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), times);
            if (error != std::errc{} || times < 0) break;
            rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        }
        kinds.emplace_back(kind, times);
        if (rest.empty()) break;
        if (!rest.starts_with('+')) break;
        rest.remove_prefix(1);
    }
    const auto dense = kinds.size() == 2 && kinds[0].first == '0' && kinds[1].first == '1';
    if (rest.empty() && dense && kinds[1].second == layers - kinds[0].second) return kinds[0].second;
    if (rest.empty() && kinds.size() == 1 && kinds[0].first == '1' && kinds[0].second == layers) return 0;
    fields.fail(cat("--moe-layer-freq is ", in_quotes(given),
                    "; plan supports 1, and dense layers in front as in ([0]*3+[1]*",
                    layers > 3 ? layers - 3 : 1, ") for ", layers, " layers"));
}

}  // namespace of_flags_text

Model of_flags(const std::string& text, const std::string& source) {
    using namespace of_flags_text;
    const auto fields = Fields(source, flags_in(text, source));
    const auto has = [&](std::string_view name) { return fields.find({name}) != nullptr; };
    const auto needed = [&](std::string_view name, std::string_view what) {
        if (const auto value = fields.number({name})) return *value;
        fields.fail(cat("has no --", name, ", ", what, "; add it"));
    };
    auto model = Model{};
    auto layer = Layer{};
    const auto layers = needed("num-layers", "the number of layers");
    model.hidden = needed("hidden-size", "the width of the model");
    layer.heads = needed("num-attention-heads", "the number of heads");
    layer.kv_heads = has("group-query-attention") || has("num-query-groups")
                         ? needed("num-query-groups", "the groups of grouped-query attention")
                         : layer.heads;
    layer.gated = has("swiglu");
    const auto vocabulary = fields.number({"padded-vocab-size", "vocab-size"});
    if (!vocabulary)
        fields.fail("has no --vocab-size, because Megatron takes it from the tokenizer; add --vocab-size N");
    model.vocabulary = *vocabulary;
    if (const auto ffn = fields.number({"ffn-hidden-size"})) {
        layer.ffn = *ffn;
    } else {
        if (model.hidden > 100'000'000)
            fields.fail(cat("--hidden-size is ", model.hidden, ", which is too large"));
        layer.ffn = layer.gated ? model.hidden * 8 / 3 / 64 * 64 : 4 * model.hidden;
    }
    model.tied = !has("untie-embeddings-and-output-weights");
    model.sequence = fields.number({"seq-length"}).value_or(0);
    if (has("multi-latent-attention")) {
        layer.q_rank = fields.number({"q-lora-rank"}).value_or(0);
        layer.kv_rank = fields.number({"kv-lora-rank"}).value_or(32);
        layer.head_dim = fields.number({"qk-head-dim"}).value_or(128);
        layer.rope_dim = fields.number({"qk-pos-emb-head-dim"}).value_or(64);
        layer.value_dim = fields.number({"v-head-dim"}).value_or(128);
        layer.kv_heads = layer.heads;
    } else {
        const auto dim = fields.number({"kv-channels"});
        layer.head_dim = layer.value_dim =
            dim ? *dim : divided(fields, "--hidden-size", model.hidden, "--num-attention-heads", layer.heads);
    }
    layer.experts = fields.number({"num-experts"}, 0).value_or(0);
    auto dense = 0;
    if (layer.experts > 0) {
        layer.top_k = fields.number({"moe-router-topk"}).value_or(2);
        layer.expert_ffn = fields.number({"moe-ffn-hidden-size"}).value_or(layer.ffn);
        layer.shared_ffn = fields.number({"moe-shared-expert-intermediate-size"}, 0).value_or(0);
        dense = dense_layers(fields, layers);
        if (fields.number({"moe-router-num-groups"}).value_or(1) > 1)
            model.most_nodes = fields.number({"moe-router-group-topk"}).value_or(0);
    }
    add_layers(model, layers, layer, dense, 0);
    return model;
}

}  // namespace rankmesh::plan::of_read
