// SPDX-License-Identifier: Apache-2.0
// verl's own meshes, as torch's init_device_mesh cuts the ranks of its shapes.
#include <gtest/gtest.h>

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

#include "frameworks/laws.hpp"
#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;

TEST(Verl, ActorAndRolloutCutTheSameRanksInTheirOwnWays) {
    const auto groups = frameworks::Groups("verl",
                                           {{"fsdp_size", 4},
                                            {"ulysses_sequence_parallel_size", 2},
                                            {"rollout_tensor_model_parallel_size", 2},
                                            {"rollout_pipeline_model_parallel_size", 2}},
                                           8);
    EXPECT_EQ(lists(groups, "device_mesh.fsdp"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_EQ(lists(groups, "device_mesh.ddp"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    EXPECT_EQ(lists(groups, "ulysses_device_mesh.dp"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
    EXPECT_EQ(lists(groups, "ulysses_device_mesh.sp"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    const auto state = frameworks::State(groups, 5);
    EXPECT_EQ(state.ask("get_data_parallel_rank"), frameworks::Value(2));
    EXPECT_EQ(state.ask("is_mp_src_rank_with_outputs"), frameworks::Value(false));
}

TEST(Verl, WithoutSequenceParallelRanksAllHaveOtherData) {
    const auto state = frameworks::State({"verl", {}, 8}, 5);
    EXPECT_EQ(lists(state.groups(), "device_mesh.fsdp"), (Lists{{0, 1, 2, 3, 4, 5, 6, 7}}));
    EXPECT_FALSE(state.groups().has("device_mesh.ddp"));
    EXPECT_EQ(state.ask("get_data_parallel_rank"), frameworks::Value(5));
    EXPECT_EQ(state.ask("get_data_parallel_size"), frameworks::Value(8));
    EXPECT_EQ(state.ask("is_mp_src_rank_with_outputs"), frameworks::Value(true));
}

TEST(Verl, TheRolloutHasTheGroupsOfItsEngineOrNone) {
    const auto world = 16;
    for (const auto tp : {1, 2, 4})
        for (const auto dp : {1, 2})
            for (const auto pp : {1, 2}) {
                const auto verl = frameworks::Groups("verl",
                                                     {{"rollout_tensor_model_parallel_size", tp},
                                                      {"rollout_data_parallel_size", dp},
                                                      {"rollout_pipeline_model_parallel_size", pp}},
                                                     world);
                const auto engine = frameworks::Groups("vllm",
                                                       {{"tensor_model_parallel_size", tp},
                                                        {"pipeline_model_parallel_size", pp},
                                                        {"data_parallel_size", dp}},
                                                       tp * dp * pp);
                for (const auto& [theirs, own] : {std::pair("infer_tp", "tp"), std::pair("infer_pp", "pp")}) {
                    const auto kind = std::string("rollout_device_mesh.") + theirs;
                    if (verl.has(kind)) {
                        EXPECT_EQ(lists(verl, kind).front(), lists(engine, own).front()) << kind;
                    } else {
                        EXPECT_TRUE(tp > 1 || dp > 1) << kind;
                        EXPECT_EQ(
                            laws::text_of<frameworks::Error>([&] { verl.of(kind, 0); }),
                            "verl's infer_tp and infer_pp have other ranks than the rollout's "
                            "tensor-parallel groups and pipelines for these sizes; ask for the groups of "
                            "its engine");
                    }
                }
            }
}

TEST(Verl, RanksThatWouldBeInNoGroupAreRefused) {
    try {
        frameworks::Groups("verl", {{"fsdp_size", 3}}, 8);
        FAIL();
    } catch (const frameworks::Refusal& refusal) {
        EXPECT_EQ(refusal.rule, "ranks-left-out");
        EXPECT_STREQ(refusal.what(),
                     "fsdp_size 3 does not divide the 8 ranks of the world; the last 2 would be in no group");
    }
}
