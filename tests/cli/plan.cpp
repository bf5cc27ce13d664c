// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <regex>

#include "rankmesh.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

const std::string on = " --on 'node:4(400GB/s,5us) gpu:8(450GB/s,2us)' --device H100-SXM-80GB --batch 64 ";

std::string plan_of(const std::string& words) { return "plan llama3.1-8B" + on + words; }

void expect_refused(const std::string& words, const std::string& error) {
    const auto outcome = rankmesh(words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.output.substr(0, error.size() + 10), "rankmesh: " + error) << words << "\n"
                                                                                 << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
}

double sum_of(const nlohmann::json& step) {
    auto sum = 0.0;
    for (const auto* part :
         {"compute", "attention", "tp", "cp", "ep", "dp", "pp", "bubble", "head", "optimizer"})
        sum += step[part].get<double>();
    return sum;
}

TEST(PlanSubcommand, ListsTheFastestLayoutsThatFitAndExplainsEach) {
    const auto plan = json_of(plan_of("--json --count 4"));
    ASSERT_EQ(plan["best"].size(), 4U);
    auto last = 0.0;
    for (const auto& one : plan["best"]) {
        const auto seconds = one["step"]["seconds"].get<double>();
        EXPECT_GE(seconds, last);
        last = seconds;
        EXPECT_NEAR(sum_of(one["step"]), seconds, 1e-9 * seconds);
        EXPECT_LE(one["memory"]["estimate"], plan["capacity"]);
        EXPECT_LE(one["memory"]["lower"], one["memory"]["estimate"]);
        EXPECT_EQ(one["fits"], true);
        EXPECT_EQ(Mesh::parse(one["mesh"].get<std::string>()).size(), 32);
        const auto explained =
            json_of(plan_of("--json --explain '" + one["layout"].get<std::string>() + "'"));
        EXPECT_EQ(explained["explained"], one);
        EXPECT_EQ(explained["change"], nullptr);
    }
}

TEST(PlanSubcommand, PrintsWhatItsJsonSays) {
    const auto plan = json_of(plan_of("--json"));
    const auto outcome = rankmesh(plan_of(""));
    EXPECT_EQ(outcome.exit_code, 0);
    for (const auto& one : plan["best"]) {
        const auto layout = one["layout"].get<std::string>();
        const auto settings = layout.substr(layout.find("mbs="));
        EXPECT_NE(outcome.output.find(one["mesh"].get<std::string>()), std::string::npos) << outcome.output;
        EXPECT_NE(outcome.output.find(settings), std::string::npos) << settings << "\n" << outcome.output;
    }
    for (const auto& assumed : plan["assumed"])
        EXPECT_NE(rankmesh(plan_of(""), "COLUMNS=500").output.find("assumed: " + assumed.get<std::string>()),
                  std::string::npos);
    EXPECT_EQ(outcome.output.find('\033'), std::string::npos);
}

TEST(PlanSubcommand, SaysByHowMuchALayoutDoesNotFitAndWhatMakesItFit) {
    const auto words = plan_of("--explain 'tp=1 mbs=2 zero=0 recompute=none' ");
    const auto outcome = rankmesh(words);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.output.find("does not fit: "), std::string::npos) << outcome.output;
    const auto plan = json_of(words + "--json");
    EXPECT_EQ(plan["explained"]["fits"], false);
    EXPECT_GT(plan["explained"]["memory"]["estimate"], plan["capacity"]);
    ASSERT_TRUE(plan["change"].is_object());
    const auto change = plan["change"]["layout"].get<std::string>();
    EXPECT_EQ(rankmesh(plan_of("--explain '" + change + "'")).exit_code, 0) << change;
}

TEST(PlanSubcommand, WritesSettingsThatConvertReadsAsTheSameMesh) {
    for (const auto* framework : {"megatron", "torchtitan", "olmo", "picotron", "torch"}) {
        const auto plan = json_of(plan_of(std::string("--json --fix tp=2 --as ") + framework));
        ASSERT_TRUE(plan.contains("settings")) << framework << plan;
        const auto text = plan["settings"]["text"].get<std::string>();
        const auto folder = support::Folder();
        const auto path = folder.path() + (text.starts_with("[") ? "/settings.toml" : "/settings.txt");
        std::ofstream(path) << text;
        const auto back =
            json_of(std::string("convert --from ") + framework + " --to rankmesh --json --world 32 " + path);
        const auto there = json_of(std::string("convert --from rankmesh --to ") + framework + " --json '" +
                                   plan["best"][0]["mesh"].get<std::string>() + "'");
        EXPECT_EQ(back["mesh_from"], there["mesh_to"]) << framework << ": " << text;
    }
}

TEST(PlanSubcommand, SaysHowManyOfTheLayersAStageOfTorchtitanHas) {
    constexpr auto layers = 32;
    for (const auto& [pp, vpp] : {std::pair{2, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 2}}) {
        const auto fixed = " --fix pp=" + std::to_string(pp) + " --fix vpp=" + std::to_string(vpp);
        const auto plan = json_of(plan_of("--json --as torchtitan" + fixed));
        EXPECT_NE(plan["settings"]["text"].get<std::string>().find(
                      "\npipeline_parallel_layers_per_stage = " + std::to_string(layers / (pp * vpp)) + "\n"),
                  std::string::npos)
            << fixed << plan;
    }
}

TEST(PlanSubcommand, SaysUnevenInterleavedStagesInMegatronsFlags) {
    for (const auto& [layout, flags] :
         {std::pair{"pp=2 vpp=4 mbs=1", "--num-virtual-stages-per-pipeline-rank 4 --sequence"},
          {"pp=2 vpp=17 mbs=1 first=16 last=16",
           "--num-virtual-stages-per-pipeline-rank 17 --account-for-embedding-in-pipeline-split "
           "--account-for-loss-in-pipeline-split --sequence"},
          {"pp=2 vpp=3 mbs=1 first=17 last=15",
           "--pipeline-model-parallel-layout 'Et*5|(t*6|)*4t*3L' --sequence"},
          {"pp=4 mbs=1 first=7 last=7",
           "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7 --sequence"}}) {
        const auto outcome =
            rankmesh(plan_of(std::string("--as megatron --explain 'tp=2 zero=1 ") + layout + "'"));
        EXPECT_NE(outcome.output.find(flags), std::string::npos) << outcome.output;
    }
}

TEST(PlanSubcommand, SaysSettingsOfExpertsInMegatronsFlags) {
    const auto words = std::string(
        "plan grok1-314B --on 'node:64(400GB/s) gpu:8(450GB/s)' --device H100 --batch 512 --as megatron ");
    const auto flags = [&](const std::string& layout) {
        return rankmesh(words + "--explain '" + layout + "' 2>/dev/null").output;
    };
    const auto sharded = flags("tp=4 pp=8 ep=8 etp=1 mbs=1 zero=1 recompute=full grads=bf16 moments=bf16");
    EXPECT_NE(sharded.find("--expert-model-parallel-size 8 --expert-tensor-parallel-size 1"),
              std::string::npos)
        << sharded;
    EXPECT_NE(sharded.find("--grad-reduce-in-bf16 --use-precision-aware-optimizer --exp-avg-dtype bf16 "
                           "--exp-avg-sq-dtype bf16"),
              std::string::npos)
        << sharded;
    // Megatron shards experts like the other layers, unless another size is given.
    const auto inside = flags("tp=4 pp=8 ep=8 etp=4 mbs=1 zero=1 recompute=full offload=50");
    EXPECT_EQ(inside.find("--expert-tensor-parallel-size"), std::string::npos) << inside;
    EXPECT_NE(inside.find("--activation-offload-fraction 0.50"), std::string::npos) << inside;
    const auto hidden = json_of(words + "--fix overlap=ep --fix dispatch=once --json");
    for (const auto& one : hidden["best"])
        EXPECT_TRUE(one["pp"] == 1 || one["vpp"] > 1 || one["overlap_experts"] == false) << one;
}

TEST(PlanSubcommand, IsCalibratedByMeasuredSteps) {
    const auto plan = json_of(plan_of("--json"));
    const auto folder = support::Folder();
    const auto path = folder.path() + "/measured";
    {
        auto file = std::ofstream(path);
        file << "# seconds and layout\n";
        for (int i = 0; i < 3; ++i)
            file << plan["best"][static_cast<std::size_t>(i)]["step"]["seconds"].get<double>() * 1.25 << "  "
                 << plan["best"][static_cast<std::size_t>(i)]["layout"].get<std::string>() << " batch=64\n";
    }
    const auto after = json_of(plan_of("--json --measured " + path));
    EXPECT_NEAR(after["calibration"]["factor"], 1.25, 1e-4);
    EXPECT_NEAR(after["calibration"]["before"], 0.2, 1e-4);
    EXPECT_NEAR(after["calibration"]["after"], 0, 1e-4);
    for (const auto i : {std::size_t{0}, std::size_t{5}}) {
        EXPECT_EQ(after["best"][i]["layout"], plan["best"][i]["layout"]);
        EXPECT_NEAR(after["best"][i]["step"]["seconds"].get<double>(),
                    1.25 * plan["best"][i]["step"]["seconds"].get<double>(), 1e-3);
    }
    EXPECT_NE(rankmesh(plan_of("--measured " + path)).output.find("calibrated by 3 measured steps"),
              std::string::npos);
    std::ofstream(path) << "nan tp=1\n";
    expect_refused(plan_of("--measured " + path),
                   path + " line 1: begins with 'nan'; a line is the seconds of a step, more than 0,");
    std::ofstream(path) << "1.5 tp=3\n";
    EXPECT_EQ(rankmesh(plan_of("--measured " + path)).exit_code, 2);
}

TEST(PlanSubcommand, FitsItsTableToTheTerminalAndLosesNothing) {
    const auto whole = rankmesh(plan_of("")).output;
    const auto shown = json_of(plan_of("--json"))["best"];
    for (const auto width : {40, 60, 80, 100, 150, 400}) {
        const auto text = rankmesh(plan_of(""), "export COLUMNS=" + std::to_string(width) + ";").output;
        auto begin = text.find("step s");
        const auto table = text.substr(begin, text.find("\n\n", begin) - begin);
        for (auto left = table; !left.empty(); left.erase(0, std::min(left.size(), left.find('\n')) + 1))
            EXPECT_LE(std::min(left.size(), left.find('\n')), static_cast<std::size_t>(width)) << table;
        auto words = std::string{};  // wherever lines end
        for (const auto c : table)
            if (c != '\n' || words.empty() || words.back() != ' ') words += c == '\n' ? ' ' : c;
        words = std::regex_replace(words, std::regex(" +"), " ");
        for (const auto& one : shown) {
            EXPECT_NE(words.find(one["layout"].get<std::string>()), std::string::npos) << table;
        }
        if (width == 60) {
            EXPECT_EQ(wider_than(60, text), std::vector<std::string>{});
        }
        if (width == 400) {
            EXPECT_NE(whole.find(table), std::string::npos);
        }
    }
}

TEST(PlanSubcommand, SaysWhereTheNextMeshTakesMoreAndLess) {
    const auto words = std::string(
        "plan qwen3-30B-a3B --on 'node:4(400GB/s,5us) gpu:8(450GB/s,2us)' --device H200 --batch 256 ");
    const auto json = json_of(words + "--json")["best"];
    const auto difference =
        json[1]["step"]["seconds"].get<double>() - json[0]["step"]["seconds"].get<double>();
    const auto text = rankmesh(words, "export COLUMNS=500;").output;
    auto more = 0.0;
    auto less = 0.0;
    const auto at = text.find("which takes ");
    ASSERT_NE(at, std::string::npos) << text;
    ASSERT_EQ(std::sscanf(text.c_str() + at, "which takes %lf s more for ep and %lf s less for the rest",
                          &more, &less),
              2)
        << text;
    EXPECT_GT(more, difference);
    EXPECT_NEAR(more - less, difference, 0.01);
}

TEST(PlanSubcommand, SaysWhichSettingsMakeSomethingFit) {
    const auto words = std::string(
        "plan 'layers=24 hidden=4096 heads=32 ffn=14336 gated vocab=32000 seq=4096' --on 'gpu:1(450GB/s)' "
        "--device H100-SXM-80GB --batch 1 ");
    const auto outcome = rankmesh(words);
    EXPECT_EQ(outcome.exit_code, 1);
    const auto at = outcome.output.find("fits with other settings: ");
    ASSERT_NE(at, std::string::npos) << outcome.output;
    auto layout = outcome.output.substr(at + 26);
    layout = layout.substr(0, layout.find('\n'));
    EXPECT_NE(layout.find("grads=bf16"), std::string::npos) << layout;
    EXPECT_EQ(json_of(words + "--json")["relaxed"]["layout"], layout);
    EXPECT_EQ(rankmesh(words + "--explain '" + layout + "'").exit_code, 0) << layout;
}

TEST(PlanSubcommand, SaysWhatItTakesForGranted) {
    const auto says = [](const std::string& words, const std::string& line) {
        const auto output =
            rankmesh("plan llama3.1-8B --on 'node:4(400GB/s) gpu:8(450GB/s)' " + words, "export COLUMNS=500;")
                .output;
        EXPECT_NE(output.find(line), std::string::npos) << output;
    };
    says("--device V100-SXM-32GB --batch 64",
         "assumed: matrix products in float16, because V100-SXM-32GB has none in bfloat16\n");
    says("--device V100-SXM-32GB --batch 64 --precision fp8",
         "assumed: no gain from fp8, because V100-SXM-32GB has no matrix products in it\n");
    says("--device MI300X --batch 64",
         "assumed: rates of MI300X from its data sheet and single matrix products, because no training step "
         "on it "
         "is published\n");
    says("--device MI300X --batch 64", "wider range: no measured step on this device\n");
    says("--device H100 --batch 64 --explain 'tp=16 mbs=1 zero=1'",
         "assumed: each of the 8 kv heads on 2 ranks, because tp=16 exceeds their number\n");
    says("--device H100 --batch 64 --explain 'tp=16 mbs=1 zero=1'",
         "; wider: no measured step with tp across nodes)");
    says("--device H100",
         "assumed: a batch of 512 sequences: 4 Mi tokens or more, and one for every eight devices or more\n");
}

TEST(PlanSubcommand, FailsWhereNothingFits) {
    const auto outcome =
        rankmesh("plan llama3.1-405B --on 'node:1(400GB/s) gpu:8(450GB/s)' --device H100-SXM-80GB --batch 8");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.output.find("nothing fits: "), std::string::npos) << outcome.output;
}

TEST(PlanSubcommand, NodesAreTheirDevices) {
    const auto plan = [](const std::string& more) {
        return rankmesh("plan llama3.1-8B --device H100-SXM-80GB --batch 64 --json " + more).output;
    };
    for (const auto* on : {"'node:4(400GB/s) gpu:8(450GB/s)'", "'rack:2 node:2(400GB/s) gpu:8(450GB/s)'",
                           "'node[a]:8 node[b]:8 node[c]:16 gpu(450GB/s)'"}) {
        const auto given = std::string("--on ") + on;
        EXPECT_EQ(plan(given + " --nodes 2"), plan(given + " --gpus 16")) << on;
        EXPECT_EQ(plan(given + " --nodes 2 --gpus 16"), plan(given + " --gpus 16")) << on;
    }
    EXPECT_EQ(plan("--on gpu:8 --nodes 1"), plan("--on gpu:8 --gpus 8"));
}

TEST(PlanSubcommand, AsksForWhatIsMissingAndRefusesWhatIsImpossible) {
    const auto cluster = std::string(" --on 'node:4(400GB/s) gpu:8(450GB/s)' ");
    const auto device = std::string(" --device H100-SXM-80GB ");
    expect_refused(
        "plan llama3.1-8B" + device,
        "plan requires a cluster; add --on CLUSTER, such as 'node:32(400GB/s,5us) gpu:8(450GB/s,2us)'");
    expect_refused("plan llama3.1-8B" + cluster,
                   "the type of the devices of node:4(400GB/s) gpu:8(450GB/s) is missing, so their memory "
                   "and speed are unknown; add --device NAME, one of ");
    expect_refused("plan llama3.1-8B" + cluster + device + "--gpus 64",
                   "--gpus is 64, but node:4(400GB/s) gpu:8(450GB/s) has 32");
    expect_refused("plan llama3.1-8B" + cluster + device + "--nodes 5",
                   "--nodes is 5, but node:4(400GB/s) gpu:8(450GB/s) has 4 nodes");
    expect_refused("plan llama3.1-8B" + device + "--on gpu:8 --nodes 0",
                   "--nodes is 0, but gpu:8 has 1 node");
    expect_refused("plan llama3.1-8B" + cluster + device + "--nodes 2 --gpus 8",
                   "--nodes 2 of node:4(400GB/s) gpu:8(450GB/s) is 16 devices, but --gpus is 8; give one of "
                   "the two");
    expect_refused("plan llama3.1-8B" + device + "--nodes 2", "--nodes requires a cluster; add --on CLUSTER");
    expect_refused("plan llama3.1-8B" + cluster + device + "--gpus 0",
                   "--gpus is 0; the number of devices must be a whole number from 1 to 2147483647");
    expect_refused(
        "plan llama3.1-8B" + cluster + device + "--batch=-8",
        "--batch is -8; the number of sequences per step must be a whole number from 1 to 2147483647");
    expect_refused(
        "plan llama3.1-8B" + cluster + device + "--seq 0",
        "--seq is 0; the number of tokens per sequence must be a whole number from 1 to 2147483647");
    expect_refused("plan 'layers=2 hidden=64 heads=4 ffn=256 vocab=1000'" + cluster + device,
                   "the model has no sequence length; add --seq TOKENS");
    expect_refused("plan llama3.1-8B" + cluster + device + "--as megatrn",
                   "no framework is named 'megatrn'; --as takes one of ");
    expect_refused("plan llama3.1-8B" + cluster + device + "--fix tp=7",
                   "no layout of 32 devices is legal: tp=7 does not divide the 32 devices\n");
    expect_refused("plan qwen3-30B-a3B" + cluster + device + "--batch 256 --fix ep=3",
                   "no layout of 32 devices is legal: each has ep=3, which does not divide the 128 experts");
    expect_refused("plan llama3.1-8B" + cluster + device + "--batch 3 --max tp=1 --max pp=1 --max cp=1",
                   "no layout of 32 devices is legal with a batch of 3 sequences");
    expect_refused("plan llama3.1-8B" + cluster + device + "--fix tq=7",
                   "'tq=7' is not a setting with its value, such as tp=8; did you mean 'tp'?; settings are ");
    expect_refused("plan llama3.1-8B" + cluster + device + "--explain tp=64",
                   "pp * cp * tp of the layout is 64, which does not divide 32 devices");
    expect_refused("plan llama3.1-8B" + cluster + device + "--precision fp4",
                   "--precision must be bf16 or fp8, not 'fp4'");
    expect_refused("plan 'layers=nan hidden=64'" + cluster + device,
                   "MODEL: layers is 'nan'; it must be a whole number from 1 to 2147483647");
}

TEST(PlanSubcommand, AnswersForABillionDevices) {
    const auto outcome = rankmesh(
        "plan llama3.1-405B --on 'node:125000000(400GB/s) gpu:8(450GB/s)' --device H100-SXM-80GB --batch "
        "1000000000 --fix zero=1");
    EXPECT_LE(outcome.exit_code, 1) << outcome.output;
}

}  // namespace
}  // namespace rankmesh::tests
