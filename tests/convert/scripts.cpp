// SPDX-License-Identifier: Apache-2.0
// Launch scripts and manifests: which of their commands starts the job, and what these say besides flags.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

namespace rankmesh::tests {
namespace {

class Scripts : public testing::Test {
protected:
    Scripts() { std::filesystem::create_directories(folder_); }
    ~Scripts() override { std::filesystem::remove_all(folder_); }

    std::string file(const std::string& name, const std::string& text) {
        std::ofstream(folder_ / name) << text;
        return (folder_ / name).string();
    }
    /// The mesh of a script, or the error with FILE for its name.
    std::string mesh(const std::string& text, const std::string& from = "megatron",
                     const std::string& name = "run.sh") {
        const auto path = file(name, text);
        try {
            return rankmesh::convert(from, "rankmesh", {path}).mesh_from;
        } catch (const UsageError& error) {
            auto said = std::string(error.what());
            if (const auto at = said.find(path); at != std::string::npos)
                said.replace(at, path.size(), "FILE");
            return said;
        }
    }

private:
    std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / ("rankmesh-scripts-" + std::to_string(::getpid()));
};

constexpr auto two = "--tensor-model-parallel-size 2";

TEST_F(Scripts, WhatWouldBeLostIsRefused) {
    EXPECT_EQ(mesh("#!/bin/bash\ntorchrun --nproc_per_node 8 t.py --moe-expert-parallel-size 8 " +
                   std::string(two) + "\n"),
              "megatron has no setting '--moe-expert-parallel-size' that places ranks; did you mean "
              "'--expert-model-parallel-size'?");
    EXPECT_EQ(mesh("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - command: [vllm, serve, m, "
                   "'--port={{ .p }}']\n",
                   "vllm", "a.yaml"),
              "the settings in FILE have the template '{{ .p }}'; give the text that it makes, such as that "
              "of helm "
              "template");
    EXPECT_EQ(mesh("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - command: [vllm, serve, m]\n"
                   "    - command: [bash, -c, vllm serve m $FLAGS]\n",
                   "vllm", "a.yaml")
                  .substr(0, 30),
              "the settings in FILE pass '$FL");
    EXPECT_EQ(mesh("#!/bin/bash\ndeepspeed --num_gpus 8 main.py --zero_stage 2\n", "deepspeed"),
              "the command names no file with DeepSpeed's settings; add --deepspeed_config FILE, or write "
              "data=N if all "
              "ranks are data parallel");
}

TEST_F(Scripts, ServersWithoutSizesHaveOneRank) {
    EXPECT_EQ(mesh("vllm serve org/model --trust-remote-code\n", "vllm"), "dp=1 pp=1 tp=1");
    EXPECT_EQ(
        mesh("docker run --gpus all -v a:b vllm/vllm-openai-rocm:v0.33 org/model --max-model-len 4096\n",
             "vllm"),
        "dp=1 pp=1 tp=1");
    EXPECT_EQ(
        mesh("sglang serve --model-path m\n\npython3 -m sglang.bench_serving --backend sglang\n", "sglang"),
        "pp=1 dp=1 cp=1 tp=1");
    EXPECT_EQ(mesh("vllm serve m -tp 4\nvllm bench serve --model m --num-prompts 10\n", "vllm"),
              "dp=1 pp=1 tp=4");
    EXPECT_NE(
        mesh("sglang serve --model-path m --ulysses-degree 2\n", "sglang").find("give nothing that sglang"),
        std::string::npos);  // an engine of another kind
}

TEST_F(Scripts, OthersThatStartMegatronSayTheWorld) {
    EXPECT_EQ(mesh("NNODES=2 NPROC_PER_NODE=8 \\\nmegatron sft \\\n  --model a/b \\\n  "
                   "--tensor_model_parallel_size 2\n"),
              "pp=1 dp=8 cp=1 tp=2");
    EXPECT_EQ(mesh("#!/bin/bash\nA=(--actor-num-nodes 2)\nray job submit -- python3 train.py ${A[@]} "
                   "--actor-num-gpus-per-node 8 --colocate " +
                   std::string(two) + "\n"),
              "pp=1 dp=8 cp=1 tp=2");
    EXPECT_EQ(mesh("MODEL_ARGS:\n  --tensor-model-parallel-size: 2\n  --use-distributed-optimizer: true\n  "
                   "--world-size: 8\n",
                   "megatron", "model_config.yaml"),
              "pp=1 dp=4 cp=1 tp=2");
}

}  // namespace
}  // namespace rankmesh::tests
