// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/read.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/detail/number.hpp>

#include "formats/file.hpp"
#include "formats/text.hpp"
#include "plan/csv.hpp"
#include "plan/read/family.hpp"

namespace rankmesh::plan {

namespace of_read {

namespace of_family {

/// A line of the table. The line `*` lists keys without effect, `+` the letters of words in lists of layers,
/// and `=` the names of one key in different families, in the order in which they count.
struct Line {
    std::string_view tags;
    std::string_view keys;
};

const std::map<std::string_view, Line>& lines() {
    static const auto all = [] {
        auto found = std::map<std::string_view, Line>{};
        for (const auto line : formats::split(families_csv, '\n'))
            if (const auto parts = formats::split(line, ','); parts.size() == 3)
                found.emplace(parts[0], Line{parts[1], parts[2]});
        return found;
    }();
    return all;
}

std::vector<std::string_view> names_of(std::string_view name) {
    static const auto all = [] {
        auto found = std::map<std::string_view, std::vector<std::string_view>>{};
        for_each_word(lines().at("=").keys, [&](std::string_view word) {
            const auto [one, names] = name_and_value(word);
            found[one] = formats::split(names, ';');
        });
        return found;
    }();
    const auto known = all.find(name);
    return known == all.end() ? std::vector{name} : known->second;
}

Json value_of(std::string_view text) {
    if (text.empty()) return nullptr;
    if (text == "true" || text == "false") return text == "true";
    if (const auto number = detail::number_in<std::int64_t>(text)) return *number;
    if (text.find(';') == std::string_view::npos) return std::string(text);
    auto list = Json::array();  // `0;1;`
    for (; !text.empty(); text.remove_prefix(text.find(';') + 1))
        list.push_back(value_of(text.substr(0, text.find(';'))));
    return list;
}

/// Returns the letter of a word in a list of layers; 0: not known.
char letter_of(std::string_view word) {
    auto letter = '\0';
    for_each_word(lines().at("+").keys, [&](std::string_view one) {
        if (const auto [name, value] = name_and_value(one); name == word) letter = value.front();
    });
    return letter;
}

}  // namespace of_family

/// Returns the name of this field in the text; empty if it is absent or null.
std::string_view Fields::name_in(std::string_view name) const {
    const auto names = of_family::names_of(name);
    for (const auto one : names)
        if (!was_read(one)) read_.emplace_back(one);
    for (const auto* values : {&first_, &values_})
        for (const auto one : names)
            if (values->contains(one) && !(*values)[one].is_null()) return one;
    return {};
}

const Json* Fields::find(std::string_view name) const {
    const auto known = name_in(name);
    return known.empty() ? nullptr : &values_[known];
}

void Fields::refuse(std::string_view name, const Json& value, std::string_view wanted) const {
    fail(cat(name_in(name), " is ", formats::excerpt(value), "; it must be ", wanted));
}

std::optional<int> Fields::number(std::string_view name, int least) const {
    const auto* value = find(name);
    if (value == nullptr) return std::nullopt;
    constexpr auto most = std::numeric_limits<int>::max();
    if (!value->is_number_integer() || *value < least || *value > most)
        refuse(name, *value, cat("a whole number from ", least, " to ", most));
    return value->get<int>();
}

int Fields::needed(std::string_view name, std::string_view what) const {
    if (const auto value = number(name)) return *value;
    fail(cat("has no ", name, ", ", what, "; add it"));
}

bool Fields::is(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_boolean()) refuse(name, *value, "true or false");
    return value != nullptr && value->get<bool>();
}

std::string Fields::word(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_string()) refuse(name, *value, "a string");
    return value == nullptr ? "" : value->text();
}

bool Family::is_known(std::string_view type) {
    const auto line = of_family::lines().find(type);
    return line != of_family::lines().end() && !line->second.tags.starts_with("beyond");
}

bool Family::ties(std::string_view type) {
    const auto line = of_family::lines().find(type);
    return line != of_family::lines().end() && line->second.tags == "beyond tied";
}

Family::Family(const Fields& given) : Fields(given.source(), Json::object()), given_(given.values()) {
    for (const auto* outer : {"attn_config", "ffn_config", "linear_attn_config"})
        if (given_.contains(outer) && given_[outer].is_object())
            for (const auto& [name, value] : given.values()[outer].items())
                given_[cat(outer, '.', name)] = value;
    type_ = given.word("model_type");
    if (!is_known(type_))
        fail(cat("plan does not know the model type ", in_quotes(type_), "; ",
                 detail::in_python("rankmesh.plan_model(path).save('model.json') reads it by transformers",
                                   "give its sizes in a line, such as 'layers=32 hidden=4096 heads=32 kv=8 "
                                   "ffn=14336 gated vocab=128256'")));
    for_each_word(of_family::lines().at(type_).tags,
                  [&](std::string_view word) { tags_.emplace_back(word); });
    for_each_word(of_family::lines().at(type_).keys, [&](std::string_view word) {
        const auto [name, value] = name_and_value(word);
        const auto here = given_.contains(name);
        const auto counts_tokens = std::ranges::any_of(
            std::array{"vocab", "position", "window", "chunk"},
            [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
        if (here && !counts_tokens) check_large(name, given_[name]);
        values_[name] = here ? given_[name] : of_family::value_of(value);
        if (here) first_[name] = given_[name];
    });
}

/// Refuses a number, or one of a list, that is so large that products of such sizes do not fit in 64 bits.
void Family::check_large(std::string_view name, const Json& value) const {
    constexpr auto most = 1 << 19;
    if (value.is_array())
        for (const auto& one : value) check_large(name, one);
    else if (value.is_number_integer() && value > most)
        fail(cat(name, " is ", formats::excerpt(value), ", which is too large; it must be at most ", most));
}

bool Family::has(std::string_view tag) const { return std::ranges::find(tags_, tag) != tags_.end(); }

bool Family::knows(std::string_view name) const {
    return std::ranges::any_of(of_family::names_of(name), [&](auto one) { return values().contains(one); });
}

bool Family::gives(std::string_view name) const {
    return std::ranges::any_of(of_family::names_of(name), [&](auto one) {
        return values().contains(one) && given_.contains(one) && !given_[one].is_null();
    });
}

int Family::at(int i, std::string_view name, int otherwise) const {
    // Gemma 4 lists the layers that differ, by their numbers.
    if (const auto* layers = find("per_layer_config"); layers != nullptr && layers->is_object())
        for (const auto& [layer, own] : layers->items())
            if (detail::number_in(layer) == i && own.is_object() && values().contains(name) &&
                own.contains(name))
                return Fields(cat(source(), " in per_layer_config"), own).number(name, 0).value_or(otherwise);
    const auto* value = find(name);
    if (value == nullptr || !value->is_array()) return number(name, 0).value_or(otherwise);
    if (std::cmp_less_equal(value->size(), i))
        fail(cat(name, " has ", value->size(), " numbers, fewer than layers"));
    auto one = Json::object();
    one.add("number", *(value->begin() + i));
    return Fields(cat(source(), " in ", name), one).number("number", 0).value_or(otherwise);
}

bool Family::lists(std::string_view name, int number) const {
    const auto* value = find(name);
    if (value == nullptr) return false;
    if (!value->is_array()) fail(cat(name, " is ", formats::excerpt(*value), "; it must be a list"));
    return std::ranges::find(*value, Json(number)) != value->end();
}

std::string Family::letters(std::string_view name, int layers) const {
    const auto* value = find(name);
    auto all = std::string{};
    if (value == nullptr) return all;
    const auto unknown = [&](const auto& word) {
        fail(cat("plan does not know a layer of the kind ", in_quotes(word), " in ", name));
    };
    if (value->is_array()) {
        for (const auto& one : *value) {
            auto letter = one.is_string() ? of_family::letter_of(one.text()) : '\0';
            if (letter == 'L' && has("conv") != (one.text() == "conv")) letter = '\0';
            if (one.is_number_integer())
                all += one == Json(0) ? '0' : '1';
            else if (letter == '\0')
                unknown(one.is_string() ? one.text() : one.dump());
            else
                all += letter;
        }
        if (has("cycle"))
            for (std::size_t i = 0; !all.empty() && std::cmp_less(all.size(), layers); ++i) all += all[i];
    } else if (value->is_string() && value->text().find(':') < value->text().size() - 1) {
        const auto& pattern = value->text();
        const auto period = pattern.substr(pattern.find(':') + 1);
        all = pattern.substr(0, pattern.find(':'));
        for (std::size_t i = 0; std::cmp_less(all.size(), layers); ++i) all += period[i % period.size()];
        all.resize(static_cast<std::size_t>(layers));
    } else if (value->is_string()) {
        // Of Nemotron-H: Mamba-2, attention, experts, a dense network.
        for (const auto c : value->text())
            if (const auto kind = std::string_view("M*E-").find(c); kind != std::string_view::npos)
                all += std::string_view("LFED")[kind];
            else
                unknown(std::string(1, c));
    } else {
        fail(cat(name, " is ", formats::excerpt(*value), "; it must be a list"));
    }
    if (std::cmp_not_equal(all.size(), layers))
        fail(cat(name, " has ", all.size(), " entries for ", layers, " layers"));
    return all;
}

std::vector<std::string> Family::unused() const {
    auto found = std::vector<std::string>{};
    auto ignored = std::vector<std::string_view>{};
    for_each_word(of_family::lines().at("*").keys, [&](std::string_view word) {
        // A key with a value is without effect if it has this value.
        const auto [name, value] = name_and_value(word);
        if (value.empty() || (given_.contains(name) && given_[name] == of_family::value_of(value)))
            ignored.push_back(name);
    });
    for (const auto& [name, value] : given_.items())
        if (const auto last = name.substr(name.rfind('.') + 1);
            !values().contains(name) && !value.is_null() && !std::ranges::binary_search(ignored, last))
            found.push_back(name);
    return found;
}

namespace of_read_model {

/// Returns true for text that can only be a file name, even if the file does not exist.
bool is_file(const std::string& text) {
    return text == "-" ||
           (!text.starts_with("--") && formats::is_file_name(text, "={\n", {".json", ".sh", ".txt"}));
}

Model named(const std::string& name) {
    const auto all = models();
    const auto found = std::ranges::find_if(all, [&](const Model& one) { return same_name(one.name, name); });
    if (found != all.end()) return *found;
    auto names = std::vector<std::string_view>{};
    for (const auto& one : all) names.push_back(one.name);
    throw UsageError(
        cat("unknown model ", in_quotes(name), did_you_mean(name, names), "; models are ",
            detail::listed({names.begin(), names.end()}),
            "; or give a Hugging Face config.json, a file with Megatron's flags, or a line of sizes such as "
            "'layers=32 hidden=4096 heads=32 kv=8 ffn=14336 gated vocab=128256'"));
}

/// Puts Infinity and NaN, which Python writes into JSON, in quotes.
std::string with_strings(std::string_view text) {
    auto out = std::string{};
    for (auto in_text = false; !text.empty();) {
        auto size = in_text && text.front() == '\\' ? std::min<std::size_t>(2, text.size()) : std::size_t{1};
        auto quote = "";
        for (const auto word : {std::string_view("NaN"), {"Infinity"}, {"-Infinity"}})
            if (!in_text && text.starts_with(word)) size = word.size(), quote = "\"";
        in_text = in_text != (text.front() == '"');
        out += cat(quote, text.substr(0, size), quote);
        text.remove_prefix(size);
    }
    return out;
}

/// Returns the type of a method, a format or an algorithm, such as `NVFP4`, `W4A16_AWQ` or `fbgemm_fp8`.
std::optional<Precision> type_of(const std::string& words, int bits) {
    const auto has = [&](std::string_view part) { return words.find(part) != std::string::npos; };
    if (has("nvfp4") || (has("float") && bits == 4 && has("group_size 16"))) return Precision::nvfp4;
    if (has("mxfp4") || (has("float") && bits == 4)) return Precision::mxfp4;
    if (has("fp8") || (has("float") && bits == 8)) return Precision::fp8;
    if (bits == 4 || has("w4") || has("int4")) return Precision::int4;
    if (bits == 8 || has("w8") || has("int8")) return Precision::int8;
    return std::nullopt;
}

/// Returns whether a name or pattern of modules is all of the attention of the language model, or its
/// queries.
bool is_attention(std::string_view name) {
    const auto at = name.rfind("attn");
    if (at == std::string_view::npos || name.find("vis") != std::string_view::npos) return false;
    const auto rest = name.substr(at + 4);
    return rest.find_first_not_of("*.$") == std::string_view::npos || rest == ".q_proj" ||
           rest == ".qkv_proj";
}

}  // namespace of_read_model

/// Reads how a checkpoint is quantized: quantization_config of transformers, compressed-tensors and ModelOpt.
void read_quantization(const Json& values, Checkpoint& checkpoint) {
    using of_read_model::is_attention;
    using of_read_model::type_of;
    if (!values.is_object()) return checkpoint.notes.emplace_back("not used: quantization_config"), void();
    if (values.contains("quantization")) return read_quantization(values["quantization"], checkpoint);
    auto words = std::string{};
    auto bits = 0;
    auto attention = false;
    const auto read = [&](const Json& from) {
        for (const auto* key : {"quant_method", "quant_algo", "format", "type", "fmt"})
            if (from.contains(key) && from[key].is_string()) words += " " + formats::lower(from[key].text());
        for (const auto* key : {"bits", "num_bits", "w_bit", "weight_bits"})
            if (from.contains(key) && from[key].is_number_integer()) bits = from[key].get<int>();
        if (from.contains("group_size") && from["group_size"].is_number_integer())
            words += cat(" group_size ", from["group_size"].get<int>());
        for (const auto& [key, number] : {std::pair{"load_in_4bit", 4}, {"load_in_8bit", 8}})
            if (from.contains(key) && from[key] == Json(true)) bits = number;
        for (const auto* key : {"ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers"})
            if (from.contains(key) && from[key].is_array())
                for (const auto& one : from[key])
                    attention = attention || (one.is_string() && is_attention(one.text()));
    };
    read(values);
    if (values.contains("config_groups") && values["config_groups"].is_object())
        for (const auto& [name, group] : values["config_groups"].items())
            if (group.is_object() && group.contains("weights") && group["weights"].is_object())
                read(group["weights"]);
    checkpoint.weights = type_of(words, bits);
    checkpoint.only_experts = checkpoint.weights.has_value() && attention;
    if (!checkpoint.weights)
        checkpoint.notes.push_back(cat("not used: quantization_config", words.empty() ? "" : " of", words));
    for (const auto* key : {"kv_cache_quant_algo", "kv_cache_scheme"})
        if (values.contains(key))
            checkpoint.fp8_cache = checkpoint.fp8_cache ||
                                   (values[key].is_string() && formats::lower(values[key].text()) == "fp8") ||
                                   (values[key].is_object() && values[key].contains("type") &&
                                    values[key]["type"] == Json("float"));
}

}  // namespace of_read

Model read_model_text(const std::string& text, const std::string& source, Checkpoint* checkpoint) {
    using namespace of_read;
    using of_read_model::with_strings;
    if (text.size() > formats::most_bytes)
        throw UsageError(cat(source, ": has more than ", formats::most_bytes, " bytes, the limit of a file"));
    if (const auto at = formats::find_no_text(text))
        throw UsageError(cat(source, ": is not UTF-8 text: byte ", *at + 1, " is ",
                             detail::escaped(std::string_view(text).substr(*at, 1))));
    auto said = std::string_view(text);
    if (said.starts_with("\xEF\xBB\xBF")) said.remove_prefix(3);
    said = formats::trimmed(said);
    if (said.empty()) throw UsageError(cat(source, ": is empty"));
    auto left_out = Checkpoint{};
    auto& beside = checkpoint == nullptr ? left_out : *checkpoint;
    auto values = said.front() == '{' ? formats::parse_json(with_strings(said), source) : Json();
    // What `rankmesh.plan_model(...).save` writes.
    if (values.is_object() && values.contains("rankmesh") && values["rankmesh"].is_string())
        return read_model_text(values["rankmesh"].text(), source, checkpoint);
    auto model = said.front() == '{' ? of_config(Fields(source, std::move(values)), beside)
                 : said.find("--num-layers") != std::string_view::npos || said.starts_with("--")
                     ? of_flags(std::string(said), source, beside)
                     : read_line(said, source);
    check_at(source, model);
    return model;
}

Model read_model(const std::string& text, Checkpoint* checkpoint) {
    using namespace of_read::of_read_model;
    if (is_file(text)) {
        const auto source = text == "-" ? std::string("standard input") : detail::excerpt(text, 400);
        auto model = read_model_text(formats::content_of(text, source), source, checkpoint);
        // Beside a config.json of ModelOpt stands what it quantized.
        const auto beside = std::filesystem::path(text).parent_path() / "hf_quant_config.json";
        auto error = std::error_code{};
        if (checkpoint != nullptr && text.ends_with("config.json") && std::filesystem::exists(beside, error))
            of_read::read_quantization(
                formats::parse_json(formats::content_of(beside.string(), beside.string()), beside.string()),
                *checkpoint);
        return model;
    }
    if (text.find_first_of("={") == std::string::npos && !text.starts_with("--")) return named(text);
    return read_model_text(text, "MODEL", checkpoint);
}

}  // namespace rankmesh::plan
