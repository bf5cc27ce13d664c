// SPDX-License-Identifier: Apache-2.0
// Manifests of operators and values of charts, shortened, and what their templates make of them.
#include <gtest/gtest.h>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

namespace rankmesh::tests {
namespace {

std::string mesh(const std::string& text, const std::string& from = "vllm") {
    try {
        return convert_text(from, "rankmesh", text, {}).mesh_from;
    } catch (const UsageError& error) {
        return error.what();
    }
}

std::string dynamo(const std::string& prefill, const std::string& decode) {
    return "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nspec:\n  services:\n"
           "    Frontend: {replicas: 1, extraPodSpec: {mainContainer: {command: [python3, -m, "
           "dynamo.frontend], "
           "args: [--http-port, '8000']}}}\n"
           "    decode: {multinode: {nodeCount: 2}, extraPodSpec: {mainContainer: {command: [python3, -m, "
           "dynamo.sglang], "
           "args: [--model-path, /model, --disaggregation-mode, decode, " +
           decode +
           "]}}}\n"
           "    prefill: {extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.sglang], "
           "args: [--model-path, /model, --disaggregation-mode, prefill, " +
           prefill + "]}}}\n";
}

TEST(Operators, DynamoStartsServersBesideItsFrontend) {
    EXPECT_EQ(mesh(dynamo("--tp-size, '16'", "--tp-size, '16', --skip-tokenizer-init"), "sglang"),
              "pp=1 dp=1 cp=1 tp=16");
    EXPECT_TRUE(
        mesh(dynamo("--tp, '8', --ep-size, '8'",
                    "--tp, '8', --dp, '8', --enable-dp-attention, --ep-size, '8'"),
             "sglang")
            .ends_with("are a manifest, 2 of whose containers start different jobs: '--tp 8 --dp 8 "
                       "--enable-dp-attention --ep-size 8' and '--tp 8 --ep-size 8'; keep one of them"));
    EXPECT_NE(mesh(dynamo("--tp, '8'", "--tp, '4'"), "sglang").find("different jobs: '--tp 4' and '--tp 8'"),
              std::string::npos);
    EXPECT_EQ(
        mesh(
            "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nspec:\n  components:\n"
            "  - podTemplate: {spec: {containers: [{command: [/bin/bash, -c], args: [\"exec python3 -m "
            "dynamo.vllm --tensor-parallel-size 1 --data-parallel-size 16 --enable-expert-parallel\"]}]}}\n"),
        "dp=16 pp=1 tp=1; edp=1 ep=16 pp=1");
}

TEST(Operators, KServeMakesFlagsOfItsSizes) {
    const auto service = std::string(
        "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nspec:\n"
        "  model: {uri: hf://deepseek-ai/DeepSeek-V2-Lite}\n"
        "  parallelism: {data: 16, dataLocal: 8, tensor: 2, expert: true}\n"
        "  template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: '8'}}}]}\n");
    EXPECT_EQ(mesh(service), "dp=16 pp=1 tp=2; edp=1 ep=32 pp=1");
    EXPECT_EQ(mesh(service + "  worker: {containers: [{name: main}]}\n"),
              "dp=16 pp=1 tp=2; edp=1 ep=32 pp=1");
    EXPECT_TRUE(mesh(service + "  prefill: {parallelism: {tensor: 4}, template: {}}\n")
                    .find("2 of whose containers start different jobs: '--tensor-parallel-size 4' and ") !=
                std::string::npos);
    const auto predictor = std::string(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nspec:\n  predictor:\n"
        "    model:\n      modelFormat: {name: huggingface}\n      args: [--model_name=llama3");
    EXPECT_EQ(mesh(predictor + ", --tensor-parallel-size=8]\n"), "dp=1 pp=1 tp=8");
    EXPECT_EQ(mesh(predictor + "]\n    workerSpec: {pipelineParallelSize: 2, tensorParallelSize: 4}\n"),
              "dp=1 pp=2 tp=4");
    EXPECT_TRUE(mesh(predictor + "]\n").find("none of whose containers starts vllm") != std::string::npos);
}

TEST(Operators, ChartsHaveSizesInTheirValues) {
    EXPECT_EQ(
        mesh("servingEngineSpec:\n  modelSpec:\n  - name: distilgpt2\n    repository: lmcache/vllm-openai\n"
             "    replicaCount: 1\n    vllmConfig: {tensorParallelSize: 4, pipelineParallelSize: 2, "
             "extraArgs: [--max-num-seqs, '2']}\n"),
        "dp=1 pp=2 tp=4");
    EXPECT_EQ(
        mesh("multinode: false\ndecode:\n  replicas: 1\n  parallelism: {tensor: 2, data: 1, workers: 1}\n"
             "  containers: [{name: vllm, image: 'ghcr.io/llm-d/llm-d:v0.2.0', modelCommand: vllmServe, "
             "args: [--enforce-eager]}]\nprefill: {create: false}\n"),
        "dp=1 pp=1 tp=2");
    // Not a chart's.
    EXPECT_EQ(convert_text(
                  "nanotron", "rankmesh",
                  "parallelism: {dp: 4, pp: 1, tp: 2}\nlighteval: {parallelism: {dp: 1, pp: 1, tp: 8}}\n", {})
                  .mesh_from,
              "pp=1 dp=4 tp=2");
}

TEST(Operators, AnImageOfTheUsersMayHaveFlagsAlone) {
    EXPECT_EQ(mesh("apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n"
                   "        - {image: 'registry.example.com/llm:1.2', args: [--model, x, -tp, '8', "
                   "--pipeline-parallel-size=2]}\n"
                   "        - {image: 'envoyproxy/envoy:v1', args: [--config-path, /etc/envoy.yaml]}\n"),
              "dp=1 pp=2 tp=8");
}

// In ms-swift experts are whole unless a flag says otherwise, as in its MegatronArguments.
TEST(Operators, MsSwiftHasADefaultOfItsOwn) {
    const auto command =
        std::string("NPROC_PER_NODE=8 megatron sft --model Qwen3-30B-A3B --tensor_model_parallel_size 2 ");
    EXPECT_EQ(mesh(command + "--expert_model_parallel_size 8 --train_type lora\n", "megatron"),
              "pp=1 dp=4 cp=1 tp=2; pp=1 edp=1 ep=8 etp=1");
    EXPECT_EQ(mesh(command + "--expert_model_parallel_size 4 --expert_tensor_parallel_size 2\n", "megatron"),
              "pp=1 dp=4 cp=1 tp=2; pp=1 edp=1 ep=4 etp=2");
    EXPECT_EQ(mesh(command + "--bf16\n", "megatron"), "pp=1 dp=4 cp=1 tp=2");
}

}  // namespace
}  // namespace rankmesh::tests
