// SPDX-License-Identifier: Apache-2.0
// NeMo-RL's recipes, shortened: a file above others that it names by `defaults`.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

class NemoRl : public testing::Test {
protected:
    NemoRl() {
        file("grpo_math_1B.yaml",
             "policy:\n"
             "  precision: bfloat16\n"
             "  dtensor_cfg: {enabled: true, tensor_parallel_size: 1, context_parallel_size: 1}\n"
             "  megatron_cfg:\n"
             "    enabled: false\n"
             "    tensor_model_parallel_size: 1\n"
             "    expert_tensor_parallel_size: 1\n"
             "    expert_model_parallel_size: 1\n"
             "    pipeline_model_parallel_size: 1\n"
             "    num_layers_in_first_pipeline_stage: null\n"
             "    context_parallel_size: 1\n"
             "  make_sequence_length_divisible_by: ${policy.dtensor_cfg.tensor_parallel_size}\n"
             "  generation:\n"
             "    backend: vllm\n"
             "    vllm_cfg: {tensor_parallel_size: 1, pipeline_parallel_size: 1, expert_parallel_size: 1}\n"
             "    colocated: {enabled: true, resources: {gpus_per_node: null, num_nodes: null}}\n"
             "cluster: {gpus_per_node: 1, num_nodes: 1}\n");
    }
    std::string file(const std::string& name, const std::string& text) {
        const auto path = std::filesystem::path(own_.path()) / name;
        std::ofstream(path) << text;
        return path.string();
    }
    static Conversion converted(const std::string& path, const std::vector<std::string>& more = {},
                                const std::string& to = "rankmesh") {
        auto words = std::vector{path};
        words.insert(words.end(), more.begin(), more.end());
        return rankmesh::convert("nemo-rl", to, words);
    }
    std::string mesh(const std::string& recipe, const std::vector<std::string>& more = {}) {
        try {
            return converted(file("recipe.yaml", "defaults: grpo_math_1B.yaml\n" + recipe), more).mesh_from;
        } catch (const UsageError& error) {
            return error.what();
        }
    }

    support::Folder own_;
    const std::string megatron_ =
        "policy:\n"
        "  dtensor_cfg: {enabled: false, tensor_parallel_size: 2}\n"
        "  megatron_cfg: {enabled: true, tensor_model_parallel_size: 4, pipeline_model_parallel_size: 2}\n"
        "  generation: {vllm_cfg: {tensor_parallel_size: "
        "4}}\n";
    const std::string two_hosts_ = "cluster: {gpus_per_node: 8, num_nodes: 2}\n";
};

TEST_F(NemoRl, TheEngineThatIsOnSaysTheLayout) {
    EXPECT_EQ(mesh(two_hosts_), "dp_replicate=1 dp_shard=16 cp=1 tp=1; servers=16 dp=1 pp=1 tp=1");
    EXPECT_EQ(mesh(two_hosts_ + megatron_),
              "pp=2 dp=2 cp=1 tp=4; pp=2 edp=8 ep=1 etp=1; servers=4 dp=1 pp=1 tp=4");
    EXPECT_EQ(
        mesh(two_hosts_ + "policy: {dtensor_cfg: {enabled: false}}\n"),
        "of policy.megatron_cfg and policy.dtensor_cfg, none is enabled; set enabled: true in one of them");
    // NeMo-Automodel's mesh of experts is over all ranks of the other.
    EXPECT_EQ(mesh(two_hosts_ + "policy: {dtensor_cfg: {dp_replicate_size: 2, tensor_parallel_size: 2, "
                                "expert_parallel_size: 8}}\n"),
              "dp_replicate=2 dp_shard=4 cp=1 tp=2; edp=2 ep=8; servers=16 dp=1 pp=1 tp=1");
    EXPECT_EQ(mesh(two_hosts_ + "policy: {dtensor_cfg: {context_parallel_size: 3}}\n"),
              "policy.dtensor_cfg.context_parallel_size is 3; it must divide the 16 ranks that are left "
              "to it");
}

TEST_F(NemoRl, ServersMayHaveRanksOfTheirOwn) {
    const auto apart = std::string(
        "policy:\n  generation:\n"
        "    vllm_cfg: {tensor_parallel_size: 2, expert_parallel_size: 8}\n"
        "    colocated: {enabled: false, resources: {gpus_per_node: 8, num_nodes: 1}}\n");
    EXPECT_EQ(mesh("cluster: {gpus_per_node: 8, num_nodes: 4}\n" + apart),
              "dp_replicate=1 dp_shard=24 cp=1 tp=1 + servers=1 dp=4 pp=1 tp=2 @24; servers=1 pp=1 ep=8 @24");
    EXPECT_EQ(
        mesh("cluster: {gpus_per_node: 8, num_nodes: 1}\n" + apart),
        "policy.generation.colocated.resources.num_nodes and gpus_per_node make 8 ranks for generation; "
        "they must be 1 to 7 of the 8");
    const auto serving =
        converted(file("recipe.yaml", "defaults: [grpo_math_1B.yaml]\n" + two_hosts_ + apart), {}, "vllm");
    EXPECT_TRUE(serving.text->find("--data-parallel-size 4") != std::string::npos) << *serving.text;
}

TEST_F(NemoRl, LaterFilesAndWordsWin) {
    file("moe.yaml", "defaults: grpo_math_1B.yaml\n" + two_hosts_ + megatron_);
    EXPECT_EQ(converted(file("child.yaml",
                             "defaults: moe.yaml\npolicy: {megatron_cfg: {expert_model_parallel_size: 2}}\n"))
                  .mesh_from,
              "pp=2 dp=2 cp=1 tp=4; pp=2 edp=4 ep=2 etp=1; servers=4 dp=1 pp=1 tp=4");
    EXPECT_EQ(mesh(two_hosts_ + megatron_, {"policy.megatron_cfg.tensor_model_parallel_size=8"}),
              "pp=2 dp=1 cp=1 tp=8; pp=2 edp=8 ep=1 etp=1; servers=4 dp=1 pp=1 tp=4");
    EXPECT_EQ(mesh(two_hosts_ +
                   "policy:\n  dtensor_cfg: {_override_: true, enabled: true, context_parallel_size: 2}\n"),
              "dp_replicate=1 dp_shard=8 cp=2 tp=1; servers=16 dp=1 pp=1 tp=1");
    EXPECT_TRUE(mesh("cluster: {gpus_per_node: 8}\n", {}).starts_with("dp_replicate=1 dp_shard=8"));
    const auto command = rankmesh::convert("nemo-rl", "rankmesh",
                                           {"uv", "run", "examples/run_grpo.py", "--config",
                                            file("c.yaml", "defaults: moe.yaml\n"), "cluster.num_nodes=4"});
    EXPECT_EQ(command.mesh_from, "pp=2 dp=4 cp=1 tp=4; pp=2 edp=16 ep=1 etp=1; servers=8 dp=1 pp=1 tp=4");
}

TEST_F(NemoRl, WhatIsNotReadIsNamed) {
    const auto lost = [&](const std::string& recipe) {
        const auto found =
            converted(file("recipe.yaml", "defaults: grpo_math_1B.yaml\n" + two_hosts_ + recipe));
        auto names = std::string{};
        for (const auto& loss : found.lost) names += loss.what + ";";
        return names;
    };
    EXPECT_EQ(lost(""), "");
    EXPECT_EQ(lost("policy: {generation: {backend: sglang}}\n"), "NeMo-RL's servers of sglang;");
    EXPECT_EQ(lost("teacher: {dtensor_cfg: {enabled: true, tensor_parallel_size: 4}}\n"),
              "NeMo-RL's teacher dp_replicate=1 dp_shard=4 cp=1 tp=4;");
    EXPECT_EQ(lost("teacher: {dtensor_cfg: {enabled: true, tensor_parallel_size: 1}}\n"), "");
    EXPECT_EQ(lost(megatron_ + "  sequence_packing: {enabled: true}\n"), "");
    EXPECT_EQ(lost("policy: {dtensor_cfg: {enabled: false}, megatron_cfg: {enabled: true, model_overrides: "
                   "{virtual_pipeline_model_parallel_size: 2}}}\n"),
              "NeMo-RL's model_overrides {\"virtual_pipeline_model_parallel_size\":2};");
    const auto stages =
        converted(file("recipe.yaml", "defaults: grpo_math_1B.yaml\n" + two_hosts_ + megatron_),
                  {"policy.megatron_cfg.num_layers_in_first_pipeline_stage=7"}, "megatron");
    EXPECT_TRUE(stages.text->ends_with("--decoder-first-pipeline-num-layers 7")) << *stages.text;
    EXPECT_TRUE(mesh("env: {reward_model: {resources: {gpus_per_node: 1, num_nodes: 1}}}\n" + two_hosts_)
                    .starts_with("reward models and teachers take some of the cluster's 16 ranks"));
}

TEST_F(NemoRl, IsFoundUnderAnotherName) {
    const auto path = file("recipe.yaml", "defaults: grpo_math_1B.yaml\n" + two_hosts_);
    for (const auto* other : {"megatron", "vllm", "torchtitan"}) try {
            static_cast<void>(rankmesh::convert(other, "rankmesh", {path}));
            ADD_FAILURE() << other;
        } catch (const UsageError& error) {
            EXPECT_TRUE(
                std::string(error.what()).ends_with("; a file of nemo-rl is read with from_=\"nemo-rl\"") ||
                std::string(error.what()).ends_with("; a file of nemo-rl is read with --from nemo-rl"))
                << error.what();
        }
    EXPECT_TRUE(mesh("defaults: missing.yaml\n").find("twice") != std::string::npos);
    const auto missing = file("other.yaml", "defaults: missing.yaml\n");
    EXPECT_THROW(static_cast<void>(converted(missing)), UsageError);
    EXPECT_THROW(static_cast<void>(converted(file(
                     "loop.yaml", "defaults: [loop.yaml, loop.yaml, loop.yaml, loop.yaml, loop.yaml]\n"))),
                 UsageError);
}

}  // namespace
}  // namespace rankmesh::tests
