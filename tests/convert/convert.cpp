// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include <rankmesh/frameworks/deepspeed.hpp>
#include <rankmesh/frameworks/groups.hpp>
#include <rankmesh/frameworks/megatron.hpp>
#include <rankmesh/frameworks/olmo.hpp>
#include <rankmesh/frameworks/topology.hpp>

#include "cli/rankmesh.hpp"
#include "convert/conversions.hpp"

namespace rankmesh::tests {
namespace {

/// What `convert` takes for settings as a shell reads them, and `--world`.
std::pair<std::vector<std::string>, std::optional<int>> parsed(std::string_view example) {
    auto words = std::vector<std::string>{};
    auto world = std::optional<int>{};
    auto lines = std::istringstream(support::run("printf '%s\\n' " + std::string(example)).output);
    for (auto line = std::string{}; std::getline(lines, line);)
        if (line == "--world")
            world = (std::getline(lines, line), std::stoi(line));
        else if (line != "--" || !words.empty())
            words.push_back(line);
    return {words, world};
}

constexpr auto rounds = support::fewer_if_sanitized(100);  // of random settings

/// Data-parallel axes go by many names; what is the same in all frameworks is who shares all but them.
Groups without_data(Groups groups) {
    std::erase_if(groups, [](const auto& kind) { return kind.first.starts_with("dp"); });
    return groups;
}

TEST(Convert, ToRankmeshAndBackGivesTheSameGroups) {
    auto random = std::mt19937(1);
    for (const auto& framework : all_frameworks)
        for (int i = 0; i < rounds; ++i) {
            const auto sample = random_sample(framework, random);
            const auto there = convert(framework, "rankmesh", sample.settings, sample.world);
            ASSERT_TRUE(there["text"].is_string()) << framework << " " << sample.settings << there;
            const auto back = convert("rankmesh", framework, there["text"], sample.world);
            const auto about = framework + " " + sample.settings + "\n" + there.dump() + "\n" + back.dump();
            ASSERT_TRUE(back["text"].is_string()) << about;
            EXPECT_EQ(back["moved"], 0) << about;
            EXPECT_EQ(back["lost"], Json::array()) << about;
            const auto again = convert(framework, "rankmesh", back["text"], sample.world);
            EXPECT_EQ(without_data(groups_of(again["mesh_from"])),
                      without_data(groups_of(there["mesh_from"])))
                << about;
        }
}

TEST(Convert, ToAnyOtherFrameworkAndBackGivesTheSameGroups) {
    auto random = std::mt19937(2);
    auto expressed = 0;
    for (const auto& from : all_frameworks)
        for (const auto& to : all_frameworks) {
            const auto sample = random_sample(from, random);
            const auto there = convert(from, to, sample.settings, sample.world);
            const auto about = from + " " + sample.settings + " to " + to + "\n" + there.dump();
            if (!there["lost"].empty()) continue;
            ++expressed;
            const auto back = convert(to, from, there["text"], sample.world);
            ASSERT_TRUE(back["text"].is_string()) << about << back;
            for (const auto& loss : back["lost"])  // a plain dp has become shards there
                EXPECT_TRUE(loss["what"].get<std::string>().starts_with("dp_shard=")) << about << back;
            // Of a framework with one order of axes the groups are the very same; the others have as many of
            // each size.
            const auto first = tests::groups_of(there["mesh_from"]);
            const auto last = tests::groups_of(back["mesh_to"]);
            const auto orders = std::set<std::string>{"torch", "deepspeed", "areal", "megatron"};
            for (const auto& [axis, groups] : without_data(first)) {
                ASSERT_TRUE(last.contains(axis)) << about << back;
                EXPECT_EQ(last.at(axis).size(), groups.size()) << about << back;
                EXPECT_TRUE(orders.contains(from) || last.at(axis) == groups) << about << back;
            }
        }
    EXPECT_GT(expressed, 60);
}

Groups groups_of(const Mesh& mesh) { return tests::groups_of(to_string(mesh)); }

TEST(Convert, ReadsSettingsAsTheFrameworkItselfDoes) {
    const auto read = [](const std::string& framework, const std::string& settings, int world) {
        return tests::groups_of(convert(framework, "rankmesh", settings, world)["mesh_from"]);
    };
    EXPECT_EQ(read("picotron", "tp_size=2 pp_size=3 dp_size=2 cp_size=2", 24),
              groups_of(frameworks::Groups(
                            "picotron", {{"tp_size", 2}, {"cp_size", 2}, {"pp_size", 3}, {"dp_size", 2}}, 24)
                            .mesh()));
    EXPECT_EQ(read("megatron2022", "tensor_model_parallel_size=2 pipeline_model_parallel_size=3", 24),
              groups_of(frameworks::Groups(
                            "megatron2022",
                            {{"tensor_model_parallel_size", 2}, {"pipeline_model_parallel_size", 3}}, 24)
                            .mesh()));
    EXPECT_EQ(read("deepspeed", "data=2 pipe=3 model=2", 12),
              groups_of(deepspeed::ProcessTopology({"data", "pipe", "model"}, {2, 3, 2}).mesh()));
    EXPECT_EQ(read("deepspeed", "PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=3)", 12),
              groups_of(deepspeed::PipeModelDataParallelTopology(2, 2, 3).mesh()));
    EXPECT_EQ(read("areal", "axes=data,pipe,tensor dims=2,3,2", 12),
              groups_of(areal::ProcessTopology({"data", "pipe", "tensor"}, {2, 3, 2}).mesh()));
    EXPECT_EQ(
        read("llamafactory", "mp_replicate_size=4 cp_size=8", 16),
        tests::groups_of(
            to_string(
                frameworks::Groups("llamafactory", {{"mp_replicate_size", 4}, {"cp_size", 8}}, 16).mesh()) +
            "; mp_replicate=4 mp_shard=4"));
    EXPECT_EQ(
        read("olmo", R"({"dp_config": {"name": "hsdp", "num_replicas": 2}, "tp_config": {"degree": 2}})", 16),
        groups_of(
            olmo::groups({.dp_type = "hsdp", .num_replicas = 2, .shard_degree = {}, .tp = 2}, 16).mesh()));
}

TEST(Convert, HasMegatronsDenseAndExpertGroups) {
    const auto sizes = megatron::Settings{.tensor_model_parallel_size = 2,
                                          .pipeline_model_parallel_size = 2,
                                          .context_parallel_size = 2,
                                          .expert_model_parallel_size = 4,
                                          .num_distributed_optimizer_instances = 1,
                                          .expert_tensor_parallel_size = 1};
    const auto made = megatron::groups(sizes, 32);
    const auto groups = tests::groups_of(
        convert("megatron", "rankmesh",
                "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 2 "
                "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1",
                32)["mesh_from"]);
    const auto expect_same = [&](const std::string& axis, const char* desc) {
        auto expected = std::set<std::set<int>>{};
        for (int i = 0; i < made.count(desc); ++i) {
            const auto group = made.group(desc, i);
            expected.emplace(group.begin(), group.end());
        }
        ASSERT_TRUE(groups.contains(axis)) << axis;
        EXPECT_EQ(groups.at(axis), expected) << axis;
    };
    expect_same("tp", "TENSOR_MODEL_PARALLEL_GROUP");
    expect_same("pp", "PIPELINE_MODEL_PARALLEL_GROUP");
    expect_same("cp", "CONTEXT_PARALLEL_GROUP");
    expect_same("dp", "DATA_PARALLEL_GROUP");
    expect_same("ep", "EXPERT_MODEL_PARALLEL_GROUP");
    expect_same("edp", "EXPERT_DATA_PARALLEL_GROUP");
}

TEST(Convert, HasTheGroupsThatOtherFrameworksDocument) {
    // TensorRT-LLM's Mapping of 16 GPUs with moe_tp_size = 2, moe_ep_size = 4, pp_size = 2.
    auto groups = tests::groups_of(convert(
        "tensorrt-llm", "rankmesh", "tp_size=8 pp_size=2 moe_tp_size=2 moe_ep_size=4", 16)["mesh_from"]);
    EXPECT_EQ(groups["ep"],
              (std::set<std::set<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
    EXPECT_TRUE(groups["etp"].contains({3, 7}) && groups["etp"].contains({8, 12}));
    EXPECT_TRUE(groups["pp"].contains({4, 12}));
    // Its Mapping of 8 with tp, pp and cp of 2, as it was before December 2025.
    groups = tests::groups_of(
        convert("tensorrt-llm-old", "rankmesh", "tp_size=2 pp_size=2 cp_size=2", 8)["mesh_from"]);
    EXPECT_EQ(groups["cp"], (std::set<std::set<int>>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
    // torchtitan's experts take all of tp where their own tensor degree is 1.
    groups = tests::groups_of(convert("torchtitan", "rankmesh",
                                      "pipeline_parallel_degree=2 tensor_parallel_degree=2 "
                                      "data_parallel_shard_degree=4 expert_parallel_degree=4",
                                      16)["mesh_from"]);
    EXPECT_EQ(groups["ep"],
              (std::set<std::set<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
    EXPECT_TRUE(groups["edp"].contains({0, 4}) && groups["dp_shard"].contains({0, 2, 4, 6}));
}

TEST(Convert, SaysWhereEachRankGoes) {
    // Who stands at pp=1 dp=0 tp=1 is rank 5 in one and rank 3 in the other.
    const auto json = convert("picotron", "torchtitan", "tp_size=2 pp_size=2 dp_size=2", 8);
    EXPECT_EQ(json["moved"], 4);
    EXPECT_EQ(json["first_moves"], Json::parse("[[2, 4], [3, 5], [4, 2], [5, 3]]"));
    EXPECT_EQ(convert("picotron", "megatron", "tp_size=2 pp_size=2 dp_size=2", 8)["moved"], 0);
    // The order of TensorRT-LLM before December 2025 has tp innermost, since then cp.
    EXPECT_EQ(convert("tensorrt-llm", "tensorrt-llm-old", "tp_size=2 cp_size=2", 4)["first_moves"],
              Json::parse("[[1, 2], [2, 1]]"));
    EXPECT_EQ(convert("tensorrt-llm", "tensorrt-llm-old", "tp_size=4 pp_size=2", 8)["moved"], 0);
}

TEST(Convert, KeepsExpertsTogetherWhereverTheyStand) {
    // Experts outside of dp: in Megatron they are inside, so ranks move and stay with whom they were.
    const auto json = convert("rankmesh", "megatron", "ep=2 dp=2 tp=2", 8);
    EXPECT_EQ(json["lost"], Json::array()) << json;
    EXPECT_EQ(json["first_moves"], Json::parse("[[2, 4], [3, 5], [4, 2], [5, 3]]"));
    // One mesh of torch holds both layers where dp is made of whole groups of experts.
    const auto megatron = std::string("--tensor-model-parallel-size 2 --expert-model-parallel-size 4");
    const auto torch = convert("megatron", "torch", megatron, 16);
    EXPECT_EQ(torch["text"],
              "mesh_shape=(1, 2, 4, 1, 2), mesh_dim_names=(\"pp\", \"dp\", \"ep\", \"cp\", \"tp\")");
    EXPECT_EQ(torch["lost"], Json::array());
    EXPECT_EQ(convert("megatron", "torch", megatron + " --expert-tensor-parallel-size 1", 16)["lost"].size(),
              2U);
}

TEST(Convert, KeepsContextsThatShareRanksOrSaysThatTheyAreLost) {
    const auto vllm = std::string("--tensor-parallel-size 4 --decode-context-parallel-size 2");
    const auto other = convert("vllm", "sglang", vllm, 4);
    EXPECT_EQ(other["text"], vllm);  // the names are the same
    EXPECT_EQ(other["lost"], Json::array());
    EXPECT_EQ(convert("sglang", "vllm", vllm, 4)["text"], vllm);
    EXPECT_EQ(convert("vllm", "vllm", vllm, 4)["text"], vllm);
    EXPECT_EQ(convert("vllm", "torchtitan", vllm, 4)["lost"].size(), 1U);
    const auto alone = std::string("--tensor-parallel-size 4 --decode-context-parallel-size 1");
    EXPECT_EQ(convert("vllm", "torchtitan", alone, 4)["lost"], Json::array());  // the default
    const auto levels = std::string("--context-parallel-size 4 --hierarchical-context-parallel-sizes 2 2");
    const auto megatron = convert("megatron", "megatron", levels, 8);
    EXPECT_EQ(megatron["settings"]["hierarchical_context_parallel_sizes"], Json::parse("[2, 2]"));
    EXPECT_EQ(megatron["lost"], Json::array());
    const auto named = std::string("context_parallel_size=4 hierarchical_context_parallel_sizes=[2,2]");
    EXPECT_EQ(convert("megatron", "megatron", named, 8)["text"], megatron["text"]);
}

TEST(Convert, CountsVirtualStagesFromTheLayersOfOne) {
    const auto stages = [](const std::string& more) {
        return convert("megatron", "megatron", "--pipeline-model-parallel-size 4 " + more, 4)["settings"]
            .value("num_virtual_stages_per_pipeline_rank", 1);
    };
    const auto each = std::string(" --num-layers-per-virtual-pipeline-stage ");
    EXPECT_EQ(stages("--num-layers 24" + each + "3"), 2);
    EXPECT_EQ(stages("--num-layers 24" + each + "6"), 1);
    EXPECT_EQ(stages("--num-layers 22 --account-for-embedding-in-pipeline-split "
                     "--account-for-loss-in-pipeline-split" +
                     each + "2"),
              3);
}

TEST(Convert, CarriesVirtualStagesBetweenMegatronAndTorchtitan) {
    const auto flags = std::string("--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 ");
    const auto each = flags + "--num-layers-per-virtual-pipeline-stage 2";
    const auto expect_stages = [&](const std::string& megatron, const Json& stages, const std::string& back) {
        const auto found = convert("megatron", "torchtitan", megatron, 32);
        EXPECT_EQ(found["lost"], Json::array()) << megatron;
        const auto settings = Json(found["settings"]["parallelism"]);
        EXPECT_EQ(settings["pipeline_parallel_schedule"], "Interleaved1F1B") << megatron;
        for (const auto* part : {"layers_per_stage", "first_stage_less_layers", "last_stage_less_layers"}) {
            const auto name = std::string("pipeline_parallel_") + part;
            EXPECT_EQ(settings.value(name, Json()), stages.value(part, Json())) << megatron << name;
        }
        const auto again = convert("torchtitan", "megatron", found["text"], 32);
        EXPECT_EQ(again["text"], back);
        EXPECT_EQ(again["lost"], Json::array()) << again;
    };
    const auto even =
        Json{{"layers_per_stage", 2}, {"first_stage_less_layers", 0}, {"last_stage_less_layers", 0}};
    expect_stages(each + " --num-layers 32", even, each);
    expect_stages(each, even, each);
    const auto both =
        std::string(" --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split");
    expect_stages(each + both + " --num-layers 30",
                  {{"layers_per_stage", 2}, {"first_stage_less_layers", 1}, {"last_stage_less_layers", 1}},
                  each + both);
    const auto two = flags + "--num-virtual-stages-per-pipeline-rank 2";
    expect_stages(two, Json::object(), two);
    // A number of stages without their layers.
    const auto three =
        convert("megatron", "torchtitan", flags + "--num-virtual-stages-per-pipeline-rank 3", 32);
    EXPECT_FALSE(three["settings"]["parallelism"].contains("pipeline_parallel_schedule"));
    EXPECT_EQ(three["lost"], Json::parse(R"([{"what": "virtual pipeline stages 3",
                               "why": "not written; set pipeline_parallel_schedule = )"
                                         R"(\"Interleaved1F1B\" and pipeline_parallel_layers_per_stage )"
                                         R"(= N, the layers of a stage"}])"));
    // With the layers of the model, three stages are stages of so many layers.
    const auto counted = convert("megatron", "torchtitan",
                                 flags + "--num-virtual-stages-per-pipeline-rank 3 --num-layers 24", 32);
    EXPECT_EQ(counted["settings"]["parallelism"]["pipeline_parallel_layers_per_stage"], 4);
    EXPECT_EQ(counted["lost"], Json::array());
    // A first stage of two layers less, and others that do not count layers.
    const auto titan = std::string(
        "pipeline_parallel_degree=4 pipeline_parallel_schedule=Interleaved1F1B "
        "pipeline_parallel_layers_per_stage=4 pipeline_parallel_first_stage_less_layers=2");
    for (const auto* to : {"megatron", "megatron2022", "picotron"}) {
        const auto lost = convert("torchtitan", to, titan, 8)["lost"];
        EXPECT_TRUE(std::ranges::any_of(
            lost, [](const auto& loss) { return loss["what"] == "virtual pipeline stages of 4 layers"; }))
            << to << lost;
    }
}

/// Virtual stages as settings say them: by name, without what they do not say.
using Stages = std::map<std::string, int>;

/// Settings of a pipeline with virtual stages, and what they say.
struct StagesSample {
    std::string settings;
    Stages stages;
};

StagesSample random_stages(const std::string& framework, std::mt19937& random) {
    const auto pick = [&](std::vector<int> of) { return of[random() % of.size()]; };
    const auto pp = pick({2, 4}), stages = pick({2, 3}), layers = pick({1, 2, 4});
    auto sample = StagesSample{};
    const auto say = [&](const std::string& name, int value) {
        sample.settings += framework == "megatron" ? " --" + name + " " + std::to_string(value)
                                                   : " " + name + "=" + std::to_string(value);
    };
    if (framework == "megatron") {
        say("pipeline-model-parallel-size", pp);
        const auto first = pick({0, 1}), last = pick({0, 1}), form = pick({0, 1, 2, 3});
        if (form > 0) sample.stages["count"] = stages;
        if (form < 3) sample.stages["layers"] = layers;
        if (form < 2) say("num-layers-per-virtual-pipeline-stage", layers);
        if (form >= 2) say("num-virtual-stages-per-pipeline-rank", stages);
        if (form == 1 || form == 2) say("num-layers", pp * stages * layers - first - last);
        if (first == 1) sample.settings += " --account-for-embedding-in-pipeline-split";
        if (last == 1) sample.settings += " --account-for-loss-in-pipeline-split";
        if (form < 3 || first + last > 0) sample.stages.insert({{"first", first}, {"last", last}});
        return sample;
    }
    say("pipeline_parallel_degree", pp);
    say("data_parallel_shard_degree", -1);
    sample.settings += " pipeline_parallel_schedule=Interleaved1F1B";
    const auto is_counted = pick({0, 1}) == 1;
    if (is_counted) say("pipeline_parallel_layers_per_stage", sample.stages["layers"] = layers);
    if (!is_counted) sample.stages["count"] = 2;
    for (const auto* which : {"first", "last"}) {
        const auto less = pick({-1, 0, 1, 2});
        if (less >= 0) say(std::string("pipeline_parallel_") + which + "_stage_less_layers", less);
        if (less >= 0 || is_counted) sample.stages[which] = less < 0 ? 1 : less;
    }
    return sample;
}

/// The virtual stages that written settings say.
Stages stages_in(const std::string& framework, const Json& settings) {
    auto stages = Stages{};
    const auto is_megatron = framework == "megatron";
    const auto& table = is_megatron ? settings : settings["parallelism"];
    const auto read = [&](const char* as, const std::string& name) {
        if (table.contains(name)) stages[as] = table[name].is_boolean() ? 1 : table[name].get<int>();
    };
    if (is_megatron) {
        read("count", "num_virtual_stages_per_pipeline_rank");
        read("layers", "num_layers_per_virtual_pipeline_stage");
        read("first", "account_for_embedding_in_pipeline_split");
        read("last", "account_for_loss_in_pipeline_split");
        return stages;
    }
    read("layers", "pipeline_parallel_layers_per_stage");
    read("first", "pipeline_parallel_first_stage_less_layers");
    read("last", "pipeline_parallel_last_stage_less_layers");
    if (table.contains("pipeline_parallel_schedule") && !stages.contains("layers")) stages["count"] = 2;
    return stages;
}

TEST(Convert, WritesVirtualStagesOrLosesThemAlsoWithExperts) {
    auto random = std::mt19937(7);
    auto written = 0, lost = 0;
    for (int i = 0; i < 4 * rounds; ++i)
        for (const auto* from : {"megatron", "torchtitan"})
            for (const auto* to : {"megatron", "torchtitan"}) {
                const auto sample = random_stages(from, random);
                const auto experts = from == std::string("megatron")
                                         ? std::string(" --expert-model-parallel-size 4")
                                         : std::string(" expert_parallel_degree=4");
                const auto plain = convert(from, to, sample.settings, 32);
                const auto with = convert(from, to, sample.settings + experts, 32);
                const auto about = sample.settings + " to " + to + "\n" + plain.dump() + "\n" + with.dump();
                const auto stages = stages_in(to, plain["settings"]);
                ASSERT_EQ(stages_in(to, with["settings"]), stages) << about;
                ASSERT_EQ(with["lost"], plain["lost"]) << about;
                const auto is_lost = [&](const std::string& what) {
                    return std::ranges::any_of(plain["lost"], [&](const auto& loss) {
                        return loss["what"].template get<std::string>().starts_with(what);
                    });
                };
                const auto has_them = stages.contains("count") || stages.contains("layers");
                ASSERT_NE(has_them, is_lost("virtual pipeline stages")) << about;
                ++(has_them ? written : lost);
                for (const auto& [name, value] : stages) {
                    ASSERT_TRUE(has_them) << name << about;
                    if (!sample.stages.contains(name)) continue;
                    ASSERT_EQ(value, sample.stages.at(name)) << name << about;
                    ASSERT_FALSE(is_lost("fewer layers of the " + name)) << about;
                }
                for (const auto* name : {"first", "last"}) {
                    const auto said = sample.stages.find(name);
                    if (has_them && said != sample.stages.end() && said->second != 0) {
                        ASSERT_NE(stages.contains(name), is_lost(std::string("fewer layers of the ") + name))
                            << about;
                    }
                }
            }
    EXPECT_GT(written, rounds);
    EXPECT_GT(lost, rounds / 4);
}

TEST(Convert, KeepsTheLoadBalancerOfExpertsOrSaysThatItIsLost) {
    const auto vllm = std::string("--tensor-parallel-size 4 --enable-expert-parallel --enable-eplb");
    const auto same = convert("vllm", "vllm", vllm, 4);
    EXPECT_EQ(same["text"], vllm);
    EXPECT_EQ(same["lost"], Json::array());
    const auto sglang = convert("vllm", "sglang", vllm, 4);
    EXPECT_EQ(sglang["settings"]["enable_eplb"], true) << sglang;
    EXPECT_EQ(sglang["lost"], Json::array());
    EXPECT_EQ(convert("sglang", "vllm", sglang["text"], 4)["text"], vllm);
    EXPECT_EQ(convert("vllm", "torchtitan", vllm, 4)["lost"],
              Json::parse(R"([{"what": "load balancing of experts",
                               "why": "torchtitan has no setting for it"}])"));
}

TEST(Convert, WritesOnlySettingsThatTorchtitanStillHas) {
    const auto lost = convert("rankmesh", "torchtitan", "dp=4 tp=2; edp=2 ep=2 etp=2", 8);
    EXPECT_EQ(lost["settings"]["parallelism"]["expert_parallel_degree"], 2) << lost;
    EXPECT_FALSE(lost["settings"]["parallelism"].contains("expert_tensor_parallel_degree"));
    auto what = std::vector<std::string>{};
    for (const auto& loss : lost["lost"])
        what.push_back(loss["what"].get<std::string>() + ": " + loss["why"].get<std::string>());
    EXPECT_EQ(what, (std::vector<std::string>{
                        "etp=2: torchtitan 0.3.0 has no tensor parallelism of experts; give etp=1",
                        "edp=2: edp becomes 4", "ep=2: its groups differ: {0, 2} before, {0, 1} after"}));
    const auto kept = convert("rankmesh", "torchtitan", "dp=4 tp=2; edp=4 ep=2 etp=1", 8);
    EXPECT_EQ(kept["settings"]["parallelism"]["expert_parallel_degree"], 2);
    EXPECT_EQ(kept["lost"], Json::array());
}

TEST(Convert, SaysInTheSourcesWordsHowNoExpertIsCut) {
    const auto expect_way = [](const char* from, const std::string& settings, const std::string& way,
                               const std::string& fixed) {
        const auto lost = convert(from, "torchtitan", settings, 16)["lost"];
        ASSERT_FALSE(lost.empty()) << settings;
        EXPECT_EQ(lost[0]["why"], "torchtitan 0.3.0 has no tensor parallelism of experts; " + way);
        EXPECT_EQ(convert(from, "torchtitan", fixed, 16)["lost"], Json::array()) << fixed;
    };
    const auto flags = std::string("--tensor-model-parallel-size 4 --expert-model-parallel-size 2");
    const auto etp = std::string(" --expert-tensor-parallel-size ");
    expect_way("megatron", flags, "Megatron's default is tp, so give --expert-tensor-parallel-size 1",
               flags + etp + "1");
    expect_way("megatron", flags + etp + "4", "give --expert-tensor-parallel-size 1", flags + etp + "1");
    const auto words = std::string("tensor_model_parallel_size=4 expert_model_parallel_size=2");
    expect_way("megatron", words, "Megatron's default is tp, so give expert_tensor_parallel_size=1",
               words + " expert_tensor_parallel_size=1");
    expect_way("rankmesh", "dp=2 ep=2 tp=4",
               "experts without a mesh of their own get etp=tp, so add one with etp=1 after a ;",
               "dp=4 tp=4; edp=8 ep=2 etp=1");
}

TEST(Convert, KeepsAScheduleThatTheOtherHasAWordFor) {
    const auto titan =
        std::string("pipeline_parallel_degree=2 data_parallel_shard_degree=1 pipeline_parallel_schedule=");
    auto json = convert("torchtitan", "picotron", titan + "1F1B", 2);
    EXPECT_EQ(json["settings"]["distributed"]["pp_engine"], "1f1b");
    EXPECT_EQ(json["lost"], Json::array());
    EXPECT_EQ(convert("torchtitan", "picotron", titan + "gpipe", 2)["settings"]["distributed"]["pp_engine"],
              "afab");
    EXPECT_EQ(convert("torchtitan", "picotron", titan + "LoopedBFS", 2)["lost"],
              Json::parse(R"([{"what": "pipeline schedule LoopedBFS",
                               "why": "picotron's pp_engine is 1f1b or afab, which is 1F1B or GPipe"}])"));
    json = convert("picotron", "torchtitan", "pp_size=2 pp_engine=afab", 2);
    EXPECT_EQ(json["settings"]["parallelism"]["pipeline_parallel_schedule"], "GPipe");
    EXPECT_EQ(convert("picotron", "olmo", "pp_size=2 pp_engine=1f1b", 2)["settings"]["pp_config"]["schedule"],
              "1F1B");
    // Megatron and DeepSpeed run 1F1B unasked, Megatron interleaved with virtual stages.
    for (const auto* to : {"megatron", "deepspeed"}) {
        EXPECT_EQ(convert("picotron", to, "pp_size=2 pp_engine=1f1b", 2)["lost"], Json::array()) << to;
        EXPECT_EQ(convert("picotron", to, "pp_size=2 pp_engine=afab", 2)["lost"].size(), 1U) << to;
        EXPECT_EQ(convert("torchtitan", to, titan + "LoopedBFS", 2)["lost"].size(), 1U) << to;
    }
    // Without a pipeline there is no schedule to lose.
    EXPECT_EQ(convert("picotron", "megatron", "tp_size=2 pp_engine=1f1b", 2)["lost"], Json::array());
}

TEST(Convert, TakesTorchtitansExpertsFromAnyRunOfRanks) {
    const auto dense =
        std::string("tensor_parallel_degree=2 context_parallel_degree=2 data_parallel_shard_degree=4 ");
    auto groups = tests::groups_of(
        convert("torchtitan", "rankmesh", dense + "expert_parallel_degree=2", 16)["mesh_from"]);
    EXPECT_TRUE(groups["ep"].contains({0, 1}) && groups["edp"].contains({1, 3, 5, 7, 9, 11, 13, 15}));
    groups = tests::groups_of(convert("torchtitan", "rankmesh",
                                      dense + "expert_parallel_degree=8 expert_tensor_parallel_degree=2",
                                      16)["mesh_from"]);
    EXPECT_TRUE(groups["etp"].contains({0, 1}) && groups["ep"].contains({0, 2, 4, 6, 8, 10, 12, 14}));
}

TEST(Convert, IsWhatTheCommandPrints) {
    for (const auto& from : known_frameworks()) {
        const auto [words, world] = parsed(from.example);
        for (const auto& to : known_frameworks()) {
            const auto found = rankmesh::convert(from.name, to.name, words, world);
            const auto printed = rankmesh("convert --json --from " + std::string(from.name) + " --to " +
                                          std::string(to.name) + " " + std::string(from.example));
            EXPECT_EQ(json_of(found).dump() + "\n", printed.output) << from.name << " " << to.name;
            EXPECT_EQ(found.text && found.lost.empty() ? 0 : 1, printed.exit_code);
            EXPECT_EQ(found.settings.has_value(), found.text.has_value());
            EXPECT_TRUE(!found.call || found.call->moved < found.moved);
        }
    }
}

TEST(Convert, OfOneTextIsTheSameButForFiles) {
    for (const auto& from : known_frameworks()) {
        const auto [words, world] = parsed(from.example);
        auto text = std::string{};
        for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
        for (const auto& to : known_frameworks())
            EXPECT_EQ(json_of(convert_text(from.name, to.name, text, world)),
                      json_of(rankmesh::convert(from.name, to.name, words, world)))
                << from.name << " " << to.name;
    }
    const auto file = testing::TempDir() + "rankmesh-settings-" + std::to_string(getpid()) + ".json";
    std::ofstream(file) << R"({"tp_size": 2})";
    EXPECT_EQ(rankmesh::convert("picotron", "torch", {file}).ranks, 2);
    for (const auto& name : {file, std::string("-")})
        EXPECT_THROW(static_cast<void>(convert_text("picotron", "torch", name)), UsageError) << name;
    std::filesystem::remove(file);
}

TEST(Convert, SaysWhyOfWhateverIsLost) {
    auto lost = 0;
    for (const auto& to : known_frameworks())
        for (const auto* mesh : {"pp=2 dp=4", "dp=4 tp=2", "dp=2 cp=2 tp=2", "dp=4 tp=2; edp=2 ep=2 etp=2"})
            for (const auto& [what, why] : rankmesh::convert("rankmesh", to.name, {mesh}).lost) {
                EXPECT_FALSE(what.empty()) << mesh << " to " << to.name;
                EXPECT_FALSE(why.empty()) << what << " of " << mesh << " to " << to.name;
                ++lost;
            }
    EXPECT_GT(lost, 10);
}

TEST(Convert, HasACallWhereFewerMoveWithIt) {
    const auto call = rankmesh::convert("rankmesh", "megatron", {"cp=2 dp=2 tp=2"}).call;
    ASSERT_TRUE(call);
    EXPECT_EQ(call->text, "initialize_model_parallel(order=\"tp-ep-dp-cp-pp\")");
    EXPECT_EQ(call->moved, 0);
    EXPECT_FALSE(rankmesh::convert("rankmesh", "megatron", {"pp=2 dp=2"}).call);
}

TEST(Convert, ReadsTheShortFlagsOfServers) {
    const auto text = [](const char* from, const char* to, const std::vector<std::string>& words) {
        return *rankmesh::convert(from, to, words).text;
    };
    EXPECT_EQ(text("vllm", "vllm",
                   {"-tp", "4", "-pp=2", "-dp", "2", "-pcp", "2", "-dcp", "2", "-ep", "-q", "awq",
                    "-cc.mode=3", "-O.level=3"}),
              text("vllm", "vllm",
                   {"--tensor-parallel-size", "4", "--pipeline-parallel-size", "2", "--data-parallel-size",
                    "2", "--prefill-context-parallel-size", "2", "--decode-context-parallel-size", "2",
                    "--enable-expert-parallel"}));
    EXPECT_EQ(text("sglang", "sglang", {"--tp", "4", "--ep", "2"}),
              text("sglang", "sglang", {"--tensor-parallel-size", "4", "--expert-parallel-size", "2"}));
}

TEST(Convert, NotesWhereShardsOfParametersAreCopiedUnlessAFlagSaysSo) {
    for (const auto& [to, flag] :
         {std::pair{"megatron", "--use-megatron-fsdp"}, std::pair{"deepspeed", "zero_optimization.stage"}}) {
        const auto notes = rankmesh::convert("torchtitan", to, {"data_parallel_shard_degree=4"}).notes;
        ASSERT_EQ(notes.size(), 1U) << to;
        EXPECT_EQ(notes[0].find("dp_shard=4: "), 0U) << notes[0];
        EXPECT_NE(notes[0].find(flag), std::string::npos) << notes[0];
        EXPECT_TRUE(rankmesh::convert("picotron", to, {"dp_size=4"}).notes.empty()) << to;
    }
}

TEST(Convert, NotesWhereParametersAreShardedThatTheSettingsDoNotShard) {
    const auto notes = [](const char* to, const std::string& mesh) {
        return rankmesh::convert("rankmesh", to, {mesh}).notes;
    };
    using Notes = std::vector<std::string>;
    const auto remedy = std::string("; to copy them, set its replicas to 4 and its shards to 1");
    for (const auto* to : {"torchtitan", "transformers", "veomni", "accelerate"}) {
        const auto note = std::string("dp=4: ") + to + " shards the parameters over these ranks";
        EXPECT_EQ(notes(to, "dp=4"), Notes{note + remedy});
        EXPECT_EQ(notes(to, "tp=4"), Notes{});
        EXPECT_EQ(notes(to, "dp_replicate=2 dp_shard=2"), Notes{}) << to;
        EXPECT_EQ(notes(to, "dp=2 dp_shard=4"), Notes{}) << to;
        EXPECT_EQ(notes(to, "dp=2 dp_replicate=4"), Notes{}) << to;
    }
    EXPECT_EQ(notes("llamafactory", "dp=4"),
              Notes{"dp=4: llamafactory shards the parameters over these ranks" + remedy});
    EXPECT_TRUE(
        rankmesh::convert("torchtitan", "llamafactory", {"data_parallel_shard_degree=4"}).lost.empty());
    // Experts need shards unless tp has ranks for them.
    const auto copies = std::string("dp=4: torchtitan shards the parameters over these ranks") + remedy;
    EXPECT_EQ(notes("torchtitan", "dp=4 tp=2; edp=4 ep=2 etp=1"), Notes{copies});
    EXPECT_TRUE(notes("torchtitan", "dp_replicate=4 tp=2; edp=4 ep=2 etp=1").empty());
    EXPECT_EQ(notes("torchtitan", "dp=4 tp=2; edp=2 ep=4 etp=1"),
              Notes{"dp=4: torchtitan shards the parameters over these ranks"});
    EXPECT_EQ(notes("torchtitan", "dp=4; edp=2 ep=2"),
              Notes{"dp=4: torchtitan shards the parameters over these ranks"});
    EXPECT_EQ(notes("torchtitan", "dp=4 cp=2"),
              Notes{"dp=4: torchtitan shards the parameters over these ranks"});
    EXPECT_EQ(notes("olmo", "dp=4; edp=2 ep=2"),
              Notes{"dp=4: olmo shards the parameters over groups of 2 of these ranks"});
    EXPECT_EQ(notes("olmo", "dp=4"),
              Notes{"dp=4: olmo shards the parameters over these ranks; to copy them, set "
                    "dp_config's name to \"ddp\""});
    EXPECT_EQ(notes("archon", "dp=4"), Notes{"dp=4: archon shards the parameters over these ranks"});
}

TEST(Convert, KeepsWhetherOlmoCoreCopiesOrShardsParameters) {
    const auto convert = [](const std::string& to, const std::string& name) {
        return rankmesh::convert("olmo", to, {R"({"dp_config": {"name": ")" + name + "\"}}"}, 4);
    };
    for (const auto* to : {"torchtitan", "olmo", "transformers", "veomni", "accelerate"})
        for (const auto* name : {"ddp", "fsdp"}) {
            const auto made = convert(to, name);
            EXPECT_TRUE(made.notes.empty()) << to << ' ' << made.notes.front();
            EXPECT_TRUE(made.lost.empty()) << to << ' ' << name;
            const auto back = rankmesh::convert(to, "olmo", {*made.text}, 4);
            EXPECT_NE(back.text->find(std::string("\"") + name + '"'), std::string::npos) << to << *back.text;
        }
    EXPECT_NE(convert("megatron", "fsdp").notes.front().find("--use-megatron-fsdp"), std::string::npos);
    EXPECT_TRUE(convert("megatron", "ddp").notes.empty());
}

TEST(Convert, NotesWhichAxesDeepSpeedsGroupsIgnore) {
    EXPECT_EQ(rankmesh::convert("rankmesh", "deepspeed", {"dp=2 cp=2 tp=2"}).notes,
              std::vector<std::string>{"cp=2: PipelineParallelGrid's dp_group is along data only; average "
                                       "gradients over this axis in the trainer"});
    EXPECT_TRUE(rankmesh::convert("rankmesh", "deepspeed", {"dp=2 tp=2"}).notes.empty());
    const auto topology =
        deepspeed::Settings{.axes = {"pipe", "data", "cp", "model"}, .dims = std::vector{1, 2, 2, 2}};
    EXPECT_EQ(deepspeed::State(topology, 0, 8).dp_group().size(), 2U);  // not 4
}

TEST(Convert, NotesExpertsThatDeepSpeedDoesNotEnable) {
    const auto notes = [](const std::string& experts) {
        const auto settings =
            R"({"tensor_parallel": {"autotp_size": 2}, "expert_parallel": {)" + experts + "}}";
        return rankmesh::convert("deepspeed", "rankmesh", {settings}, 8).notes;
    };
    const auto ignored = std::vector<std::string>{"expert_parallel is ignored: enabled is not true"};
    EXPECT_EQ(notes(R"("autoep_size": 4)"), ignored);
    EXPECT_EQ(notes(R"("enabled": false, "autoep_size": 4)"), ignored);
    for (const auto* said : {"", R"("enabled": false)", R"("enabled": true, "autoep_size": 4)"})
        EXPECT_TRUE(notes(said).empty()) << said;
}

TEST(Convert, SaysWhichSizesOfExpertsDoNotFitAsTheFrameworkDoes) {
    try {
        static_cast<void>(
            rankmesh::convert("tensorrt-llm", "torch", {"tp_size=8", "moe_tp_size=2", "moe_ep_size=2"}, 8));
        ADD_FAILURE() << "8 is not 2 by 2";
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "tp_size must equal to moe_tp_size * moe_ep_size * moe_cluster_size, but got 8 != 2 * 2 "
                     "* 1");
    }
}

TEST(Convert, ReadsAndWritesASizeThatCountsThatOfOtherSettings) {
    const auto read = rankmesh::convert("sglang", "megatron", {"--tp-size", "8", "--attn-dp-size", "2"});
    EXPECT_EQ(
        read.text,  // experts are cut over all of tp_size
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 1 --expert-tensor-parallel-size 8");
    EXPECT_EQ(rankmesh::convert("rankmesh", "sglang", {"pp=2 dp=2 tp=4"}).text,
              "--tensor-parallel-size 8 --pipeline-parallel-size 2 --attention-data-parallel-size 2");
}

TEST(Convert, NamesTheNearestFramework) {
    for (const auto& [from, to, option] :
         {std::tuple("picotrn", "torch", "--from"), std::tuple("torch", "picotrn", "--to")})
        try {
            static_cast<void>(rankmesh::convert(from, to, {"pp=2"}));
            ADD_FAILURE() << from << " was read";
        } catch (const UsageError& error) {
            const auto text = std::string(error.what());
            EXPECT_TRUE(text.starts_with("unknown framework 'picotrn' for " + std::string(option) +
                                         "; one of: rankmesh, "))
                << text;
            EXPECT_TRUE(text.ends_with("; did you mean 'picotron'?")) << text;
        }
}

}  // namespace
}  // namespace rankmesh::tests
