// SPDX-License-Identifier: Apache-2.0
// VeOmni's own groups, as its source makes them of torch's meshes.
#include <gtest/gtest.h>

#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;
using tests::refusal;

TEST(Veomni, SequencesAreSharedInsideOfTheShards) {
    const auto groups = frameworks::Groups(
        "veomni", {{"dp_size", 4}, {"dp_replicate_size", 2}, {"dp_shard_size", 2}, {"ulysses_size", 2}}, 8);
    EXPECT_EQ(lists(groups, "ulysses"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    EXPECT_EQ(lists(groups, "sp"), lists(groups, "ulysses"));
    EXPECT_EQ(lists(groups, "dp"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
    EXPECT_EQ(lists(groups, "dp_shard_sp"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_FALSE(groups.has("tp"));
}

TEST(Veomni, EachExtraPartHasShardsOfItsOwn) {
    const auto groups = frameworks::Groups("veomni",
                                           {{"dp_size", 8},
                                            {"dp_replicate_size", 2},
                                            {"dp_shard_size", 4},
                                            {"extra_parallel_names", std::vector<std::string>{"ep", "emb"}},
                                            {"extra_parallel_sizes", std::vector<int>{2, 4}},
                                            {"extra_parallel_placement_innermost", std::vector<int>{0, 0}}},
                                           8);
    EXPECT_EQ(lists(groups, "ep"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    EXPECT_EQ(lists(groups, "ep_fsdp"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
    EXPECT_EQ(lists(groups, "ep_replicate"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    EXPECT_EQ(lists(groups, "emb"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_EQ(frameworks::State(groups, 3).ask("extra_parallel_rank", {{"para_name", std::string("emb")}}),
              frameworks::Value(3));
}

TEST(Veomni, RefusalsSayWhatIsAskedAndWhatIsTrue) {
    EXPECT_EQ(refusal("veomni", {{"cp_size", 2}, {"ulysses_size", 2}}, 4),
              "cp_size is 2 and ulysses_size 2; one of them must be 1");
    EXPECT_EQ(refusal("veomni", {{"dp_size", 4}, {"dp_shard_size", 2}}, 4),
              "dp_size is 4, which is not dp_replicate_size 1 x dp_shard_size 2");
    EXPECT_EQ(refusal("veomni", {{"dp_size", 4}, {"extra_parallel_sizes", std::vector<int>{3}}}, 4),
              "ep is 3; it must divide dp_shard x ulysses x cp, which is 4");
    EXPECT_EQ(
        refusal("veomni", {{"dp_size", 2}, {"tp_size", 2}, {"extra_parallel_sizes", std::vector<int>{2}}}, 4),
        "the groups of ep leave ranks 2..3 out; with them pp_size and tp_size are 1");
}
