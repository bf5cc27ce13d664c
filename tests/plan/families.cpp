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
             31.6, 6 * 2 * 2 * 128},
         // Step 3.5 Flash: its list of layers goes on behind the last layer, and experts are listed in a
         // text.
         Case{
             R"({"model_type": "step3p5", "vocab_size": 128896, "num_hidden_layers": 3, "num_attention_groups": 8,
                   "moe_num_experts": 288, "moe_top_k": 8, "moe_layers_enum": "1,2", "sliding_window": 512,
                   "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
                   "num_nextn_predict_layers": 1, "attention_other_setting": {"num_attention_heads": 96}})",
             10.65, 3 * 2 * 8 * 128},
         // Step 3, and Kimi K3, whose experts work on half of the hidden state.
         Case{
             R"({"model_type": "step3_vl", "text_config": {"moe_layers_enum": "4,5", "num_hidden_layers": 6}})",
             15.24, 6 * 2 * 256},
         Case{
             R"({"model_type": "kimi_linear", "hidden_size": 7168, "num_hidden_layers": 4, "num_experts": 896,
                   "num_experts_per_token": 16, "num_shared_experts": 2, "moe_intermediate_size": 3072,
                   "intermediate_size": 33792, "first_k_dense_replace": 1, "routed_expert_hidden_size": 3584,
                   "mla_use_output_gate": true, "num_attention_heads": 96, "q_lora_rank": 1536, "linear_attn_config":
                   {"full_attn_layers": [4], "head_dim": 128, "num_heads": 96, "use_full_rank_gate": true}})",
             94.25, 512 + 64}}) {
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
    // null is not the default.
    EXPECT_EQ(read_model_text(R"({"model_type": "mistral", "sliding_window": null})", "f").kinds[0].window,
              0);
    EXPECT_EQ(read_model_text(R"({"model_type": "mistral"})", "f").kinds[0].window, 4096);
}

// As transformers 5.24 builds each of them: mostly what stands outside decides, or the default of the type
// outside. Llama 4 asks the model inside, GLM-4V takes either.
TEST(Families, TieTheHeadAsTheModelOutsideDoes) {
    struct Row {
        const char* outside;
        const char* inside;
        const char* tied;  // by the value outside (none, true, false), and then the value inside
    };
    for (const auto& [outside, inside, tied] :
         {Row{"mistral3", "mistral", "111 111 000"}, Row{"gemma3", "gemma3_text", "111 111 000"},
          Row{"qwen3_5", "qwen3_5_text", "000 111 000"}, Row{"llama4", "llama4_text", "010 010 010"},
          Row{"glm4v", "glm4v_text", "010 111 010"}, Row{"own", "llama", "010 111 000"}}) {
        auto found = std::string{};
        for (const auto* out : {"", ", \"tie_word_embeddings\": true", ", \"tie_word_embeddings\": false"}) {
            found += found.empty() ? "" : " ";
            for (const auto* in :
                 {"", ", \"tie_word_embeddings\": true", ", \"tie_word_embeddings\": false"}) {
                const auto text = std::string("{\"model_type\": \"") + outside + "\"" + out +
                                  ", \"text_config\": {\"model_type\": \"" + inside + "\"" + in + "}}";
                found += read_model_text(text, "f").tied ? '1' : '0';
            }
        }
        EXPECT_EQ(found, tied) << outside;
    }
    auto checkpoint = Checkpoint{};
    static_cast<void>(read_model_text(
        R"({"model_type": "mistral3", "text_config": {"model_type": "mistral"}})", "f", &checkpoint));
    EXPECT_EQ(checkpoint.notes,
              std::vector<std::string>{"embedding and head are one matrix, as transformers builds mistral3, "
                                       "although text_config alone says otherwise"});
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
    EXPECT_EQ(refusal(R"({"model_type": "helium", "head_dim": 64})"),
              "f: 'helium' takes num_attention_heads * head_dim = hidden_size, but 20 * 64 is not 2560; "
              "transformers cannot run it either");
}

TEST(Families, GuessNoSizesOfAnUnknownType) {
    const auto refusal = [](const std::string& config) {
        return text_of([&] { static_cast<void>(read_model_text(config, "f")); });
    };
    const auto sizes = std::string(
        R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
           "vocab_size": 100)");
    EXPECT_EQ(refusal("{" + sizes + "}"), "");
    EXPECT_EQ(refusal("{" + sizes + R"(, "moe_num_experts": 48})"),
              "f: has no model_type, so plan cannot know what moe_num_experts means; add model_type");
    EXPECT_TRUE(refusal(R"({"model_type": "own_vl", "text_config": {)" + sizes + "}}")
                    .starts_with("f in text_config: plan does not know the model type 'own_vl'"));
    EXPECT_TRUE(
        refusal(R"({"model_type": "moss_transcribe_diarize", "text_config": {"model_type": "qwen3"}})")
            .starts_with("f: plan does not know the model type 'moss_transcribe_diarize'"));
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
