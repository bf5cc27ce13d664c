// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <rankmesh/dialect/areal/process_topology.hpp>
#include <rankmesh/dialect/deepspeed/process_topology.hpp>
#include <rankmesh/dialect/llamafactory/strategy.hpp>
#include <rankmesh/dialect/megatron/process_groups.hpp>
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>
#include <rankmesh/dialect/olmo/world_mesh.hpp>
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "conversions.hpp"

namespace rankmesh::tests {
namespace {

constexpr auto rounds = 6;  // of random settings

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
            EXPECT_EQ(back["lost"], Json::array()) << about << back;
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
              groups_of(picotron::mesh({.tp = 2, .cp = 2, .pp = 3, .dp = 2}, 24)));
    EXPECT_EQ(read("megatron2022", "tensor_model_parallel_size=2 pipeline_model_parallel_size=3", 24),
              groups_of(megatron2022::Groups({2, 3}, 24).mesh));
    EXPECT_EQ(read("deepspeed", "data=2 pipe=3 model=2", 12),
              groups_of(deepspeed::ProcessTopology({"data", "pipe", "model"}, {2, 3, 2}).mesh()));
    EXPECT_EQ(read("deepspeed", "PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=3)", 12),
              groups_of(deepspeed::PipeModelDataParallelTopology(2, 2, 3).mesh()));
    EXPECT_EQ(read("areal", "axes=data,pipe,tensor dims=2,3,2", 12),
              groups_of(areal::ProcessTopology({"data", "pipe", "tensor"}, {2, 3, 2}).mesh()));
    EXPECT_EQ(read("llamafactory", "mp_replicate_size=4 cp_size=8", 16),
              tests::groups_of(to_string(llamafactory::DistributedStrategy(
                                             {.mp_replicate_size = 4, .cp_size = 8}, 16, true)
                                             .data_mesh()) +
                               "; mp_replicate=4 mp_shard=4"));
    const auto configs = olmo::ParallelConfigs{
        .dp = olmo::DataParallelConfig{.name = olmo::DataParallelType::hsdp, .num_replicas = 2},
        .tp = olmo::TensorParallelConfig{2}};
    EXPECT_EQ(
        read("olmo", R"({"dp_config": {"name": "hsdp", "num_replicas": 2}, "tp_config": {"degree": 2}})", 16),
        groups_of(olmo::mesh(configs, 16)));
}

TEST(Convert, HasMegatronsDenseAndExpertGroups) {
    const auto sizes = megatron::Sizes{.tensor_model_parallel_size = 2,
                                       .pipeline_model_parallel_size = 2,
                                       .context_parallel_size = 2,
                                       .expert_model_parallel_size = 4,
                                       .num_distributed_optimizer_instances = 1,
                                       .expert_tensor_parallel_size = 1};
    const auto made = megatron::ProcessGroups(sizes, 32);
    const auto groups = tests::groups_of(
        convert("megatron", "rankmesh",
                "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 2 "
                "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1",
                32)["mesh_from"]);
    const auto expect_same = [&](const std::string& axis, const char* desc) {
        auto expected = std::set<std::set<int>>{};
        for (const auto& group : made.groups(desc)) expected.emplace(group.begin(), group.end());
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

TEST(Convert, NamesWhatIsLostAndAnswersNo) {
    const auto flags =
        "-- --pipeline-model-parallel-size 2 --expert-model-parallel-size 2 "
        "--num-virtual-stages-per-pipeline-rank 3";
    const auto outcome = rankmesh(std::string("convert --from megatron --to picotron --world 8 ") + flags);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(outcome.output.ends_with(
        "# lost: edp=2, ep=2: picotron has no expert parallelism\n"
        "# lost: virtual pipeline stages 3: picotron's pipeline has one stage a rank\n"))
        << outcome.output;
    const auto none = rankmesh("convert --from rankmesh --to tensorrt-llm 'dp=2 tp=2'");
    EXPECT_EQ(none.exit_code, 1);
    EXPECT_EQ(none.output,
              "# dp=2 tp=2 cannot be said in tensorrt-llm\n"
              "# lost: dp=2: TensorRT-LLM's Mapping has no data parallelism; each replica is a server of "
              "its own\n");
    EXPECT_EQ(rankmesh("convert --from rankmesh --to picotron 'dp=2 tpp=2'").output,
              "# dp=2 tpp=2 cannot be said in picotron\n"
              "# lost: tpp=2: picotron has no such axis; it has dp, pp, cp, tp; did you mean 'tp'?\n");
    EXPECT_EQ(rankmesh("convert --from picotron --to olmo tp_size=2").exit_code, 0);
}

TEST(Convert, NamesACallOnlyWhereFewerMoveWithIt) {
    const auto notes = [](const std::string& mesh) {
        return rankmesh("convert --from rankmesh --to megatron '" + mesh + "' 2>&1 >/dev/null").output;
    };
    // Replicas stand outside of shards whatever the order.
    EXPECT_EQ(notes("dp_shard=2 dp_replicate=2").find(" would move "), std::string::npos);
    EXPECT_EQ(notes("pp=2 dp=2").find(" would move "), std::string::npos);
    EXPECT_TRUE(
        notes("cp=2 dp=2 tp=2")
            .ends_with("# no rank would move with initialize_model_parallel(order=\"tp-ep-dp-cp-pp\")\n"))
        << notes("cp=2 dp=2 tp=2");
    EXPECT_EQ(notes("tp=2 dp_shard=2 dp_replicate=2 cp=2").find("no rank would"), std::string::npos);
    EXPECT_NE(notes("tp=2 dp_shard=2 dp_replicate=2 cp=2").find(" would move with initialize_"),
              std::string::npos)
        << notes("tp=2 dp_shard=2 dp_replicate=2 cp=2");
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
    EXPECT_EQ(convert("picotron", "megatron", "pp_size=2 pp_engine=1f1b", 2)["lost"].size(), 1U);
    // Without a pipeline there is no schedule to lose.
    EXPECT_EQ(convert("picotron", "megatron", "tp_size=2 pp_engine=1f1b", 2)["lost"], Json::array());
    EXPECT_EQ(rankmesh("convert --from picotron --to olmo pp_engine=zb tp_size=2").output,
              "rankmesh: pp_engine is 'zb'; it is 1f1b or afab\n");
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
    EXPECT_EQ(rankmesh("convert --from torchtitan --to torch data_parallel_shard_degree=1 "
                       "tensor_parallel_degree=2147483647 context_parallel_degree=2147483647 --world 8")
                  .exit_code,
              2);
    for (const auto* wrong :
         {"expert_parallel_degree=3", "expert_parallel_degree=2 expert_tensor_parallel_degree=4"})
        EXPECT_EQ(rankmesh("convert --from torchtitan --to torch " + dense + wrong).exit_code, 2) << wrong;
    EXPECT_EQ(rankmesh("convert --from torchtitan --to torch " + dense + "expert_parallel_degree=3").output,
              "rankmesh: expert_parallel_degree is 3 and expert_tensor_parallel_degree 1; the second is 1 or "
              "the tensor "
              "parallel degree 2, and their product divides dp_shard * cp * tp, which is 16\n");
}

TEST(Convert, IsShortForAMillionRanks) {
    const auto outcome =
        rankmesh("convert --from picotron --to torchtitan tp_size=8 pp_size=16 dp_size=8192");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_LT(outcome.output.size(), 600U) << outcome.output;
    EXPECT_NE(outcome.output.find("of 1048576 ranks move: 8 → 65536, "), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace rankmesh::tests
