// SPDX-License-Identifier: Apache-2.0
// The meshes of transformers' DistributedConfig, as its documentation lists them.
#include <gtest/gtest.h>

#include <rankmesh/frameworks/groups.hpp>

#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;
using tests::refusal;

TEST(Transformers, ExpertsOfTwoHostsAreShardedOverPairs) {
    const auto both =
        frameworks::Groups("transformers", {{"fsdp_size", 8}, {"tp_size", 2}, {"ep_size", 8}}, 16);
    EXPECT_EQ(lists(both, "ep"), (Lists{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
    EXPECT_EQ(lists(both, "efsdp"),
              (Lists{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
    EXPECT_EQ(lists(both, "tp").front(), (std::vector{0, 1}));
    EXPECT_EQ(frameworks::State(both, 0).ask("efsdp_size"), frameworks::Value(2));
}

TEST(Transformers, APlanTakesTheRestOfTheWorld) {
    EXPECT_EQ(lists(frameworks::Groups("transformers", {{"tp_plan", "auto"}, {"fsdp_size", 2}}, 8), "tp"),
              (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_EQ(
        lists(frameworks::Groups("transformers", {{"tp_plan", "auto"}, {"enable_expert_parallel", true}}, 4),
              "ep"),
        (Lists{{0, 1, 2, 3}}));
    EXPECT_TRUE(frameworks::Groups("transformers", {}, 8).kinds().empty());
}

TEST(Transformers, RefusesWhatTheOriginalRefuses) {
    EXPECT_EQ(refusal("transformers", {{"tp_size", 2}}, 8),
              "The parallel mesh requires 2 processes, but world_size is 8.");
    EXPECT_EQ(
        refusal("transformers", {{"tp_plan", "auto"}, {"fsdp_size", 3}}, 8),
        "WORLD_SIZE (8) must be divisible by dp_replicate_size * fsdp_size * pp_size (3) to derive tp_size.");
    EXPECT_EQ(refusal("transformers", {{"tp_size", 2}, {"ep_size", 3}}, 2),
              "`ep_size` must be a multiple of `tp_size`.");
    EXPECT_EQ(refusal("transformers", {{"tp_size", 2}, {"ep_size", 4}}, 2),
              "`ep_size` must divide `fsdp_size * tp_size`.");
    EXPECT_EQ(refusal("transformers", {{"ep_size", 0}}, 2), "Parallelism sizes must be >= 1, got 0.");
    EXPECT_EQ(
        refusal("transformers", {{"fsdp_size", 2}, {"pp_size", 2}}, 4),
        "Combining FSDP with pipeline parallelism is not supported yet. Use DistributedConfig(tp_size=N, "
        "fsdp_size=M), or combine TP and PP.");
}
