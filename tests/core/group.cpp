// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/group.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <iterator>
#include <set>

#include "laws.hpp"

namespace rankmesh::tests {
namespace {

static_assert(std::random_access_iterator<Group::iterator>);
static_assert(std::random_access_iterator<Partition::iterator>);
static_assert(std::ranges::random_access_range<Group> && std::ranges::sized_range<Partition>);

Layout layout_of(std::initializer_list<Digit> digits) {
    auto layout = Layout{};
    for (auto digit : digits) layout.push_back(digit);
    return layout;
}

TEST(Group, IsEqualExactlyWhereTheRanksAre) {
    const auto groups = std::vector<Group>{
        Group(0, layout_of({{4, 1}})),
        Group(0, layout_of({{2, 2}, {2, 1}})),  // the same ranks in two digits
        Group(0, layout_of({{2, 1}, {2, 2}})),  // the same ranks in another order
        Group(1, layout_of({{4, 1}})),
        Group(0, layout_of({{5, 1}})).pick({0, 1, 2, 3}),
        Group(0, layout_of({{2, 3}, {2, 1}})),
        Group(0, layout_of({{4, 1}})).pick({0, -1}),
        Group(0, layout_of({{2, 3}})),
        Group(3, {}),
        Group(0, layout_of({{4, 1}})).pick({-1}),
    };
    for (const auto& a : groups)
        for (const auto& b : groups) EXPECT_EQ(a == b, std::ranges::equal(a, b)) << a << " and " << b;
}

RC_GTEST_PROP(Group, PicksEachListedMemberOnceInTheOrderOfTheGroup, ()) {
    const auto size = *rc::gen::inRange(1, 13);
    const auto group = Mesh{{"a", 3}, {"b", size}, {"c", 5}}.group(*rc::gen::inRange(0, 15 * size), "b");
    const auto listed =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-size, size)));
    auto positions = std::set<int>{};
    for (auto position : listed) positions.insert(position < 0 ? position + size : position);
    const auto pick = group.pick(listed);
    RC_ASSERT(pick.size() == static_cast<int>(positions.size()));
    auto i = 0;
    for (auto position : positions) {
        RC_ASSERT(pick[i] == group[position]);
        RC_ASSERT(pick.group_rank(group[position]) == i);
        ++i;
    }
    for (auto rank : group) RC_ASSERT(pick.contains(rank) == (positions.contains(*group.group_rank(rank))));
    RC_ASSERT(parse_ranks(to_string(pick)) == std::vector<int>(pick.begin(), pick.end()));
    RC_ASSERT(pick.pick({-1}).front() == pick.back());
}

TEST(Group, HoldsSixteenPickedMembersAndNoMore) {
    const auto group = Mesh{{"pp", 64}}.group(0, "pp");
    auto positions = std::vector<int>{};
    for (int i = 0; i < Group::max_picked; ++i) positions.push_back(63 - 2 * i);
    EXPECT_EQ(group.pick(positions).size(), Group::max_picked);
    positions.push_back(0);
    EXPECT_THROW(group.pick(positions), UsageError);
}

TEST(Group, IteratesBothWaysAndByJumps) {
    const auto group = Mesh{{"a", 4}, {"b", 3}}.group(1, "a");
    auto at = group.begin();
    EXPECT_EQ(*at++, 1);
    EXPECT_EQ(*++at, 7);
    EXPECT_EQ(at[1], 10);
    EXPECT_EQ(*--at, 4);
    EXPECT_EQ(*at--, 4);
    EXPECT_EQ(group.end() - at, 4);
    EXPECT_TRUE(at < group.end() && at == group.begin());
    EXPECT_EQ(std::vector<int>(std::make_reverse_iterator(group.end()), std::make_reverse_iterator(at)),
              (std::vector<int>{10, 7, 4, 1}));
}

/// Nothing, or how what copy_to writes differs from the groups one by one; it writes nowhere else either.
std::string broken_writing(const Partition& partition) {
    auto expected = std::vector<int>{-7};
    for (const auto& group : partition) expected.insert(expected.end(), group.begin(), group.end());
    expected.push_back(-7);
    auto written = std::vector<int>(expected.size(), -7);
    partition.copy_to(std::span(written).subspan(1, written.size() - 2));
    const auto [a, b] = std::ranges::mismatch(written, expected);
    if (a == written.end()) return {};
    return detail::cat("at ", a - written.begin() - 1, " ", *a, " instead of ", *b);
}

/// Sizes on both sides of what copy_to writes as one block, alone and beside others.
TEST(Partition, WritesWhatItListsWhateverTheSizes) {
    for (auto text : {"a=1", "a=2", "a=1023", "a=1024", "a=1025", "a=5000", "a=3 b=341", "a=3 b=342",
                      "a=2 b=1024", "a=1024 b=2", "a=1500 b=3", "a=3 b=1500", "a=2 b=3 c=700 d=5",
                      "a=700 b=3 c=3", "a=40:200 b=60:3 @7", "a=2:1200000000 b=2:600000000 c=2000:1"}) {
        const auto mesh = Mesh::parse(text);
        for (auto axes : sets_of_axes(mesh))
            EXPECT_EQ(broken_writing(mesh.partition(axes)), "") << text << " along axes " << axes.bits();
    }
}

RC_GTEST_PROP(Partition, WritesWhatItListsInAnyOrderOfAxesWithAnyGaps, ()) {
    auto axes = std::vector<Axis>{};
    auto names = std::vector<std::string>{"a", "b", "c", "d", "e", "f"};
    auto count = 1;
    auto reach = 0;
    for (const auto& name : names) {
        const auto size = *rc::gen::element(1, 2, 3, 4, 5, 7, 8, 16, 33, 130);
        if (count * size > 6000) break;
        const auto stride = reach + 1 + *rc::gen::element(0, 0, 0, 1, 10);
        axes.push_back({name, size, stride});
        count *= size;
        reach += (size - 1) * stride;
    }
    const auto shuffled = [&](std::size_t size) {
        auto order = std::vector<int>(size);
        for (std::size_t i = 0; i < size; ++i) order[i] = static_cast<int>(i);
        for (std::size_t i = size; i-- > 1;)
            std::swap(order[i], order[*rc::gen::inRange<std::size_t>(0, i + 1)]);
        return order;
    };
    auto turned = std::vector<Axis>{};
    for (auto a : shuffled(axes.size())) turned.push_back(axes[static_cast<std::size_t>(a)]);
    const auto mesh = Mesh(turned).shifted(*rc::gen::inRange(0, 9));
    auto order = std::vector<AxisId>{};
    for (auto a : shuffled(axes.size()))
        if (*rc::gen::arbitrary<bool>()) order.push_back({a});
    auto set = AxisSet{};
    for (auto axis : order) set.insert(axis);
    RC_ASSERT(broken_writing(mesh.partition(set)) == "");
    RC_ASSERT(broken_writing(mesh.partition_in_order(std::span<const AxisId>(order))) == "");
}

RC_GTEST_PROP(Ranks, ParseBackWhateverTheyAre, ()) {
    auto ranks = std::vector<int>{};
    auto seen = std::set<int>{};
    for (int piece = *rc::gen::inRange(0, 6); piece > 0; --piece) {
        const auto from = *rc::gen::inRange(0, 200);
        const auto step = *rc::gen::element(-7, -1, 1, 1, 2, 8);
        const auto count = *rc::gen::inRange(1, 9);
        for (int i = 0; i < count; ++i)
            if (from + i * step >= 0 && seen.insert(from + i * step).second) ranks.push_back(from + i * step);
    }
    RC_ASSERT(parse_ranks(ranks_to_string(ranks)) == ranks);
}

TEST(Ranks, AreWrittenAsRunsAndSteps) {
    const auto written = [](const std::vector<int>& ranks) { return ranks_to_string(ranks); };
    EXPECT_EQ(written({}), "{}");
    EXPECT_EQ(written({7}), "{7}");
    EXPECT_EQ(written({0, 1}), "{0, 1}");
    EXPECT_EQ(written({0, 1, 2}), "{0..2}");
    EXPECT_EQ(written({0, 1, 2, 8, 9, 10}), "{0..2, 8..10}");
    EXPECT_EQ(written({0, 8, 16, 24}), "{0, 8, 16, 24}");
    EXPECT_EQ(written({0, 8, 16, 24, 32}), "{0, 8, ..., 32}");
    EXPECT_EQ(written({4, 3, 2, 1, 0}), "{4, 3, ..., 0}");
    EXPECT_EQ(written({5, 5, 5, 5, 5}), "{5, 5, 5, 5, 5}");
}

}  // namespace
}  // namespace rankmesh::tests
