// SPDX-License-Identifier: Apache-2.0
// Reads Megatron's flags from a line, or from a shell script that sets variables.
#include <algorithm>

#include <rankmesh/core/detail/number.hpp>

#include "convert/shell_words.hpp"
#include "formats/text.hpp"
#include "plan/read/family.hpp"

namespace rankmesh::plan::of_read {

namespace of_flags_text {

/// Adds the words of a shell text, with the values of its variables. Empty words surround assignments.
void add_words(std::string_view text, conversion::ShellVariables& variables,
               std::vector<std::string>& words) {
    const auto add = [&](std::string_view written) {
        // Flags in one quoted text, as in ARGS="--num-layers 24 ...", are also words.
        for (const auto& one : variables.expanded(written, true, {}))
            for (const auto word : formats::words_of(one)) words.emplace_back(word);
    };
    for (const auto& command : conversion::shell_commands(text))
        for (const auto& word : command.words) {
            const auto is_set = variables.assign(word, true);
            const auto value = std::string_view(word).substr(is_set ? word.find('=') + 1 : 0);
            if (is_set) words.emplace_back();
            if (is_set && value.starts_with('('))
                add_words(value.substr(1, value.size() - 2), variables, words);
            else
                add(value);
            if (is_set) words.emplace_back();
        }
}

/// Returns flags by name without dashes; true if no value follows.
Json flags_in(std::string_view text, const std::string& source) {
    auto all = Json::object();
    auto variables = conversion::ShellVariables{};
    auto words = std::vector<std::string>{};
    add_words(text, variables, words);
    words.emplace_back();
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        if (!words[i].starts_with("--")) continue;
        const auto [flag, given] = name_and_value(words[i]);
        const auto& next = words[i + 1];
        const auto text = flag.size() < words[i].size() ? given : std::string_view(next);
        const auto value = text.empty() || text.starts_with("--") ? Json(true) : value_of(text);
        auto name = "--" + std::string(flag.substr(2));
        std::ranges::replace(name, '_', '-');
        if (!all.contains(name))
            all.add(name, value);
        else if (all[name] != value)
            throw UsageError(cat(source, ": ", detail::excerpt(name), " is given twice; give it once"));
        if (all.size() > 10'000)
            throw UsageError(cat(source, ": has more than 10000 flags; give only flags of the model"));
    }
    return all;
}

/// Reads Python lists such as `([1]*3+[0])*12`. Appends to `list`; false if the text is no list.
bool read_list(std::string_view& text, std::string& list, int levels = 0) {
    const auto take = [&](char c) {
        const auto is_next = text.starts_with(c);
        if (is_next) text.remove_prefix(1);
        return is_next;
    };
    do {
        auto part = std::string{};
        if (take('(')) {
            if (levels > 100 || !read_list(text, part, levels + 1) || !take(')')) return false;
        } else {
            for (auto before = '['; take(before); before = ',') {
                part += text.substr(0, 1);
                if (!take('0') && !take('1')) return false;
            }
            if (part.empty() || !take(']')) return false;
        }
        while (take('*')) {
            const auto digits = text.substr(0, text.find_first_not_of("0123456789"));
            const auto times = detail::number_in<std::size_t>(digits);
            if (!times || *times > 100'000 || part.size() * *times > 100'000) return false;
            const auto once = std::exchange(part, {});
            for (std::size_t i = 0; i < *times; ++i) part += once;
            text.remove_prefix(digits.size());
        }
        list += part;
    } while (take('+'));
    return list.size() <= 100'000;
}

/// Returns for each layer whether it is of a kind: by a list of 0 and 1, or by N: each Nth layer is,
/// beginning with the first, or is not (`but_last`), beginning with layer N.
std::string kinds_of(const Fields& fields, std::string_view flag, int layers, bool but_last) {
    const auto* value = fields.find(flag);
    auto all = std::string{};
    if (value == nullptr) return all;
    if (value->is_number_integer() && *value >= 1 && *value <= layers * std::int64_t{1000}) {
        for (int i = 0, n = value->get<int>(); i < layers; ++i)
            all += (but_last ? (i + 1) % n != 0 : i % n == 0) ? '1' : '0';
        return all;
    }
    auto text = value->is_string() ? value->text() : value->dump();
    std::erase(text, ' ');
    auto rest = std::string_view(text);
    if (!read_list(rest, all) || !rest.empty() || std::cmp_not_equal(all.size(), layers))
        fields.fail(cat(flag, " is ", in_quotes(text), "; it must be a number, or a list of 0 and 1 for ",
                        layers, " layers, such as ([0]*", std::min(3, layers), "+[1]*",
                        std::max(0, layers - 3), ")"));
    return all;
}

/// Names the flags that may change sizes and were not read.
void name_unread(const Fields& fields, Checkpoint& checkpoint) {
    auto unread = std::vector<std::string>{};
    for (const auto& [name, value] : fields.values().items())
        if (!fields.was_read(name) && kind_of_part("flags", name) == "size") unread.push_back(name);
    if (!unread.empty()) checkpoint.notes.push_back(cat("not used: ", detail::listed(unread)));
}

/// Mamba-2 as Megatron builds it (megatron/core/ssm/mamba_mixer.py).
Layer mamba(const Fields& fields, std::int64_t hidden) {
    const std::int64_t n = fields.number("--mamba-state-dim").value_or(128);
    const std::int64_t head = fields.number("--mamba-head-dim").value_or(64);
    const std::int64_t groups = fields.number("--mamba-num-groups").value_or(8);
    const std::int64_t heads =
        fields.number("--mamba-num-heads").value_or(static_cast<int>(2 * hidden / head));
    return mamba2(hidden, heads * head, static_cast<int>(heads), n, groups, 4);
}

/// Returns the sizes that all layers have, unless a flag lists another kind of layer.
Layer usual_layer(const Fields& fields, Model& model) {
    const auto has = [&](std::string_view name) { return fields.find(name) != nullptr; };
    auto layer = Layer{.heads = fields.needed("--num-attention-heads", "the number of heads")};
    layer.kv_heads = has("--group-query-attention") || has("--num-query-groups")
                         ? fields.needed("--num-query-groups", "the groups of grouped-query attention")
                         : layer.heads;
    layer.gated = has("--swiglu");
    if (const auto ffn = fields.number("--ffn-hidden-size")) {
        layer.ffn = *ffn;
    } else {
        if (model.hidden > 100'000'000)
            fields.fail(cat("--hidden-size is ", model.hidden, ", which is too large"));
        layer.ffn = layer.gated ? model.hidden * 8 / 3 / 64 * 64 : 4 * model.hidden;
    }
    if (has("--multi-latent-attention")) {
        layer.q_rank = fields.number("--q-lora-rank").value_or(0);
        layer.kv_rank = fields.number("--kv-lora-rank").value_or(32);
        layer.head_dim = fields.number("--qk-head-dim").value_or(128);
        layer.rope_dim = fields.number("--qk-pos-emb-head-dim").value_or(64);
        layer.value_dim = fields.number("--v-head-dim").value_or(128);
        layer.kv_heads = layer.heads;
    } else if (const auto dim = fields.number("--kv-channels")) {
        layer.head_dim = layer.value_dim = *dim;
    } else {
        if (model.hidden % layer.heads != 0)
            fields.fail(cat("--hidden-size ", model.hidden, " is not a multiple of --num-attention-heads ",
                            layer.heads));
        layer.head_dim = layer.value_dim = model.hidden / layer.heads;
    }
    layer.gate = has("--attention-output-gate");
    layer.experts = fields.number("--num-experts", 0).value_or(0);
    if (layer.experts == 0) return layer;
    layer.top_k = fields.number("--moe-router-topk").value_or(2);
    layer.expert_ffn = fields.number("--moe-ffn-hidden-size").value_or(layer.ffn);
    layer.shared_ffn = fields.number("--moe-shared-expert-intermediate-size", 0).value_or(0);
    if (fields.number("--moe-router-num-groups").value_or(1) > 1)
        model.most_nodes = fields.number("--moe-router-group-topk").value_or(0);
    return layer;
}

/// The kinds of layers that flags list.
struct Kinds {
    std::string experts, windowed, linear;  ///< 1 for each layer that is of the kind
    std::string pattern;
    int window = 0;  ///< the keys before a query
    int predictors = 0;

    Kinds(const Fields& fields, int layers)
        : experts(kinds_of(fields, "--moe-layer-freq", layers, false)),
          windowed(kinds_of(fields, "--window-attn-skip-freq", layers, true)),
          linear(kinds_of(fields, "--linear-attention-freq", layers, true)),
          pattern(fields.word("--hybrid-override-pattern")) {
        // `|` divides stages, and each `/` begins a further layer of multi-token prediction.
        predictors = static_cast<int>(std::ranges::count(pattern, '/'));
        pattern.resize(std::min(pattern.size(), pattern.find('/')));
        std::erase(pattern, '|');
        if (!pattern.empty() && std::cmp_not_equal(pattern.size(), layers))
            fields.fail(
                cat("the hybrid pattern has ", pattern.size(), " layers, but --num-layers is ", layers));
        if (const auto at = pattern.find_first_not_of("M*-E"); at != std::string::npos)
            fields.fail(cat("the hybrid pattern has ", in_quotes(pattern.substr(at, 1)),
                            "; plan knows M, *, -, E, | and /"));
        const auto* value = fields.find("--window-size");
        if (value == nullptr) return;
        const auto text = value->is_string() ? value->text() : value->dump();
        const auto digits = formats::words_of(text, "(), ");
        window = detail::number_in(digits.empty() ? "" : digits.front()).value_or(0);
        if (window < 1) fields.fail(cat("--window-size is ", in_quotes(text), "; it must be such as 128,0"));
    }
};

/// Puts a state, or nothing, in the place of attention.
void replace_attention(Layer& layer, const Layer& by) {
    layer.heads = by.heads, layer.state = by.state, layer.weights = by.weights;
    layer.kv_heads = layer.head_dim = layer.value_dim = layer.window = 0;
    layer.kv_rank = layer.q_rank = layer.rope_dim = 0;
    layer.gate = false;
}

Layer layer_at(const Fields& fields, const Kinds& kinds, const Layer& usual, int hidden, std::size_t at) {
    auto one = usual;
    const auto size = [&](const char* name, int otherwise) {
        return fields.number(name).value_or(otherwise);
    };
    if (kinds.window > 0 && (kinds.windowed.empty() || kinds.windowed[at] == '1')) one.window = kinds.window;
    if (!kinds.linear.empty() && kinds.linear[at] == '1')
        replace_attention(
            one, delta(hidden, size("--linear-num-value-heads", 32), size("--linear-num-key-heads", 16),
                       size("--linear-key-head-dim", 128), size("--linear-value-head-dim", 128),
                       size("--linear-conv-kernel-dim", 4)));
    auto dense = kinds.experts.empty() ? usual.experts == 0 : kinds.experts[at] == '0';
    if (!kinds.pattern.empty()) {
        const auto kind = kinds.pattern[at];
        if (kind != '*') replace_attention(one, kind == 'M' ? mamba(fields, hidden) : Layer{});
        dense = kind != 'E';
        if (kind == 'M' || kind == '*') one.ffn = 0, one.gated = false;
    }
    if (dense)
        one.experts = one.top_k = one.expert_ffn = one.shared_ffn = 0;
    else
        one.ffn = 0;
    return one;
}

}  // namespace of_flags_text

Model of_flags(const std::string& text, const std::string& source, Checkpoint& checkpoint) {
    using namespace of_flags_text;
    const auto fields = Fields(source, flags_in(text, source));
    auto model = Model{};
    const auto layers = fields.needed("--num-layers", "the number of layers");
    model.hidden = fields.needed("--hidden-size", "the width of the model");
    const auto usual = usual_layer(fields, model);
    const auto vocabulary = fields.number("--vocab-size");
    if (!vocabulary)
        fields.fail("has no --vocab-size, because Megatron takes it from the tokenizer; add --vocab-size N");
    model.vocabulary = *vocabulary;
    model.tied = fields.find("--untie-embeddings-and-output-weights") == nullptr;
    model.sequence = fields.number("--seq-length").value_or(0);
    const auto kinds = Kinds(fields, layers);
    for (int i = 0; i < layers; ++i)
        model.add(1, layer_at(fields, kinds, usual, model.hidden, static_cast<std::size_t>(i)));
    model.predictors = fields.number("--mtp-num-layers", 0).value_or(kinds.predictors);
    name_unread(fields, checkpoint);
    return model;
}

}  // namespace rankmesh::plan::of_read
