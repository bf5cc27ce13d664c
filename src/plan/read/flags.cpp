// SPDX-License-Identifier: Apache-2.0
// Reads Megatron's flags from a line, or from a shell script that sets variables.

#include <rankmesh/core/detail/number.hpp>

#include "convert/shell_words.hpp"
#include "formats/text.hpp"
#include "plan/read/family.hpp"

namespace rankmesh::plan::of_read {

namespace of_flags_text {

constexpr std::string_view hybrid = "--hybrid-override-pattern", linear = "--linear-attention-freq";

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

/// Returns the letters M, *, - and E of a hybrid pattern, one for each layer. `|` divides stages, and each
/// `/` begins a further layer of multi-token prediction, which is counted.
std::string pattern_of(const Fields& fields, int layers, int& predictors) {
    auto pattern = fields.word(hybrid);
    predictors = static_cast<int>(std::ranges::count(pattern, '/'));
    pattern.resize(std::min(pattern.size(), pattern.find('/')));
    std::erase(pattern, '|');
    if (!pattern.empty() && std::cmp_not_equal(pattern.size(), layers))
        fields.fail(cat("the hybrid pattern has ", pattern.size(), " layers, but --num-layers is ", layers));
    if (const auto at = pattern.find_first_not_of("M*-E"); at != std::string::npos)
        fields.fail(cat("the hybrid pattern has ", in_quotes(pattern.substr(at, 1)),
                        "; plan knows M, *, -, E, | and /"));
    return pattern;
}

/// Returns the keys before a query in a window; 0: none is given.
int window_of(const Fields& fields) {
    const auto* value = fields.find("--window-size");
    if (value == nullptr) return 0;
    const auto text = value->is_string() ? value->text() : value->dump();
    const auto digits = formats::words_of(text, "(), ");
    const auto window = detail::number_in(digits.empty() ? "" : digits.front()).value_or(0);
    if (window < 1) fields.fail(cat("--window-size is ", in_quotes(text), "; it must be such as 128,0"));
    return window;
}

/// Adds the lists of what each layer is; a pattern says all of it but windows.
void add_layers(const Fields& fields, int layers, const std::string& pattern, Json& config) {
    const auto windowed = kinds_of(fields, "--window-attn-skip-freq", layers, true);
    const auto window = window_of(fields);
    auto of_delta = std::string{}, experts = of_delta;
    if (pattern.empty()) of_delta = kinds_of(fields, linear, layers, true);
    if (pattern.empty() && config.contains("num_experts"))
        experts = kinds_of(fields, "--moe-layer-freq", layers, false);
    auto types = Json::array(), networks = Json::array();
    for (std::size_t i = 0; std::cmp_less(i, layers); ++i) {
        const auto kind = pattern.empty() ? '*' : pattern[i];
        types.push_back(kind == 'M'                                              ? "mamba"
                        : kind == '-'                                            ? "mlp"
                        : kind == 'E'                                            ? "moe"
                        : !of_delta.empty() && of_delta[i] == '1'                ? "linear_attention"
                        : window > 0 && (windowed.empty() || windowed[i] == '1') ? "sliding_attention"
                                                                                 : "full_attention");
        if (!experts.empty()) networks.push_back(experts[i] == '1' ? "sparse" : "dense");
    }
    config.add("layer_types", types);
    if (window > 0) config.add("sliding_window", window);
    if (!experts.empty()) config.add("mlp_layer_types", networks);
}

/// Returns a config.json of the flags, with Megatron's defaults.
Json config_of(const Fields& fields) {
    const auto has = [&](std::string_view name) { return fields.find(name) != nullptr; };
    const auto layers = fields.needed("--num-layers", "the number of layers");
    const auto hidden = fields.needed("--hidden-size", "the width of the model");
    const auto heads = fields.needed("--num-attention-heads", "the number of heads");
    const auto grouped = has("--group-query-attention") || has("--num-query-groups");
    const auto latent = has("--multi-latent-attention");
    auto config =
        Json{{"num_hidden_layers", layers},
             {"hidden_size", hidden},
             {"num_key_value_heads",
              grouped ? fields.needed("--num-query-groups", "the groups of grouped-query attention") : heads},
             {"tie_word_embeddings", !has("--untie-embeddings-and-output-weights")},
             {"attn_output_gate", has("--attention-output-gate")}};
    for (const auto line : {std::string_view("--"), {"--multi-latent-attention"}, hybrid, linear}) {
        if ((line != "--" && !has(line)) || (line == linear && has(hybrid))) continue;
        for (const auto& [flag, value] : fields.values().items())
            if (const auto key = value_in(line, flag); !key.empty() && !(latent && key == "head_dim"))
                if (const auto number = fields.number(flag, has_part(flag, {"expert"}) ? 0 : 1); *number > 0)
                    config.add(std::string(key), *number);
    }
    const auto usually = [&](const char* key, int value) {
        if (!config.contains(key)) config.add(key, value);
    };
    for (const auto& [key, value] : {std::pair{"kv_lora_rank", 32},
                                     {"qk_nope_head_dim", 128},
                                     {"qk_rope_head_dim", 64},
                                     {"v_head_dim", 128}})
        if (latent) usually(key, value);
    if (!latent && !has("--kv-channels") && hidden % heads != 0)
        fields.fail(cat("--hidden-size ", hidden, " is not a multiple of --num-attention-heads ", heads));
    if (hidden > 100'000'000) fields.fail(cat("--hidden-size is ", hidden, ", which is too large"));
    usually("intermediate_size", has("--swiglu") ? hidden * 8 / 3 / 64 * 64 : 4 * hidden);
    if (has(hybrid)) usually("mamba_num_heads", 2 * hidden / fields.number("--mamba-head-dim").value_or(64));
    if (!has("--vocab-size"))
        fields.fail("has no --vocab-size, because Megatron takes it from the tokenizer; add --vocab-size N");
    return config;
}

}  // namespace of_flags_text

Model of_flags(const std::string& text, const std::string& source, Checkpoint& checkpoint) {
    using namespace of_flags_text;
    const auto fields = Fields(source, flags_in(text, source));
    auto config = config_of(fields);
    const auto layers = config["num_hidden_layers"].get<int>();
    auto predictors = 0;
    const auto pattern = pattern_of(fields, layers, predictors);
    add_layers(fields, layers, pattern, config);
    config.add("model_type", pattern.empty() ? "--flags" : "--hybrid");
    auto model = of_config(Fields(source, config), checkpoint);
    model.name.clear();
    for (auto& layer : model.kinds)
        layer.gated = fields.find("--swiglu") != nullptr && (layer.ffn > 0 || layer.experts > 0);
    if (model.experts() == 0) model.most_nodes = 0;
    model.sequence = fields.number("--seq-length").value_or(0);
    model.predictors = fields.number("--mtp-num-layers", 0).value_or(predictors);
    name_unread(fields, checkpoint);
    return model;
}

}  // namespace rankmesh::plan::of_read
