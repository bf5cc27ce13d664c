// SPDX-License-Identifier: Apache-2.0
// tests/frameworks/sample.cpp
#include <gtest/gtest.h>

#include "frameworks/lists.hpp"

using namespace rankmesh;
using tests::Lists;

TEST(Sample, HasTheGroupsThatTheOriginalLists) {
    const auto groups = frameworks::Groups("sample", {{"tensor_size", 2}, {"stages", 3}}, 12);
    EXPECT_EQ(to_string(groups.mesh()), "dp=2 pp=3 tp=2");
    EXPECT_EQ(tests::lists(groups, "tensor"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
    EXPECT_EQ(tests::lists(groups, "stages"), (Lists{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
    EXPECT_EQ(tests::lists(groups, "ends"), (Lists{{0, 4}, {1, 5}, {6, 10}, {7, 11}}));
    EXPECT_EQ(tests::refusal("sample", {{"tensor_size", 5}}, 12),
              "a world of 12 ranks is not divided by pp 1 x tp 5, which is 5");
}

TEST(Sample, AnswersAsTheOriginalOnARankBetweenTheEnds) {
    const auto state = frameworks::State({"sample", {{"tensor_size", 2}, {"stages", 3}}, 12}, 9);
    EXPECT_EQ(state.ask("tensor_group"), frameworks::Value(std::vector{8, 9}));
    EXPECT_EQ(state.ask("stage"), frameworks::Value(1));
    EXPECT_EQ(state.ask("ends_size"), frameworks::Value(0));
}
