// SPDX-License-Identifier: Apache-2.0
// Of every framework that is described by rows: a setting at another value comes back onto itself, and onto
// every other framework it changes the layout, or is named.
#include <gtest/gtest.h>

#include <algorithm>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

#include "formats/json.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::tests {
namespace {

using formats::Json;
using frameworks::Setting;
using frameworks::Type;
using frameworks::Value;

/// Other values of a setting, as JSON.
std::vector<Json> others_of(const Setting& row) {
    switch (row.type) {
        case Type::flag:
            return {row.otherwise != Value(true)};
        case Type::number:
        case Type::maybe_number:
            return {2, 4};
        case Type::numbers:
            return {Json(std::vector<int>{2}), Json(std::vector<int>{4})};
        default: {
            auto words = std::vector<Json>{};
            for (const auto& [word, meaning] : row.words)
                if (row.otherwise != Value(word)) words.emplace_back(word);
            return words;
        }
    }
}

/// Sets a setting where the framework reads it: by its name, or by its name in a table of a configuration.
void set(Json& settings, const frameworks::Framework& rows, const Setting& row, const Json& value) {
    if (rows.table.empty() || row.apart) {
        settings[row.name] = value;
        return;
    }
    const auto name = row.flag.empty() ? row.name : std::string(frameworks::words_of(row.flag).front());
    const auto dot = name.find('.');
    auto& table = settings[rows.table];
    (dot == std::string::npos ? table[name] : table[name.substr(0, dot)][name.substr(dot + 1)]) = value;
}

std::optional<Conversion> converted(const std::string& from, std::string_view to, const Json& settings,
                                    int world) {
    try {
        return convert_text(from, to, settings.dump(), world);
    } catch (const UsageError&) {
        return std::nullopt;  // the framework refuses the value on these ranks
    }
}

/// Settings come back onto themselves, and onto each other framework they change what is said beside `plain`.
/// False where the framework refuses them on these ranks.
bool holds(const std::string& from, const Json& plain, const Json& settings, int world) {
    const auto self = converted(from, from, settings, world);
    if (!self || !self->settings) return false;
    const auto about = from + " " + settings.dump() + " on " + std::to_string(world);
    EXPECT_TRUE(self->lost.empty()) << about << ": " << self->lost.front().what;
    EXPECT_EQ(self->moved, 0) << about;
    const auto base = converted(from, from, plain, world);
    for (const auto& other : known_frameworks()) {
        const auto there = converted(from, other.name, settings, world);
        if (!there || !there->lost.empty() || !base) continue;
        const auto before = converted(from, other.name, plain, world);
        if (before && self->settings != base->settings) {
            EXPECT_TRUE(before->text != there->text || before->notes != there->notes ||
                        before->moved != there->moved)
                << about << " to " << other.name;
        }
    }
    return true;
}

TEST(NothingVanishes, OfTheSettingsOfEveryFramework) {
    auto tried = 0;
    for (const auto& rows : frameworks::all()) {
        if (rows.settings.empty()) continue;
        const auto ignored = frameworks::words_of(rows.ignore);
        for (const auto& row : rows.settings) {
            if (std::ranges::find(ignored, row.name) != ignored.end()) continue;
            for (const auto& value : others_of(row)) {
                auto plain = Json::object();
                for (const auto& each : rows.settings)  // those without a default
                    if (each.type == Type::number && each.otherwise == Value()) set(plain, rows, each, 1);
                auto settings = plain;
                set(settings, rows, row, value);
                for (const auto world : {2, 4, 8, 16})
                    if (holds(rows.name, plain, settings, world)) {
                        ++tried;
                        break;
                    }
            }
        }
    }
    EXPECT_GT(tried, 50);
}

/// What files beside the rows read: settings that 16 ranks can have, and each alone what it is beside them.
struct Read {
    std::string from, plain;
    std::vector<std::string> others;
};

TEST(NothingVanishes, OfWhatRowsDoNotSay) {
    const auto all = std::vector<Read>{
        {"megatron",
         R"({"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2})",
         {R"({"context_parallel_size": 2})", R"({"expert_model_parallel_size": 2})",
          R"({"expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1})",
          R"({"num_distributed_optimizer_instances": 2})", R"({"use_tp_pp_dp_mapping": true})",
          R"({"context_parallel_size": 4, "hierarchical_context_parallel_sizes": [2, 2]})",
          R"({"num_virtual_stages_per_pipeline_rank": 2})", R"({"virtual_pipeline_model_parallel_size": 2})",
          R"({"num_layers_per_virtual_pipeline_stage": 2, "num_layers": 16})",
          R"({"num_layers_per_virtual_pipeline_stage": 2})",
          R"({"num_virtual_stages_per_pipeline_rank": 2, "account_for_loss_in_pipeline_split": true})",
          R"({"account_for_embedding_in_pipeline_split": true})", R"({"hybrid_context_parallel": true})",
          R"({"account_for_loss_in_pipeline_split": true})", R"({"pipeline_model_parallel_layout": "Et|tL"})",
          R"({"pipeline_model_parallel_layout": "E|t|t|L"})", R"({"decoder_first_pipeline_num_layers": 3})",
          R"({"decoder_last_pipeline_num_layers": 1})", R"({"create_all_gather_group": true})"}},
        {"deepspeed",
         R"({"tensor_parallel": {"autotp_size": 2}})",
         {R"({"expert_parallel": {"enabled": true, "autoep_size": 4}})",
          R"({"zero_optimization": {"mics_shard_size": 4}})",
          R"({"zero_optimization": {"zero_hpz_partition_size": 4}})",
          R"({"zero_optimization": {"zero_hpz_partition_size": 4}, "expert_parallel": {"enabled": true, "autoep_size": 4}})",
          R"({"zero_optimization": {"mics_shard_size": 4}, "expert_parallel": {"enabled": true, "autoep_size": 4}})",
          R"({"zero_optimization": {"mics_shard_size": 4, "zero_hpz_partition_size": 2}})"}},
        {"areal",
         R"({"actor": {"backend": "fsdp:d16"}})",
         {R"({"actor": {"backend": "fsdp:d8t2"}})", R"({"actor": {"backend": "fsdp:d8c2"}})",
          R"({"actor": {"backend": "megatron:d4p2t2"}})", R"({"actor": {"backend": "megatron:d4p2c2"}})",
          R"({"actor": {"backend": "megatron:d16e4"}})", R"({"actor": {"backend": "archon:d4c2t2e4"}})",
          R"x({"actor": {"backend": "megatron:(attn:d4c2t2|ffn:d2e4t2)"}})x"}},
        {"tensorrt-llm",
         R"({"tp_size": 8, "pp_size": 2})",
         {R"({"tp_size": 4, "cp_size": 2})", R"({"moe_tp_size": 2})", R"({"moe_ep_size": 2})",
          R"({"enable_attention_dp": true})", R"({"tp_size": 4, "cp_size": 2, "attn_cp_size": 2})",
          R"({"tp_size": 4, "cp_size": 2, "attn_tp_size": 4})",
          R"({"tp_size": 4, "cp_size": 2, "cp_config": {"cp_type": "HELIX"}})"}}};
    for (const auto& [from, plain, others] : all)
        for (const auto& other : others) {
            auto settings = Json::parse(plain);
            settings.update(Json::parse(other));
            EXPECT_TRUE(holds(from, Json::parse(plain), settings, 16))
                << from << " refuses " << settings.dump();
            const auto self = converted(from, from, settings, 16);
            const auto base = converted(from, from, Json::parse(plain), 16);
            ASSERT_TRUE(self && base);
            EXPECT_NE(self->settings, base->settings) << from << " drops " << other;
        }
}

}  // namespace
}  // namespace rankmesh::tests
