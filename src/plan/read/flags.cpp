// SPDX-License-Identifier: Apache-2.0
// Reads Megatron's flags from a line, or from a shell script that sets variables.
#include <algorithm>
#include <charconv>
#include <map>

#include <rankmesh/core/detail/number.hpp>

#include "formats/text.hpp"
#include "plan/read/family.hpp"

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

/// Reads Python lists such as `([1]*3+[0])*12`. Appends to `list`; false if the text is no list.
bool read_list(std::string_view& text, std::vector<int>& list) {
    do {
        auto part = std::vector<int>{};
        if (text.starts_with('(')) {
            text.remove_prefix(1);
            if (!read_list(text, part) || !text.starts_with(')')) return false;
        } else if (text.starts_with('[')) {
            do {
                text.remove_prefix(1);
                if (text.empty() || (text[0] != '0' && text[0] != '1')) return false;
                part.push_back(text[0] - '0');
                text.remove_prefix(1);
            } while (text.starts_with(','));
            if (!text.starts_with(']')) return false;
        } else {
            return false;
        }
        text.remove_prefix(1);
        auto times = 1;
        while (text.starts_with('*')) {
            auto factor = 0;
            const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), factor);
            if (error != std::errc{} || factor < 0 || factor > 100000 / std::max(1, times)) return false;
            times *= factor;
            text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        }
        if (std::size_t{100000} < list.size() + part.size() * static_cast<std::size_t>(times)) return false;
        for (; times > 0; --times) list.insert(list.end(), part.begin(), part.end());
    } while (text.starts_with('+') && (text.remove_prefix(1), true));
    return true;
}

/// Returns for each layer whether it is of a kind: by a list of 0 and 1, or by N with `by_number(layer, N)`.
template <class ByNumber>
std::vector<int> kinds_of(const Fields& fields, std::string_view flag, int layers,
                          const ByNumber& by_number) {
    const auto* value = fields.find({flag});
    auto all = std::vector<int>{};
    if (value == nullptr) return all;
    if (value->is_number_integer() && *value >= 1 && *value <= layers * std::int64_t{1000}) {
        for (int i = 0; i < layers; ++i) all.push_back(by_number(i, value->get<int>()) ? 1 : 0);
        return all;
    }
    auto text = value->is_string() ? value->text() : value->dump();
    std::erase(text, ' ');
    auto rest = std::string_view(text);
    if (!read_list(rest, all) || !rest.empty() || std::cmp_not_equal(all.size(), layers))
        fields.fail(cat("--", flag, " is ", in_quotes(text),
                        "; it must be a number, or a list of 0 and 1 for ", layers, " layers, such as ([0]*",
                        std::min(3, layers), "+[1]*", std::max(0, layers - 3), ")"));
    return all;
}

/// Names the flags that may change sizes and were not read.
void name_unread(const Fields& fields, Checkpoint& checkpoint) {
    auto unread = std::vector<std::string>{};
    for (const auto& [name, value] : fields.values().items()) {
        const auto has = [&](std::initializer_list<std::string_view> parts) {
            return std::ranges::any_of(parts,
                                       [&](auto part) { return name.find(part) != std::string::npos; });
        };
        if (!fields.was_read(name) &&
            has({"size", "dim", "heads", "layers", "experts", "pattern", "freq", "channels", "variant",
                 "gate", "mtp"}) &&
            !has({"parallel", "pipeline", "batch", "recompute", "router", "bucket", "checkpoint", "rotary",
                  "eval", "log", "divisible", "dataset", "chunk", "loss", "aggregate", "buffer", "segment", "virtual"}))
            unread.push_back("--" + name);
    }
    if (!unread.empty()) checkpoint.notes.push_back(cat("not used: ", detail::listed(unread)));
}

/// Mamba-2 as Megatron builds it (megatron/core/ssm/mamba_mixer.py).
Layer mamba(const Fields& fields, std::int64_t hidden) {
    const std::int64_t n = fields.number({"mamba-state-dim"}).value_or(128);
    const std::int64_t head = fields.number({"mamba-head-dim"}).value_or(64);
    const std::int64_t groups = fields.number({"mamba-num-groups"}).value_or(8);
    const std::int64_t heads =
        fields.number({"mamba-num-heads"}).value_or(static_cast<int>(2 * hidden / head));
    return mamba2(hidden, heads * head, static_cast<int>(heads), n, groups, 4);
}

}  // namespace of_flags_text

Model of_flags(const std::string& text, const std::string& source, Checkpoint& checkpoint) {
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
    layer.gate = has("attention-output-gate");
    layer.experts = fields.number({"num-experts"}, 0).value_or(0);
    auto experts =
        kinds_of(fields, "moe-layer-freq", layers, [](int i, int every) { return i % every == 0; });
    if (layer.experts > 0) {
        layer.top_k = fields.number({"moe-router-topk"}).value_or(2);
        layer.expert_ffn = fields.number({"moe-ffn-hidden-size"}).value_or(layer.ffn);
        layer.shared_ffn = fields.number({"moe-shared-expert-intermediate-size"}, 0).value_or(0);
        if (fields.number({"moe-router-num-groups"}).value_or(1) > 1)
            model.most_nodes = fields.number({"moe-router-group-topk"}).value_or(0);
    }
    // `--window-size 128,0`: the keys before a query.
    auto window = 0;
    if (const auto* value = fields.find({"window-size"})) {
        const auto text = value->is_string() ? value->text() : value->dump();
        const auto at = std::min(text.size(), text.find_first_of("0123456789"));
        if (std::from_chars(text.data() + at, text.data() + text.size(), window).ec != std::errc{} ||
            window < 1)
            fields.fail(cat("--window-size is ", in_quotes(text), "; it must be such as 128,0"));
    }
    const auto windowed = kinds_of(fields, "window-attn-skip-freq", layers,
                                   [](int i, int every) { return (i + 1) % every != 0; });
    const auto linear = kinds_of(fields, "linear-attention-freq", layers,
                                 [](int i, int every) { return (i + 1) % every != 0; });
    const auto pattern = fields.word({"hybrid-override-pattern", "hybrid-layer-pattern"}).value_or("");
    if (!pattern.empty() && std::cmp_not_equal(pattern.size(), layers))
        fields.fail(cat("the hybrid pattern has ", pattern.size(), " layers, but --num-layers is ", layers));
    for (int i = 0; i < layers; ++i) {
        const auto at = static_cast<std::size_t>(i);
        auto one = layer;
        const auto without_attention = [&] {
            one.heads = one.kv_heads = one.head_dim = one.value_dim = one.q_rank = one.kv_rank =
                one.rope_dim = 0;
            one.gate = false;
        };
        if (window > 0 && (windowed.empty() || windowed[at] == 1)) one.window = window;
        if (!linear.empty() && linear[at] == 1) {
            without_attention();
            const auto size = [&](const char* name, int usual) {
                return fields.number({name}).value_or(usual);
            };
            const auto state = delta(model.hidden, size("linear-num-value-heads", 32),
                                     size("linear-num-key-heads", 16), size("linear-key-head-dim", 128),
                                     size("linear-value-head-dim", 128), size("linear-conv-kernel-dim", 4));
            one.heads = state.heads, one.state = state.state, one.weights = state.weights, one.window = 0;
        }
        auto dense = experts.empty() ? layer.experts == 0 : experts[at] == 0;
        if (!pattern.empty()) {
            const auto kind = pattern[at];
            if (std::string_view("M*-E").find(kind) == std::string_view::npos)
                fields.fail(cat("the hybrid pattern has ", in_quotes(std::string(1, kind)),
                                "; plan knows M, *, - and E"));
            if (kind != '*') without_attention(), one.window = 0;
            if (kind == 'M') {
                const auto state = mamba(fields, model.hidden);
                one.heads = state.heads, one.state = state.state, one.weights = state.weights;
            }
            if (kind == 'M' || kind == '*') one.ffn = one.experts = 0, dense = true, one.gated = false;
            if (kind == '-') dense = true;
            if (kind == 'E') dense = false;
        }
        if (dense)
            one.experts = one.top_k = one.expert_ffn = one.shared_ffn = 0;
        else
            one.ffn = 0;
        model.add(1, one);
    }
    model.predictors = fields.number({"mtp-num-layers"}, 0).value_or(0);
    name_unread(fields, checkpoint);
    return model;
}

}  // namespace rankmesh::plan::of_read
