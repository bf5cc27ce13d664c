// SPDX-License-Identifier: Apache-2.0
// The types of weights, cache and products, and whether a layout fits.
#include <gtest/gtest.h>

#include <fstream>

#include <rankmesh/core/error.hpp>
#include <rankmesh/plan/answer.hpp>
#include <rankmesh/plan/read.hpp>

#include "plan/jobs.hpp"
#include "support/processes.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan {
namespace {

Checkpoint checkpoint_of(const std::string& quantization) {
    auto checkpoint = Checkpoint{};
    static_cast<void>(read_model_text(
        R"({"model_type": "llama", "quantization_config": )" + quantization + "}", "f", &checkpoint));
    return checkpoint;
}

TEST(Precision, OfACheckpointIsWhatItsFileSays) {
    struct Case {
        const char* quantization;
        const char* weights;
        bool only_experts;
    };
    for (
        const auto& [text, weights, only_experts] :
        {Case{R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", "fp8", false},
         Case{R"({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]})",
              "fp8", true},
         Case{
             R"({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]})",
             "mxfp4", true},
         Case{R"({"quant_method": "gptq", "bits": 4, "group_size": 128})", "int4", false},
         // The attention of an encoder of images, and small parts of attention, do not matter.
         Case{R"({"quant_method": "fp8", "modules_to_not_convert": ["model.visual.blocks.0.attn.qkv",
                   "model.layers.0.linear_attn.conv1d", "model.layers.0.self_attn.q_norm"]})",
              "fp8", false},
         Case{R"({"quant_method": "gptq", "bits": 8})", "int8", false},
         Case{R"({"quant_method": "awq", "bits": 4})", "int4", false},
         Case{R"({"quant_method": "bitsandbytes", "load_in_8bit": true})", "int8", false},
         Case{R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]})", "nvfp4",
              false},
         Case{R"({"quant_method": "compressed-tensors", "format": "float-quantized",
                   "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}})",
              "fp8", false},
         Case{R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                   "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
                   "ignore": ["re:.*self_attn.*"]})",
              "int4", true},
         Case{
             R"({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}})",
             "int4", false},
         Case{
             R"({"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig"}}})",
             "fp8", false},
         Case{
             R"({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32},
                   "input_tensors": {"dtype": "fp8_e4m3"}}, "exclude": ["lm_head"]})",
             "mxfp4", false},
         // Latent attention has several projections; without that of the queries, most of it is left out.
         Case{R"({"quant_algo": "NVFP4", "exclude_modules": ["model.layers.0.self_attn.q_b_proj"]})", "nvfp4",
              true},
         // Of several types, that of the networks counts, wherever it stands.
         Case{R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
                   "model.layers.0.mlp.up_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
                   "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"}, "lm_head": {"quant_algo": "FP8"}}})",
              "nvfp4", true},
         Case{R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {
                   "group_0": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}},
                   "group_1": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}}}})",
              "nvfp4", true}}) {
        const auto found = checkpoint_of(text);
        ASSERT_TRUE(found.weights) << text;
        EXPECT_EQ(to_string(*found.weights), weights) << text;
        EXPECT_EQ(found.only_experts, only_experts) << text;
        EXPECT_EQ(found.notes, std::vector<std::string>{}) << text;
    }
    EXPECT_TRUE(checkpoint_of(R"({"quant_method": "compressed-tensors", "format": "float-quantized",
        "kv_cache_scheme": {"num_bits": 8, "type": "float"}})")
                    .fp8_cache);
    EXPECT_EQ(checkpoint_of(R"({"quant_method": "own"})").notes,
              std::vector<std::string>{"not used: quantization_config of own"});
    auto mlx = plan::Checkpoint{};  // of mlx-lm: only quantization, in later versions both
    plan::read_model_text(R"({"model_type": "llama", "quantization": {"group_size": 64, "bits": 4}})", "f",
                          &mlx);
    EXPECT_EQ(mlx.weights, plan::Precision::int4);
    EXPECT_EQ(mlx.notes, std::vector<std::string>{});
    EXPECT_FALSE(checkpoint_of(R"({"quant_method": "own"})").weights);
}

TEST(Precision, OfModelOptStandsBesideTheConfig) {
    const auto folder = support::Folder();
    std::ofstream(folder.path() + "/config.json") << R"({"model_type": "llama"})";
    std::ofstream(folder.path() + "/hf_quant_config.json")
        << R"({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})";
    auto checkpoint = Checkpoint{};
    static_cast<void>(read_model(folder.path() + "/config.json", &checkpoint));
    EXPECT_EQ(checkpoint.weights, Precision::fp8);
    EXPECT_TRUE(checkpoint.fp8_cache);
    // It may list the type of each of 22,000 experts.
    auto list = std::string{};
    for (int i = 0; i < 22'000; ++i)
        list += (i > 0 ? ", " : "") + ("\"mlp.experts." + std::to_string(i)) +
                R"(.w1": {"quant_algo": "NVFP4", "group_size": 16})";
    std::ofstream(folder.path() + "/hf_quant_config.json")
        << R"({"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {)" << list << "}}}";
    static_cast<void>(read_model(folder.path() + "/config.json", &checkpoint));
    EXPECT_EQ(checkpoint.weights, Precision::nvfp4);
}

TEST(Precision, OfADenseModelWithoutItsAttentionCountsItsNetworks) {
    auto job = job_of("llama3.1-405B", "H200-SXM-141GB", "*", 8, 8);
    job.sequence = 1024;
    job.weights = Precision::fp8;
    job.only_experts = true;
    const auto layout = ServeLayout{.tp = 8};
    const auto parameters = plan::parameters(job.model);
    const auto ffn = 126.0 * 3 * 16384 * 53248;
    const auto whole = static_cast<double>(parameters.total);
    EXPECT_NEAR(8 * static_cast<double>(serve(job, layout).memory.weights) / (2 * whole - ffn), 1, 0.01);
}

TEST(Precision, OfWeightsCountsTheirScales) {
    auto job = job_of("llama3.1-8B", "H200-SXM-141GB", "*", 1, 8);
    job.sequence = 1024;
    const auto whole = serve(job, {}).memory;
    const auto wide = 2.0 * 2.0 * static_cast<double>(parameters(job.model).embedding);
    for (const auto* name : {"fp8", "int8", "nvfp4", "mxfp4", "int4"}) {
        job.weights = precision_of(name);
        const auto found = serve(job, {}).memory;
        EXPECT_NEAR((static_cast<double>(found.weights) - wide) / (static_cast<double>(whole.weights) - wide),
                    bytes(*job.weights) / 2, 1e-6)
            << name;
        EXPECT_EQ(found.cache, whole.cache);
    }
    EXPECT_EQ(precision_of("fp6"), std::nullopt);
    // Experts of gpt-oss in MXFP4, all else in bfloat16: 63.4 GiB of weights, as its model card says 60.8 GiB
    // of file.
    auto oss = job_of("gpt-oss-120B", "H100", "*", 1, 8);
    oss.weights = Precision::mxfp4;
    oss.only_experts = true;
    EXPECT_NEAR(static_cast<double>(serve(oss, {}).memory.weights) / (1 << 30), 60.8, 1.5);
}

TEST(Precision, OfAQuestionSaysWhatItTook) {
    auto question = Question{
        .model = R"({"model_type": "llama", "quantization_config": {"quant_method": "gptq", "bits": 4}})",
        .serve = true,
        .on = Cluster::parse("gpu:1(450GB/s)"),
        .device = "H200",
        .batch = 8,
        .sequence = 1024,
        .explain = "tp=1"};
    const auto said = [&](const Question& asked, std::string_view sentence) {
        return std::ranges::count(answer(asked).assumed, sentence) == 1;
    };
    EXPECT_TRUE(said(question, "weights in int4, as quantization_config says"));
    EXPECT_TRUE(said(question, "matrix products in bf16, to which weights are widened"));
    auto training = question;
    training.serve = false;
    training.kv = "fp8";
    EXPECT_EQ(text_of([&] { static_cast<void>(answer(training)); }),
              "--kv belongs to --serve; training holds weights as --compute says, and no cache");
    question.weights = "bf16";
    EXPECT_EQ(answer(question).job.weights, Precision::bf16);
    question.kv = "fp8";
    EXPECT_TRUE(answer(question).served()->layout.fp8_cache);
    question.kv = "int4";
    EXPECT_EQ(text_of([&] { static_cast<void>(answer(question)); }), "--kv must be bf16 or fp8, not 'int4'");
    question.kv = "", question.weights = "fp7";
    EXPECT_EQ(text_of([&] { static_cast<void>(answer(question)); }),
              "--weights must be bf16, fp8, int8, nvfp4, mxfp4 or int4, not 'fp7'");
}

TEST(Fit, IsTightWithinTheErrorOfTheEstimate) {
    EXPECT_EQ(fit(1000, 1030), Fit::fits);
    EXPECT_EQ(fit(1000, 1029), Fit::tight);
    EXPECT_EQ(fit(1000, 1000), Fit::tight);
    EXPECT_EQ(fit(1000, 999), Fit::too_large);
    for (const auto& one : devices()) {
        EXPECT_LT(capacity(one), one.memory) << one.name;
        EXPECT_GT(capacity(one), one.memory - (std::int64_t{1} << 30)) << one.name;
    }
    EXPECT_EQ(device("H200").memory / (1 << 20), 143771);
    EXPECT_EQ(device("H100").memory / (1 << 20), 81559);
}

TEST(Devices, ByAShortNameAreTheOneOrListed) {
    EXPECT_EQ(device("H200").name, "H200-SXM-141GB");
    EXPECT_EQ(device("v100").name, "V100-SXM-32GB");
    EXPECT_EQ(device("4090").name, "RTX-4090");
    EXPECT_EQ(text_of([] { static_cast<void>(device("A100")); }),
              "'A100' is one of A100-SXM-40GB, A100-SXM-80GB, A100-PCIE-40GB and A100-PCIE-80GB; name one");
}

}  // namespace
}  // namespace rankmesh::plan
