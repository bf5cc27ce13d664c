// SPDX-License-Identifier: Apache-2.0
// Reads how a checkpoint is quantized: quantization_config of transformers, compressed-tensors and ModelOpt.
#include <algorithm>

#include "formats/text.hpp"
#include "plan/read/fields.hpp"

namespace rankmesh::plan::of_read {

namespace of_quantization {

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

}  // namespace of_quantization

void read_quantization(const Json& values, Checkpoint& checkpoint) {
    using namespace of_quantization;
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
                    attention =
                        attention || (one.is_string() && one.text().find("attn") != std::string::npos);
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
        if (values.contains(key) && values[key].is_string() && formats::lower(values[key].text()) == "fp8")
            checkpoint.fp8_cache = true;
}

}  // namespace rankmesh::plan::of_read
