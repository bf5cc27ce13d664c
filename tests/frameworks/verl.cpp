// SPDX-License-Identifier: Apache-2.0
// verl's own meshes, as torch's init_device_mesh cuts the ranks of its shapes.
#include <gtest/gtest.h>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

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
    EXPECT_EQ(lists(groups, "rollout_device_mesh.infer_tp"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
    EXPECT_EQ(lists(groups, "rollout_device_mesh.infer_pp"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
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

TEST(Verl, RanksThatWouldBeInNoGroupAreRefused) {
    try {
        frameworks::Groups("verl", {{"fsdp_size", 3}}, 8);
        FAIL();
    } catch (const dialect::Refusal& refusal) {
        EXPECT_EQ(refusal.rule, "ranks-left-out");
        EXPECT_STREQ(refusal.what(),
                     "fsdp_size 3 does not divide the 8 ranks of the world; the last 2 would be in no group");
    }
}
