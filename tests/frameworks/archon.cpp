// SPDX-License-Identifier: Apache-2.0
// Archon's own groups, of the examples in ArchonParallelDims's documentation.
#include <gtest/gtest.h>

#include <rankmesh/frameworks/groups.hpp>

#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;
using tests::refusal;

TEST(Archon, ShardsAreOfDataAndContextParallelRanks) {
    const auto groups = frameworks::Groups("archon", {{"dp_shard", 2}, {"cp", 2}, {"tp", 2}}, 8);
    EXPECT_EQ(lists(groups, "dp"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    EXPECT_EQ(lists(groups, "dp_shard_cp"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
    EXPECT_EQ(lists(groups, "pp_cp_tp"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_FALSE(groups.has("ep"));
}

TEST(Archon, ExpertsTakeTensorParallelRanksUnlessTheyAreSplit) {
    const auto borrowed = frameworks::Groups("archon", {{"tp", 2}, {"ep", 2}}, 4);
    EXPECT_EQ(lists(borrowed, "ep"), (Lists{{0, 1}, {2, 3}}));
    EXPECT_EQ(lists(borrowed, "dp_shard_mod_ep"), (Lists{{0, 2}, {1, 3}}));
    const auto split = frameworks::Groups("archon", {{"tp", 2}, {"ep", 2}, {"etp", 2}}, 4);
    EXPECT_EQ(lists(split, "ep"), (Lists{{0, 2}, {1, 3}}));
    EXPECT_FALSE(split.has("dp_shard"));
}

TEST(Archon, RefusalsSayWhatIsAskedAndWhatIsTrue) {
    EXPECT_EQ(refusal("archon", {{"dp_shard", 3}, {"tp", 2}}, 8),
              "dp_shard * tp * cp * pp must equal world_size, got 3 * 2 * 1 * 1 = 6, world_size=8");
    EXPECT_EQ(refusal("archon", {{"tp", 4}, {"etp", 2}}, 8), "etp must be 1 or equal to tp, got etp=2, tp=4");
    EXPECT_EQ(refusal("archon", {{"tp", 2}, {"ep", 3}}, 6),
              "When etp=1, ep must be divisible by cp * tp, got ep=3, cp=1, tp=2");
    EXPECT_EQ(refusal("archon", {{"ep", 3}}, 8),
              "When etp=tp, dp_shard * cp must be divisible by ep, got 8, ep=3");
    EXPECT_EQ(refusal("archon", {{"tp", 0}}, 8), "tp is 0; every size is 1 or more");
}
