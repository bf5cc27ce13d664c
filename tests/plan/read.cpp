// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/read.hpp>

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rankmesh/core/error.hpp>

#include "support/processes.hpp"

namespace of_read_tests {

namespace {

using namespace rankmesh;

std::string error_of(const std::string& text) {
    try {
        return "no error: " + plan::to_line(plan::read_model(text));
    } catch (const UsageError& error) {
        return error.what();
    }
}

const auto llama = std::string("layers=32 hidden=4096 heads=32 kv=8 ffn=14336 gated vocab=128256");

plan::Model without_name(plan::Model model) {
    model.name.clear();
    model.sequence = 0;
    return model;
}

const auto config_of_llama =
    std::string(R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "rope_scaling": {"factor": 8.0}, "max_position_embeddings": 131072, "tie_word_embeddings": false})");

const auto config_of_deepseek =
    std::string(R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168,
    "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 129280})");

}  // namespace

TEST(ReadModel, PrintsAsALineThatIsReadAsTheSameModel) {
    auto checked = 0;
    for (const auto& model : plan::models()) {
        EXPECT_EQ(plan::read_model_text(plan::to_line(model), "a line"), model) << model.name;
        EXPECT_EQ(plan::read_model(model.name), model);
        ++checked;
    }
    EXPECT_GT(checked, 20);
    for (const auto& text : {llama, config_of_llama, config_of_deepseek}) {
        const auto model = plan::read_model(text);
        EXPECT_EQ(plan::read_model(plan::to_line(model)), model) << plan::to_line(model);
    }
}

TEST(ReadModel, SaysTheSameOfOneModelInEveryForm) {
    const auto line = plan::read_model(llama);
    EXPECT_EQ(without_name(plan::read_model(config_of_llama)), line);
    EXPECT_EQ(without_name(plan::read_model("--num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
                                            "--group-query-attention --num-query-groups 8 "
                                            "--ffn-hidden-size 14336 --swiglu --vocab-size 128256 "
                                            "--untie-embeddings-and-output-weights --bf16 "
                                            "--seq-length 8192")),
              line);
    EXPECT_EQ(without_name(plan::read_model("LLAMA3.1-8b")), line);
}

TEST(ReadModel, ReadsExpertsAndLatentAttention) {
    const auto line = plan::read_model(
        "layers=61 hidden=7168 heads=128 head_dim=128 ffn=18432 gated vocab=129280 experts=256 topk=8 "
        "expert_ffn=2048 shared=2048 "
        "dense=3 q_rank=1536 kv_rank=512 rope=64 most_nodes=4");
    EXPECT_EQ(without_name(plan::read_model(config_of_deepseek)), line);
    auto routed = std::string(config_of_deepseek);
    routed.insert(routed.find('{') + 1, R"("n_group": 8, "topk_group": 3, )");
    EXPECT_EQ(plan::read_model(routed).most_nodes, 3);
    EXPECT_EQ(plan::read_model(plan::to_line(plan::read_model(routed))).most_nodes, 3);
    EXPECT_EQ(
        without_name(plan::read_model("--num-layers 61 --hidden-size 7168 --num-attention-heads 128 "
                                      "--ffn-hidden-size 18432 --swiglu --vocab-size 129280 "
                                      "--untie-embeddings-and-output-weights --multi-latent-attention "
                                      "--q-lora-rank 1536 --kv-lora-rank 512 "
                                      "--qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
                                      "--num-experts 256 --moe-router-topk 8 "
                                      "--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 "
                                      "--moe-router-num-groups 8 --moe-router-group-topk 4 "
                                      "--moe-layer-freq ([0]*3+[1]*58)")),
        line);
    const auto mixtral = plan::read_model(
        R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8,
            "num_experts_per_tok": 2, "sliding_window": null})");
    EXPECT_EQ(mixtral.kinds[0].experts, 8);
    EXPECT_EQ(mixtral.kinds[0].top_k, 2);
    EXPECT_EQ(mixtral.kinds[0].expert_ffn, 14336);
    EXPECT_EQ(plan::parameters(mixtral).total / 100'000'000, 467);
    const auto qwen = plan::read_model(
        R"({"model_type": "qwen3_moe", "num_hidden_layers": 94, "hidden_size": 4096, "num_attention_heads": 64,
            "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936, "num_experts": 128,
            "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "decoder_sparse_step": 1, "mlp_only_layers": []})");
    EXPECT_EQ(plan::parameters(qwen).total / 1'000'000'000, 235);
}

TEST(ReadModel, ReadsTheLayersOfMegatronsFlags) {
    const auto sizes = std::string(
        "--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --ffn-hidden-size 4096 --vocab-size "
        "32000 ");
    const auto kinds = [&](const std::string& flags) {
        return plan::layers_text(plan::read_model(sizes + flags));
    };
    EXPECT_EQ(kinds("--is-hybrid-model --hybrid-override-pattern M-M-M-*-"),
              "8 layers: 3 with a state, 1 attention (8 kv heads), 4 dense");
    EXPECT_EQ(kinds("--linear-attention-freq 4"),
              "8 layers: 6 with a state, 2 attention (8 kv heads), 8 dense");
    EXPECT_EQ(kinds("--window-size 128,0 --window-attn-skip-freq 4"),
              "8 layers: 6 attention in a window of 128 (8 kv heads), 2 attention (8 kv heads), 8 dense");
    const auto experts = std::string("--num-experts 4 ");
    EXPECT_EQ(kinds(experts + "--moe-layer-freq 2"),
              "8 layers: 8 attention (8 kv heads), 4 experts (4, 2 a token), 4 dense");
    EXPECT_EQ(kinds(experts + "--moe-layer-freq '([1]*3+[0])*2'"),
              "8 layers: 8 attention (8 kv heads), 6 experts (4, 2 a token), 2 dense");
    EXPECT_EQ(kinds(experts + "--moe-layer-freq [0,1,1,1,1,1,1,0]"),
              "8 layers: 8 attention (8 kv heads), 2 dense, 6 experts (4, 2 a token)");
    // Without experts no layer loses its network; a pattern has windows too.
    EXPECT_EQ(kinds("--moe-layer-freq 2"), kinds(""));
    EXPECT_EQ(
        kinds("--hybrid-override-pattern M-M-*-*- --window-size 64,0 --window-attn-skip-freq 5"),
        "8 layers: 2 with a state, 1 attention (8 kv heads), 1 attention in a window of 64 (8 kv heads), "
        "4 dense");
    EXPECT_EQ(error_of(sizes + experts + "--moe-layer-freq [0]*3"),
              "MODEL: --moe-layer-freq is '[0]*3'; it must be a number, or a list of 0 and 1 for 8 layers, "
              "such as ([0]*3+[1]*5)");
    EXPECT_EQ(
        error_of(sizes + experts + "--moe-layer-freq '" + std::string(100'000, '(') + "'").substr(0, 30),
        "MODEL: --moe-layer-freq is '((");
    // Stages are divided by |, and each further layer with a head begins with /.
    const auto divided = plan::read_model(sizes + "--hybrid-override-pattern 'M-M-|M-*-/*-/*-'");
    EXPECT_EQ(divided.layers(), 8);
    EXPECT_EQ(divided.predictors, 2);
    EXPECT_EQ(error_of(sizes + "--hybrid-override-pattern MMM"),
              "MODEL: the hybrid pattern has 3 layers, but --num-layers is 8");
    // A further layer with a head: its parameters count, and the step takes longer.
    const auto plain = plan::read_model(sizes), more = plan::read_model(sizes + "--mtp-num-layers 1");
    EXPECT_EQ(plan::parameters(more).total - plan::parameters(plain).total,
              plan::parameters(plain).kinds[0].all + 2 * 1024 * 1024);
    EXPECT_EQ(plan::read_model(plan::to_line(more)), more);
    auto checkpoint = plan::Checkpoint{};
    static_cast<void>(plan::read_model(
        sizes + "--micro-batch-size 1 --heterogeneous-layers-config-path x --tensor-model-parallel-size 2",
        &checkpoint));
    EXPECT_EQ(checkpoint.notes, std::vector<std::string>{"not used: --heterogeneous-layers-config-path"});
}

TEST(ReadModel, ReadsTheFlagsOfAShellScript) {
    const auto folder = support::Folder();
    const auto path = folder.path() + "/train.sh";
    std::ofstream(path) << R"(#!/bin/bash
# --num-layers 99 is not what is run
NUM_LAYERS=32
HIDDEN=4096
GPT_MODEL_ARGS=(
    --num-layers ${NUM_LAYERS}
    --hidden-size "$HIDDEN"   # the width
    --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8
    --ffn-hidden-size=14336
    --swiglu --vocab-size 128256
    --untie-embeddings-and-output-weights
)
torchrun --nproc-per-node 8 pretrain_gpt.py ${GPT_MODEL_ARGS[@]}
)";
    EXPECT_EQ(plan::read_model(path), plan::read_model(llama));
    // Text variables, commands behind ;, defaults and sums are those of the shell, and each flag stands once.
    EXPECT_EQ(plan::read_model("N=$((30 + 2)); ARGS=\"--num-layers ${N:-99} --hidden-size ${H:-4096}\"; "
                               "ARGS+=\" --num-attention-heads 32 --group-query-attention\"; "
                               "run $ARGS --num-query-groups 8 --ffn-hidden-size 14336 --swiglu "
                               "--vocab-size 128256 --untie-embeddings-and-output-weights"),
              plan::read_model(llama));
    EXPECT_EQ(error_of("--num-layers 32 --num-layers 33"),
              "MODEL: --num-layers is given twice; give it once");
}

TEST(ReadModel, RefusesWithFileFieldAndValue) {
    const auto cases = std::vector<std::pair<std::string, std::string>>{
        {"layers=0 hidden=4096 heads=32 ffn=1 vocab=1",
         "MODEL: layers is '0'; it must be a whole number from 1 to 2147483647"},
        {"layers=nan hidden=4096 heads=32 ffn=1 vocab=1",
         "MODEL: layers is 'nan'; it must be a whole number from 1 to 2147483647"},
        {"layers=-2 hidden=4096 heads=32 ffn=1 vocab=1",
         "MODEL: layers is '-2'; it must be a whole number from 1 to 2147483647"},
        {"layers=32 hidden=4096 heads=32 vocab=1", "MODEL: has no ffn; add ffn=N"},
        {"layers=32 hidden=4096 heads=32 ffn=1 vocab=1 layers=3",
         "MODEL: layers is given twice; give it once"},
        {"layers=32 hidden=4097 heads=32 ffn=1 vocab=1",
         "MODEL: hidden 4097 is not a multiple of heads 32; add head_dim=N"},
        {"{\"hidden_size\": 4096}", "MODEL: has no num_hidden_layers, the number of layers; add it"},
        {"{\"peft_type\": \"LORA\", \"r\": 16}",
         "MODEL: is of an adapter; give the config.json of its base model"},
        {"{\"dim\": 4096, \"n_layers\": 32, \"n_heads\": 32}",
         "MODEL: is in the form of Meta's and Mistral's own code; give the config.json for transformers"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"draft_vocab_size\": 32000}",
         "MODEL: is of a draft that guesses tokens; give the config.json of the model itself"},
        {"{\"num_hidden_layers\": 0}",
         "MODEL: num_hidden_layers is 0; it must be a whole number from 1 to 2147483647"},
        {"{\"num_hidden_layers\": 1e9}",
         "MODEL: num_hidden_layers is 1000000000.0; it must be a whole number from 1 to 2147483647"},
        {"{\"num_hidden_layers\": \"32\"}",
         "MODEL: num_hidden_layers is '32'; it must be a whole number from 1 to 2147483647"},
        {"--num-layers 32 --hidden-size 64 --num-attention-heads 4",
         "MODEL: has no --vocab-size, because Megatron takes it from the tokenizer; add --vocab-size N"},
        {"--num-layers $N --hidden-size 64 --num-attention-heads 4",
         "MODEL: --num-layers is '$N'; it must be a whole number from 1 to 2147483647"},
        {"nowhere/config.json", "nowhere/config.json cannot be read: No such file or directory"}};
    for (const auto& [text, error] : cases) EXPECT_EQ(error_of(text), error) << text;
    const auto unknown = error_of("llama3.1-8");
    EXPECT_TRUE(
        unknown.starts_with("unknown model 'llama3.1-8'; did you mean 'llama3.1-8B'?; models are gpt3-22B, "))
        << unknown;
    for (const auto& model : plan::models())
        EXPECT_NE(unknown.find(model.name), std::string::npos) << model.name;
    EXPECT_TRUE(error_of("layers=32 hiden=4096")
                    .starts_with("MODEL: 'hiden=4096' is not a size of a model; sizes are name, "))
        << error_of("layers=32 hiden=4096");
    EXPECT_TRUE(error_of("layers=32 hiden=4096").ends_with("; did you mean 'hidden'?"));
}

}  // namespace of_read_tests
