// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/name.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rankmesh::tests {
namespace {

static_assert(is_name_character('a') && is_name_character('-') && is_name_character('.'));
static_assert(!is_name_character('=') && !is_name_character(' ') && !is_name_character('\0'));
static_assert(checked_name("data_parallel-1.x") == "data_parallel-1.x");

// A list that is full is searched to its end and no further.
static_assert([] {
    auto names = Names();
    for (char name = 'a'; names.size() < max_axes; ++name) names.push_back({&name, 1});
    return names.find("none") == -1 && names.find("a") == 0;
}());

TEST(Names, KeepTheirOrderAndAreFoundAgain) {
    auto names = Names{};
    for (int i = 0; i < max_axes; ++i) names.push_back(detail::cat("axis-", i));
    EXPECT_EQ(names.size(), max_axes);
    for (int i = 0; i < max_axes; ++i) {
        EXPECT_EQ(names[i], detail::cat("axis-", i));
        EXPECT_EQ(names.find(names[i]), i);
    }
    EXPECT_EQ(names.find("axis"), -1);
    EXPECT_EQ(names.find(""), -1);
}

TEST(Names, FillTheirPoolToTheLastCharacter) {
    auto names = Names{};
    for (char c = 'a'; c < 'g'; ++c) names.push_back(std::string(max_name_length, c));
    names.push_back(std::string(name_pool_size - 6 * max_name_length, 'x'));
    EXPECT_EQ(names[5], std::string(max_name_length, 'f'));
    EXPECT_THROW(names.push_back("y"), UsageError);
    EXPECT_EQ(names.size(), 7);
}

RC_GTEST_PROP(EditDistance, IsADistance, ()) {
    const auto word = [] { return *rc::gen::container<std::string>(rc::gen::inRange('a', 'd')); };
    const auto a = word();
    const auto b = word();
    const auto distance = edit_distance(a, b);
    RC_ASSERT(edit_distance(a, a) == 0);
    RC_ASSERT((distance == 0) == (a == b));
    RC_ASSERT(distance == edit_distance(b, a));
    RC_ASSERT(distance <= static_cast<int>(std::max(a.size(), b.size())));
    RC_ASSERT(distance >= std::abs(static_cast<int>(a.size()) - static_cast<int>(b.size())));
    RC_ASSERT(edit_distance(a + "x", a) == 1);
}

TEST(EditDistance, CountsASwapOfNeighboursOnceAndCapitalsNotAtAll) {
    EXPECT_EQ(edit_distance("pt", "tp"), 1);
    EXPECT_EQ(edit_distance("expret", "expert"), 1);
    EXPECT_EQ(edit_distance("TP", "tp"), 0);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Nearest, IsTheCandidateThatNeedsTheFewestChanges) {
    const auto axes = std::vector<std::string_view>{"pp", "dp", "tp", "expert", "sequence"};
    EXPECT_EQ(nearest("ttp", axes), "tp");
    EXPECT_EQ(nearest("TP", axes), "tp");
    EXPECT_EQ(nearest("tpp", axes), "tp");  // of two as near, the one with the same first letter
    EXPECT_EQ(nearest("exprt", axes), "expert");
    EXPECT_EQ(nearest("seqence", axes), "sequence");
    EXPECT_EQ(nearest("cp", axes), "pp");  // else the first
    EXPECT_EQ(nearest("model", axes), "");
    EXPECT_EQ(nearest("", axes), "");
    EXPECT_EQ(nearest("x", {"a", "b"}), "");  // nothing of the word would be left
    EXPECT_EQ(nearest("tp", {}), "");
}

TEST(DidYouMean, SaysNothingWhereNothingIsNear) {
    EXPECT_EQ(did_you_mean("tpp", {"dp", "tp"}), "; did you mean 'tp'?");
    EXPECT_EQ(did_you_mean("zzzz", {"dp", "tp"}), "");
}

}  // namespace
}  // namespace rankmesh::tests
