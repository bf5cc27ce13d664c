// SPDX-License-Identifier: Apache-2.0
// nanotron's own groups, as its ParallelContext cuts world_rank_matrix.
#include <gtest/gtest.h>

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;

namespace {

frameworks::Groups two_of_each() {
    return {"nanotron",
            {{"tensor_parallel_size", 2},
             {"pipeline_parallel_size", 2},
             {"data_parallel_size", 2},
             {"expert_parallel_size", 2}},
            16};
}

}  // namespace

TEST(Nanotron, ExpertsAreOutermostAndAReplicaIsOfAllStagesAndExperts) {
    const auto groups = two_of_each();
    EXPECT_EQ(lists(groups, "tp"),
              (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
    EXPECT_EQ(lists(groups, "dp"),
              (Lists{{0, 2}, {4, 6}, {8, 10}, {12, 14}, {1, 3}, {5, 7}, {9, 11}, {13, 15}}));
    EXPECT_EQ(lists(groups, "pp"),
              (Lists{{0, 4}, {8, 12}, {1, 5}, {9, 13}, {2, 6}, {10, 14}, {3, 7}, {11, 15}}));
    EXPECT_EQ(lists(groups, "expert"),
              (Lists{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
    EXPECT_EQ(lists(groups, "mp"), (Lists{{0, 1, 4, 5, 8, 9, 12, 13}, {2, 3, 6, 7, 10, 11, 14, 15}}));
}

TEST(Nanotron, PlacesOfARankLeaveTheExpertsOut) {
    const auto state = frameworks::State(two_of_each(), 0);
    EXPECT_EQ(state.ask("get_3d_ranks", {{"world_rank", 13}}), frameworks::Value(std::vector{1, 0, 1}));
    EXPECT_EQ(state.ask("get_3d_ranks"), frameworks::Value(std::vector{0, 0, 0}));
    EXPECT_THROW(static_cast<void>(state.ask("get_3d_ranks", {{"world_rank", 16}})), frameworks::Error);
}

TEST(Nanotron, SizesAreTheWholeWorld) {
    const auto text = [](frameworks::Values settings) {
        try {
            frameworks::Groups("nanotron", settings, 8);
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("nothing was thrown");
    };
    const auto sizes = [](int tp, int pp, int dp) {
        return frameworks::Values{
            {"tensor_parallel_size", tp}, {"pipeline_parallel_size", pp}, {"data_parallel_size", dp}};
    };
    EXPECT_EQ(text(sizes(1, 1, 3)), "a world of 8 ranks is not divided by data_parallel_size 3");
    EXPECT_EQ(text(sizes(3, 1, 1)),
              "a world of 8 ranks is not divided by tensor_parallel_size 3 x pipeline_parallel_size 1 x "
              "expert_parallel_size 1");
    EXPECT_EQ(text(sizes(2, 1, 1)), "a world of 8 ranks is not expert 1 x pp 1 x dp 1 x tp 2, which is 2");
    EXPECT_EQ(text({{"tensor_parallel_size", 2}, {"data_parallel_size", 4}}),
              "nanotron needs pipeline_parallel_size, which has no default");
}
