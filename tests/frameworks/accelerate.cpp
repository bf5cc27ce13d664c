// SPDX-License-Identifier: Apache-2.0
// The meshes of accelerate's ParallelismConfig, as its documentation of N-D parallelism lists them.
#include <gtest/gtest.h>

#include <rankmesh/frameworks/groups.hpp>

#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;
using tests::refusal;

namespace {

using Texts = std::vector<std::string>;

}  // namespace

TEST(Accelerate, HybridShardingWithTensorParallelism) {
    const auto hybrid =
        frameworks::Groups("accelerate", {{"dp_replicate_size", 2}, {"dp_shard_size", 2}, {"tp_size", 2}}, 8);
    EXPECT_EQ(hybrid.kinds(), (Texts{"dp_replicate", "dp_shard", "tp", "dp", "dp_shard_cp", "dp_cp"}));
    EXPECT_EQ(lists(hybrid, "tp"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    EXPECT_EQ(lists(hybrid, "dp_shard_cp"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
    EXPECT_EQ(lists(hybrid, "dp"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(Accelerate, ContextRanksShardParametersAndAverageTheLoss) {
    const auto context = frameworks::Groups("accelerate", {{"dp_shard_size", 2}, {"cp_size", 2}}, 4);
    EXPECT_EQ(lists(context, "dp_shard_cp"), (Lists{{0, 1, 2, 3}}));
    EXPECT_EQ(lists(context, "dp_cp"), (Lists{{0, 1, 2, 3}}));
    EXPECT_EQ(lists(context, "dp"), (Lists{{0, 2}, {1, 3}}));
}

TEST(Accelerate, WithoutSizesAllRanksAreReplicas) {
    const auto state = frameworks::State(frameworks::Groups("accelerate", {}, 4), 1);
    EXPECT_EQ(lists(state.groups(), "dp_replicate"), (Lists{{0, 1, 2, 3}}));
    EXPECT_EQ(state.ask("dp_replicate_size"), frameworks::Value(4));
    EXPECT_EQ(state.ask("active_mesh_dims"), frameworks::Value(Texts{"dp_replicate"}));
    EXPECT_TRUE(frameworks::Groups("accelerate", {}, 1).kinds().empty());
}

TEST(Accelerate, SequenceParallelGroupsAreMadeByDeepSpeed) {
    EXPECT_TRUE(frameworks::Groups("accelerate", {{"sp_size", 2}, {"dp_shard_size", 2}}, 4).kinds().empty());
    // accelerate does not compare the sizes
    const auto other = frameworks::Groups("accelerate", {{"sp_size", 2}, {"tp_size", 2}}, 6);
    EXPECT_EQ(to_string(other.mesh()), "dp_replicate=1 dp_shard=3 cp=1 sp=2 tp=1");
    EXPECT_EQ(refusal("accelerate", {{"sp_size", 2}}, 7),
              "sp_size is 2 and the world has 7 ranks; DeepSpeed's sequence parallelism divides the world");
}

TEST(Accelerate, RefusesWhatTheOriginalRefuses) {
    EXPECT_EQ(refusal("accelerate", {{"dp_shard_size", 3}}, 8),
              "ParallelismConfig total_size (3) does not match num_processes (8). Please adjust "
              "dp_replicate_size/ dp_shard_size/tp_size/cp_size/sp_size.");
    EXPECT_EQ(
        refusal("accelerate", {{"cp_size", 2}, {"sp_size", 2}}, 4),
        "Context Parallelism (CP) and Sequence Parallelism (SP) are mutually exclusive. Got cp_size=2 and "
        "sp_size=2. Please set either cp_size=1 or sp_size=1.");
    EXPECT_EQ(refusal("accelerate", {{"dp_replicate_size", 2}, {"tp_size", 2}}, 4),
              "Tensor/Context parallelism (tp/cp_size > 1) cannot be used with pure data parallelism "
              "(dp_replicate_size > 1 and dp_shard_size == 1). Set dp_shard_size above 1");
    EXPECT_EQ(refusal("accelerate", {{"cp_backend", "ring"}}, 4),
              "cp_backend must be one of ['torch'], but got ring");
}
