// SPDX-License-Identifier: Apache-2.0
// The table of families beside what transformers builds: families.csv has the parameters of the default
// configuration of each model type and the numbers that a token adds to its KV cache (families.py wrote it).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/plan/read.hpp>
#include <rankmesh/plan/serve.hpp>

#include "formats/json.hpp"
#include "plan/csv.hpp"
#include "plan/read/family.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan {
namespace {

std::int64_t cached(const Model& model, bool expanded) {
    auto all = std::int64_t{0};
    for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
        const auto& one = model.kinds[kind];
        // Most latent attention of transformers caches the keys and values of each head.
        const auto token = expanded && one.kv_rank > 0
                               ? std::int64_t{one.kv_heads} * (one.head_dim + one.rope_dim + one.value_dim)
                               : cache_bytes(one, {}) / 2;
        all += token * model.counts()[kind];
    }
    return all;
}

std::string config_of(std::string_view type) { return "{\"model_type\": \"" + std::string(type) + "\"}"; }

bool is_known(std::string_view type) { return of_read::Family::is_known(type); }

TEST(Families, AreReadAsTransformersBuildsThemOrRefusedByName) {
    auto in = std::ifstream(RANKMESH_SOURCE "/tests/plan/families.csv");
    const auto facts = Csv(std::string(std::istreambuf_iterator<char>(in), {}), "families.csv");
    auto right = 0;
    for (std::size_t row = 0; row < facts.size(); ++row) {
        const auto type = std::string(facts.text(row, "type"));
        const auto inner = type + "_text";
        const auto text =
            !is_known(type) && is_known(inner)
                ? "{\"model_type\": \"" + type + "\", \"text_config\": " + config_of(inner) + "}"
                : config_of(type);
        auto model = Model{};
        const auto refusal = text_of([&] { model = read_model_text(text, "f"); });
        if (!refusal.empty()) {
            EXPECT_TRUE(refusal.starts_with("f: plan does not know the model type '" + type + "'") ||
                        refusal == "f: has no num_experts_per_tok, the experts of each token; add it")
                << type << ": " << refusal;
            continue;
        }
        ++right;
        const auto parameters = static_cast<double>(*facts.number(row, "parameters"));
        EXPECT_NEAR(static_cast<double>(plan::parameters(model).total) / parameters, 1, 0.01) << type;
        if (const auto cache = facts.number(row, "cache")) {
            const auto token = static_cast<std::int64_t>(*cache);
            EXPECT_TRUE(token == cached(model, false) || token == cached(model, true))
                << type << ": " << cached(model, false) << " or " << cached(model, true) << ", not " << token;
        }
        EXPECT_EQ(read_model_text(to_line(model), "a line"), model) << to_line(model);
    }
    EXPECT_GE(right, 145);
}

// changed.jsonl has configurations that are not the default ones, most of published models, and what
// transformers builds of them: families.py wrote the numbers.
TEST(Families, AreReadWithOtherThanDefaultValues) {
    auto in = std::ifstream(RANKMESH_SOURCE "/tests/plan/changed.jsonl");
    auto count = 0;
    for (auto line = std::string{}; std::getline(in, line); ++count) {
        const auto facts = formats::parse_json(line, "changed.jsonl");
        const auto model = read_model_text(facts["config"].dump(), "f");
        const auto parameters = static_cast<double>(facts["parameters"].get<std::int64_t>());
        EXPECT_NEAR(static_cast<double>(plan::parameters(model).total) / parameters, 1, 0.005) << line;
        if (!facts.contains("cache")) continue;
        const auto token = facts["cache"].get<std::int64_t>();
        EXPECT_TRUE(token == cached(model, false) || token == cached(model, true))
            << line << ": " << cached(model, false) << " or " << cached(model, true);
        auto windowed = 0;
        for (const auto& run : model.runs) {
            const auto& layer = model.kinds[static_cast<std::size_t>(run.kind)];
            if (layer.window > 0 && layer.kv_heads > 0) windowed += run.count;
        }
        EXPECT_EQ(windowed, facts["windowed"].get<int>()) << line;
    }
    EXPECT_EQ(count, 30);
}

TEST(Families, CountPublishedModels) {
    struct Case {
        const char* config;
        double billions;
        int cache;  // numbers of a token
    };
    for (
        const auto& [config, billions, cache] :
        {Case{R"({"model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8,
                   "num_hidden_layers": 60, "new_decoder_architecture": true, "multi_query": true, "vocab_size": 65024})",
              41.3, 60 * 2 * 8 * 64},
         Case{
             R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
                   "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "vision_config": {}})",
             7.6, 28 * 2 * 4 * 128},
         Case{
             R"({"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {"model_type": "qwen3_omni_moe_text",
                   "hidden_size": 2048, "moe_intermediate_size": 768, "head_dim": 128, "num_attention_heads": 32,
                   "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
                   "vocab_size": 152064}}})",
             30.5, 48 * 2 * 4 * 128},
         Case{R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "hidden_size": 5120,
                   "intermediate_size": 8192, "intermediate_size_mlp": 16384, "interleave_moe_layer_step": 2,
                   "num_local_experts": 128, "num_experts_per_tok": 1, "num_hidden_layers": 48, "vocab_size": 202048,
                   "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128}})",
              400.7, 48 * 2 * 8 * 128},
         Case{
             R"({"model_type": "nemotron_h", "hidden_size": 2688, "vocab_size": 131072, "num_attention_heads": 32,
                   "num_key_value_heads": 2, "head_dim": 128, "num_hidden_layers": 52, "intermediate_size": 1856,
                   "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
                   "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
                   "n_routed_experts": 128, "n_shared_experts": 1, "moe_intermediate_size": 1856,
                   "moe_shared_expert_intermediate_size": 3712, "num_experts_per_tok": 6, "tie_word_embeddings": false})",
             31.6, 6 * 2 * 2 * 128}}) {
        const auto model = read_model_text(config, "f");
        EXPECT_NEAR(static_cast<double>(parameters(model).total) / 1e9, billions, 0.01 * billions)
            << model.name;
        EXPECT_EQ(cached(model, false), cache) << layers_text(model);
    }
}

TEST(Families, ReadEveryKeyOrNameIt) {
    const auto notes_of = [](const std::string& text) {
        auto checkpoint = Checkpoint{};
        static_cast<void>(read_model_text(text, "f", &checkpoint));
        return checkpoint.notes;
    };
    EXPECT_EQ(notes_of(R"({"model_type": "llama", "torch_dtype": "bfloat16", "rope_theta": NaN})"),
              std::vector<std::string>{});
    EXPECT_EQ(notes_of(R"({"model_type": "llama", "some_limit": [0.0, -Infinity], "block_configs": []})"),
              std::vector<std::string>{"not used: some_limit and block_configs"});
    EXPECT_EQ(
        notes_of(
            R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}, "vision_config": {}})"),
        std::vector<std::string>{"not used: vision_config"});
    // Cross-attention has parameters, which are not counted; without it the key has no effect.
    EXPECT_EQ(notes_of(R"({"model_type": "gpt2", "add_cross_attention": false})"),
              std::vector<std::string>{});
    EXPECT_EQ(notes_of(R"({"model_type": "gpt2", "add_cross_attention": true})"),
              std::vector<std::string>{"not used: add_cross_attention"});
    // What stands outside holds for the language model.
    const auto tied = read_model_text(
        R"({"model_type": "x", "tie_word_embeddings": true, "text_config": {"model_type": "llama"}})", "f");
    EXPECT_TRUE(tied.tied);
    // Where no level says it, the default of the type outside does.
    const auto ties = [](const std::string& said) {
        return read_model_text(
                   "{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"mistral\"" + said +
                       "}}",
                   "f")
            .tied;
    };
    EXPECT_TRUE(ties(""));
    EXPECT_FALSE(ties(", \"tie_word_embeddings\": false"));
    // null is not the default.
    EXPECT_EQ(read_model_text(R"({"model_type": "mistral", "sliding_window": null})", "f").kinds[0].window,
              0);
    EXPECT_EQ(read_model_text(R"({"model_type": "mistral"})", "f").kinds[0].window, 4096);
}

TEST(Families, RefuseSizesOfWhichNothingIsBuilt) {
    const auto refusal = [](const std::string& config) {
        return text_of([&] { static_cast<void>(read_model_text(config, "f")); });
    };
    EXPECT_EQ(refusal(R"({"model_type": "arcee", "intermediate_size": 0})"),
              "f: intermediate_size is 0; it must be a whole number from 1 to 2147483647");
    EXPECT_EQ(refusal(R"({"model_type": "qwen3_moe", "num_experts": 0})"),
              "f: num_experts is 0; it must be a whole number from 1 to 2147483647");
    EXPECT_EQ(refusal(R"({"model_type": "deepseek_v3", "kv_lora_rank": 0})"),
              "f: kv_lora_rank is 0; it must be a whole number from 1 to 2147483647");
    EXPECT_EQ(refusal(R"({"model_type": "bailing_hybrid", "num_hidden_layers": 1,
                          "layer_types": ["sliding_attention"]})"),
              "f: 'bailing_hybrid' has layers with a window, but no sliding_window; add it");
    EXPECT_EQ(refusal(R"({"model_type": "lfm2", "num_hidden_layers": 1, "layer_types": ["mamba"]})"),
              "f: plan does not know a layer of the kind 'mamba' in layer_types");
    EXPECT_EQ(refusal(R"({"model_type": "cohere2", "layer_types": ":"})"),
              "f: plan does not know a layer of the kind ':' in layer_types");
    EXPECT_EQ(refusal(R"({"model_type": "lfm2", "block_multiple_of": 0})"),
              "f: block_multiple_of is 0; it must be a whole number from 1 to 2147483647");
    EXPECT_EQ(refusal(R"({"model_type": "gemma3n_text", "intermediate_size": [1, 600000]})"),
              "f: intermediate_size is 600000, which is too large; it must be at most 524288");
    EXPECT_EQ(refusal(R"({"model_type": "qwen3_moe", "mlp_only_layers": 2})"),
              "f: mlp_only_layers is 2; it must be a list");
}

TEST(Families, RefuseListsThatDoNotFit) {
    const auto refusal = [](const std::string& keys) {
        return text_of([&] {
            static_cast<void>(read_model_text("{\"model_type\": \"gemma3_text\", " + keys + "}", "f"));
        });
    };
    EXPECT_EQ(refusal(R"("num_hidden_layers": 3, "layer_types": ["full_attention"])"),
              "f: layer_types has 1 entries for 3 layers");
    EXPECT_EQ(refusal(R"("num_hidden_layers": 1, "layer_types": ["quantum"])"),
              "f: plan does not know a layer of the kind 'quantum' in layer_types");
    EXPECT_EQ(refusal(R"("num_hidden_layers": 1, "layer_types": 7)"),
              "f: layer_types is 7; it must be a list");
    EXPECT_EQ(text_of([] { static_cast<void>(read_model_text("{\"model_type\": \"own\"}", "f")); }),
              "f: plan does not know the model type 'own'; give its sizes in a line, such as 'layers=32 "
              "hidden=4096 "
              "heads=32 kv=8 ffn=14336 gated vocab=128256'");
}

}  // namespace
}  // namespace rankmesh::plan
