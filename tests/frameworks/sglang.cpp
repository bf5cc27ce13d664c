// SPDX-License-Identifier: Apache-2.0
// SGLang's own groups, as its source lists them.
#include <gtest/gtest.h>

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;

TEST(Sglang, AttentionAndExpertsCutTheRanksOfAStageInTheirOwnWays) {
    const auto groups = frameworks::Groups(
        "sglang", {{"tp_size", 8}, {"attn_cp_size", 2}, {"moe_dp_size", 2}, {"ep_size", 4}}, 8);
    EXPECT_EQ(lists(groups, "tp"), (Lists{{0, 1, 2, 3, 4, 5, 6, 7}}));
    EXPECT_EQ(lists(groups, "attn_cp"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    EXPECT_EQ(lists(groups, "attn_tp"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_EQ(lists(groups, "moe_ep"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_EQ(lists(groups, "moe_dp"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(Sglang, StagesStandFurthestApart) {
    const auto groups = frameworks::Groups("sglang", {{"tp_size", 2}, {"pp_size", 4}}, 8);
    EXPECT_EQ(lists(groups, "tp"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    EXPECT_EQ(lists(groups, "pp"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(Sglang, WithoutExpertReplicasContextRanksShareTokensAsReplicasDo) {
    const auto groups =
        frameworks::Groups("sglang", {{"tp_size", 8}, {"attn_cp_size", 4}, {"moe_dp_size", 2}}, 8);
    EXPECT_EQ(lists(groups, "moe_dp"), lists(groups, "attn_cp"));
    EXPECT_EQ(lists(groups, "moe_dp"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(Sglang, PartsThatDoNotDivideAreToldWithTheWhole) {
    try {
        frameworks::Groups("sglang", {{"tp_size", 8}, {"attn_dp_size", 3}}, 8);
        FAIL() << "nothing was thrown";
    } catch (const frameworks::Error& error) {
        EXPECT_STREQ(error.what(), "tp_size is 8, which is not divided by attn_dp_size 3 x attn_cp_size 1");
    }
}
