// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/read.hpp>

#include <filesystem>
#include <system_error>

#include "formats/file.hpp"
#include "formats/text.hpp"
#include "plan/csv.hpp"
#include "plan/read/family.hpp"

namespace rankmesh::plan {

namespace of_read {

namespace of_read_model {

// ModelOpt lists the type of each expert.
constexpr auto most_bytes = 8 * formats::most_bytes;
constexpr auto most_keys = 20 * formats::most_keys;

/// Returns true for text that can only be a file name, even if the file does not exist.
bool is_file(const std::string& text) {
    return text == "-" ||
           (!text.starts_with("--") && formats::is_file_name(text, "={\n", {".json", ".sh", ".txt"}));
}

Model named(const std::string& name) {
    const auto all = models();
    const auto found = std::ranges::find_if(all, [&](const Model& one) { return same_name(one.name, name); });
    if (found != all.end()) return *found;
    const auto names = names_of(all);
    throw UsageError(
        cat("unknown model ", in_quotes(name), did_you_mean(name, names), "; models are ", listed(names),
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
    if (has("fp4") || (has("float") && bits == 4)) return Precision::mxfp4;
    if (has("fp8") || has("float8") || (has("float") && bits == 8)) return Precision::fp8;
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
           rest == ".q_b_proj" || rest == ".qkv_proj";
}

/// What a quantization_config says, with the objects inside it.
struct Quantized {
    std::string words = {};
    int bits = 0;
    bool attention = false;  ///< is in another type, or not quantized
    bool fp8_cache = false;

    void read(const Json& from) {
        for (const auto& [key, value] : from.items()) {
            const auto role = value_in("quantization", key);
            auto word = std::string{};
            if (role == "word" && value.is_string()) word = formats::lower(value.text());
            if (key == "group_size" && value.is_number_integer()) word = cat(key, " ", value.get<int>());
            if (role == "bits" && value.is_number_integer()) bits = value.get<int>();
            if (key.starts_with("load_in_") && value == Json(true)) bits = key == "load_in_4bit" ? 4 : 8;
            if (role == "rest" && value.is_array())
                for (const auto& one : value)
                    attention = attention || (one.is_string() && is_attention(one.text()));
            if (role == "parts" && value.is_object())
                for (const auto& [name, part] : value.items()) read_part(name, part);
            if ((role == "in" || role == "word") && value.is_object()) read(value);
            if (role == "cache")
                fp8_cache = fp8_cache || has_part(formats::lower(value.dump()), {"\"fp8\"", "\"float\""});
            if (words.find(word) == std::string::npos) words += " " + word;
        }
    }

private:
    /// Reads modules of one type. Of several types, that of experts or feed-forward networks counts.
    void read_part(const std::string& name, const Json& part) {
        if (!part.is_object() || name == "lm_head") return;
        const auto targets = part.contains("targets") ? part["targets"].dump() : "";
        if (has_part(name + targets, {"attn", "in_proj", "out_proj"}))
            attention = true;
        else
            read(part);
    }
};

}  // namespace of_read_model

/// Reads how a checkpoint is quantized: quantization_config of transformers, compressed-tensors and ModelOpt.
void read_quantization(const Json& values, Checkpoint& checkpoint) {
    if (!values.is_object()) return checkpoint.notes.emplace_back("not used: quantization_config"), void();
    if (values.contains("quantization")) return read_quantization(values["quantization"], checkpoint);
    auto said = of_read_model::Quantized{};
    said.read(values);
    checkpoint.weights = of_read_model::type_of(said.words, said.bits);
    checkpoint.only_experts = checkpoint.weights.has_value() && said.attention;
    checkpoint.fp8_cache = checkpoint.fp8_cache || said.fp8_cache;
    if (!checkpoint.weights)
        checkpoint.notes.push_back(
            cat("not used: quantization_config", said.words.empty() ? "" : " of", said.words));
}

}  // namespace of_read

Model read_model_text(const std::string& text, const std::string& source, Checkpoint* checkpoint) {
    using namespace of_read;
    using namespace of_read_model;
    if (text.size() > most_bytes)
        throw UsageError(cat(source, ": has more than ", most_bytes, " bytes, the limit of a file"));
    if (const auto at = formats::find_no_text(text))
        throw UsageError(cat(source, ": is not UTF-8 text: byte ", *at + 1, " is ",
                             detail::escaped(std::string_view(text).substr(*at, 1))));
    auto said = std::string_view(text);
    if (said.starts_with("\xEF\xBB\xBF")) said.remove_prefix(3);
    said = formats::trimmed(said);
    if (said.empty()) throw UsageError(cat(source, ": is empty"));
    auto left_out = Checkpoint{};
    auto& beside = checkpoint == nullptr ? left_out : *checkpoint;
    auto values = said.front() == '{' ? formats::parse_json(with_strings(said), source, most_keys) : Json();
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
        auto model = read_model_text(formats::content_of(text, source, most_bytes), source, checkpoint);
        // Beside a config.json of ModelOpt stands what it quantized.
        const auto beside = std::filesystem::path(text).parent_path() / "hf_quant_config.json";
        auto error = std::error_code{};
        if (checkpoint != nullptr && text.ends_with("config.json") && std::filesystem::exists(beside, error))
            of_read::read_quantization(
                formats::parse_json(formats::content_of(beside.string(), beside.string(), most_bytes),
                                    beside.string(), most_keys),
                *checkpoint);
        return model;
    }
    if (text.find_first_of("={") == std::string::npos && !text.starts_with("--")) return named(text);
    return read_model_text(text, "MODEL", checkpoint);
}

}  // namespace rankmesh::plan
