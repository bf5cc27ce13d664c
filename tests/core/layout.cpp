// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/layout.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include <rankmesh/core/detail/layout_parts.hpp>
#include <rankmesh/core/layout_text.hpp>

namespace rankmesh::tests {
namespace {

static_assert(parse_layout("(4,8,8):(64,8,1)").offset_of(67) == 67);
static_assert(parse_layout("(2,4):(32,8)").index_of(40) == 5);
static_assert(parse_layout("(2,4):(32,8)").index_of(41) == std::nullopt);
static_assert(parse_layout("(1):(1)").size() == 1);

/// Digits of random sizes in a random order, with gaps between the strides that may or may not divide.
std::vector<Digit> some_digits() {
    auto digits = std::vector<Digit>(*rc::gen::inRange<std::size_t>(0, 5));
    auto reach = 0;
    for (auto& digit : digits) {
        digit.size = *rc::gen::inRange(1, 6);
        digit.stride = reach + *rc::gen::inRange(1, 4);
        reach += (digit.size - 1) * digit.stride;
    }
    for (std::size_t i = digits.size(); i > 1; --i)
        std::swap(digits[i - 1], digits[*rc::gen::inRange<std::size_t>(0, i)]);
    return digits;
}

std::vector<int> counted_offsets(const std::vector<Digit>& digits) {
    auto offsets = std::vector<int>{0};
    for (auto digit : digits) {
        auto next = std::vector<int>{};
        for (auto offset : offsets)
            for (int i = 0; i < digit.size; ++i) next.push_back(offset + i * digit.stride);
        offsets = next;
    }
    return offsets;
}

RC_GTEST_PROP(Layout, FindsEveryIndexOfItsOffsetsAndNoOther, ()) {
    const auto digits = some_digits();
    auto layout = Layout{};
    for (auto digit : digits) layout.push_back(digit);
    const auto offsets = counted_offsets(digits);
    RC_ASSERT(layout.nests());
    RC_ASSERT(layout.size() == static_cast<int>(offsets.size()));
    RC_ASSERT(layout.last_offset() == *std::ranges::max_element(offsets));
    for (int i = 0; i < layout.size(); ++i) {
        RC_ASSERT(layout.offset_of(i) == offsets[static_cast<std::size_t>(i)]);
        RC_ASSERT(layout.index_of(layout.offset_of(i)) == i);
    }
    const auto known = std::set<int>(offsets.begin(), offsets.end());
    for (int offset = -3; offset < layout.last_offset() + 4; ++offset)
        RC_ASSERT(layout.index_of(offset).has_value() == known.contains(offset));
}

RC_GTEST_PROP(Layout, ParsesBackDigitByDigit, ()) {
    auto layout = Layout{};
    for (auto digit : some_digits()) layout.push_back(digit);
    RC_ASSERT(parse_layout(to_string(layout)) == layout);
}

RC_GTEST_PROP(Layout, CoalescesToTheFewestDigitsOfTheSameOffsets, ()) {
    const auto digits = some_digits();
    auto layout = Layout{};
    auto appended = Layout{};
    for (auto digit : digits) {
        layout.push_back(digit);
        appended.append(digit);
    }
    const auto fewest = layout.coalesced();
    RC_ASSERT(fewest == appended);
    RC_ASSERT(fewest == fewest.coalesced());
    RC_ASSERT(fewest.size() == layout.size());
    for (int i = 0; i < layout.size(); ++i) RC_ASSERT(fewest.offset_of(i) == layout.offset_of(i));
    for (int k = 0; k + 1 < fewest.digit_count(); ++k)
        RC_ASSERT(fewest.digit(k).stride != fewest.digit(k + 1).size * fewest.digit(k + 1).stride);
}

TEST(Layout, NestsExactlyWhereAllDigitsHaveRoom) {
    const auto nests = [](std::initializer_list<Digit> digits) {
        auto layout = Layout{};
        for (auto digit : digits) layout.push_back(digit);
        return layout.nests();
    };
    EXPECT_TRUE(nests({}));
    EXPECT_TRUE(nests({{4, 2}, {2, 1}}));
    EXPECT_TRUE(nests({{2, 1}, {4, 2}}));
    EXPECT_TRUE(nests({{2, 7}, {4, 2}}));
    EXPECT_FALSE(nests({{2, 6}, {4, 2}}));
    EXPECT_FALSE(nests({{2, 1}, {2, 1}}));
    EXPECT_FALSE(nests({{3, 4}, {5, 1}}));
}

TEST(Layout, HoldsAsManyDigitsAsTheLargestWorldCanHave) {
    auto layout = Layout{};
    for (int k = Layout::max_digits - 1; k >= 0; --k) layout.push_back({2, 1 << k});
    EXPECT_EQ(layout.digit_count(), Layout::max_digits);
    EXPECT_EQ(layout.size(), 1 << 30);
    for (auto offset : {0, 1, 12345678, (1 << 30) - 1}) EXPECT_EQ(layout.index_of(offset), offset);
    EXPECT_EQ(layout.index_of(1 << 30), std::nullopt);
    EXPECT_EQ(layout.coalesced().digit_count(), 1);
}

RC_GTEST_PROP(Layout, IsTheSumOfItsPartsWhereTheyEndBetweenDigits, ()) {
    auto layout = Layout{};
    auto ends = std::set<int>{1};  // the sizes of inner parts that end between digits, or divide one
    const auto digits = some_digits();
    for (auto digit : digits) layout.append(digit);
    for (auto k = layout.digit_count(), inside = 1; k-- > 0; inside *= layout.digit(k).size)
        for (int size = 1; size <= layout.digit(k).size; ++size)
            if (layout.digit(k).size % size == 0) ends.insert(inside * size);
    for (int inner = 1; inner <= layout.size(); ++inner) {
        if (layout.size() % inner != 0) continue;
        auto parts = detail::LayoutParts(layout);
        const auto a = parts.next(layout.size() / inner);
        const auto b = a ? parts.next(inner) : std::nullopt;
        RC_ASSERT(b.has_value() == ends.contains(inner));
        if (!b) continue;
        for (int i = 0; i < layout.size(); ++i)
            RC_ASSERT(layout.offset_of(i) == a->offset_of(i / inner) + b->offset_of(i % inner));
    }
}

}  // namespace
}  // namespace rankmesh::tests
