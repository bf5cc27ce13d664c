// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

const std::string one_box = " --on 'node:1(400GB/s,5us) gpu:8(450GB/s,2us)' --device H100 ";

std::string serving(const std::string& words) { return "plan llama3.1-70B --serve" + one_box + words; }

TEST(PlanServe, Text_IsWhatTheJsonSays) {
    const auto plan = json_of(serving("--batch 64 --json"));
    EXPECT_EQ(plan["batch"], 64);
    EXPECT_FALSE(plan.contains("stack"));
    const auto printed = rankmesh(serving("--batch 64"));
    EXPECT_EQ(printed.exit_code, 0);
    ASSERT_GT(plan["best"].size(), 1U);
    auto last = 0.0;
    for (const auto& one : plan["best"]) {
        const auto decode = one["decode"]["high"].get<double>();
        EXPECT_GE(decode, last);
        last = decode;
        EXPECT_EQ(one["fits"], true);
        const auto layout = one["layout"].get<std::string>();
        const auto room = std::to_string(one["memory"]["tokens"].get<std::int64_t>());
        EXPECT_NE(printed.output.find(room + "  memory  " + layout + "\n"), std::string::npos)
            << printed.output;
        auto explained = json_of(serving("--batch 64 --json --explain '" + layout + "'"));
        EXPECT_EQ(explained["explained"], one);
        EXPECT_EQ(explained["change"], nullptr);
    }
    for (const auto& assumed : plan["assumed"])
        EXPECT_NE(printed.output.find("assumed: " + assumed.get<std::string>()), std::string::npos);
}

TEST(PlanServe, Explain_SaysWhatIsMissingAndWhatFits) {
    const auto words = serving("--batch 64 --explain 'dp=4 tp=2' ");
    const auto printed = rankmesh(words);
    EXPECT_EQ(printed.exit_code, 1);
    const auto plan = json_of(words + "--json");
    EXPECT_EQ(plan["explained"]["fits"], false);
    EXPECT_EQ(plan["explained"]["memory"]["estimate"].get<std::int64_t>() > plan["capacity"], true);
    EXPECT_NE(printed.output.find("\ndoes not fit: "), std::string::npos) << printed.output;
    const auto change = plan["change"]["layout"].get<std::string>();
    EXPECT_NE(printed.output.find("\nfits: " + change + ", with decode of "), std::string::npos)
        << printed.output;
    EXPECT_EQ(rankmesh(serving("--batch 64 --explain '" + change + "'")).exit_code, 0);
    // 2 bytes a key do not fit, one does.
    const auto half = json_of(serving("--batch 200 --json"));
    EXPECT_EQ(half["best"].size(), 0U);
    EXPECT_EQ(half["change"]["fp8_cache"], true);
    const auto none = rankmesh(serving("--batch 64 --gpus 1"));
    EXPECT_EQ(none.exit_code, 1);
    EXPECT_NE(none.output.find("no layout fits; try --precision fp8, "), std::string::npos) << none.output;
    // The weights alone are too large; a layout that divides them lacks the least.
    const auto weights = rankmesh("plan llama3.1-405B --serve" + one_box + "--batch 64").output;
    EXPECT_NE(weights.find("\nnothing fits: tp=8 needs the least memory, "), std::string::npos) << weights;
}

TEST(PlanServe, Settings_AreFlagsOfTheEngine) {
    const auto words = std::string(
        "plan deepseek-v3 --serve --on 'node:2(400GB/s) gpu:8(450GB/s)' --device H100 --precision fp8 --seq "
        "4096 "
        "--batch 64 --explain 'pp=2 dp=2 tp=4 ep=8 dcp=2 cache=fp8' --as ");
    EXPECT_NE(
        rankmesh(words + "vllm")
            .output.find("\n--tensor-parallel-size 4 --pipeline-parallel-size 2 --data-parallel-size 2 "
                         "--enable-expert-parallel --decode-context-parallel-size 2 --kv-cache-dtype fp8 "
                         "--max-model-len 4096 --max-num-seqs 32\n"),
        std::string::npos);
    const auto sglang = json_of(words + "sglang --json")["settings"];
    EXPECT_EQ(sglang["text"],
              "--tensor-parallel-size 8 --pipeline-parallel-size 2 --attention-data-parallel-size 2 "
              "--expert-parallel-size 8 --decode-context-parallel-size 2 --kv-cache-dtype fp8_e4m3 "
              "--context-length 4096 --max-running-requests 64");
    EXPECT_EQ(sglang["mesh"], "pp=2 dp=2 tp=4");
    EXPECT_EQ(sglang["notes"].size(), 1U);
}

TEST(PlanServe, Output_FoldsToTheTerminal) {
    for (const auto* words :
         {"--batch 64", "--batch 64 --explain 'tp=8'", "--batch 64 --explain 'dp=4 tp=2'", "--gpus 1"})
        EXPECT_EQ(wider_than(70, rankmesh(serving(words), "export COLUMNS=70;").output),
                  std::vector<std::string>{})
            << words;
}

TEST(PlanServe, Mistakes_AreRefused) {
    const auto error = [](const std::string& words) { return rankmesh(serving(words)).output; };
    EXPECT_EQ(
        error("--measured steps"),
        "rankmesh: --measured calibrates training steps, which --serve does not predict; leave one out\n");
    EXPECT_EQ(error("--as megatron"), "rankmesh: --serve plans for vllm and sglang, not for megatron\n");
    EXPECT_EQ(error("--max cache=fp8"),
              "rankmesh: 'cache=fp8' is no limit; only sizes have one, such as tp=8\n");
    EXPECT_EQ(error("--explain 'tp=4 dp=4'"),
              "rankmesh: the layout dp=4 tp=4 has 16 ranks, the job 8 devices\n");
    EXPECT_EQ(
        error("--fix tp=3"),
        "rankmesh: no layout of 8 devices has the fixed sizes within the limits; pp * tp * dp must be 8\n");
    EXPECT_EQ(
        error("--fix dcp=8"),
        "rankmesh: vLLM can run no layout of 8 devices within these limits, such as: the layout has dcp=8, "
        "but tp=8 holds one copy of each of the 8 kv heads; dcp divides copies only\n");
}

}  // namespace
}  // namespace rankmesh::tests
