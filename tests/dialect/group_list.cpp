// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/group_list.hpp>

#include <gtest/gtest.h>

#include <rankmesh/core/mesh.hpp>

#include "laws.hpp"

namespace rankmesh {

using dialect::Cut;
using dialect::GroupList;

namespace {

using Lists = std::vector<std::vector<int>>;

Lists listed(const auto& groups) {
    auto lists = Lists{};
    for (const auto& group : groups) lists.push_back(laws::list(group));
    return lists;
}

/// Member after member goes to the part that is its turn.
Lists cut_one_by_one(const Lists& groups, Cut cut) {
    auto parts = Lists{};
    for (const auto& group : groups) {
        const auto first = parts.size();
        const auto size = static_cast<std::size_t>(cut.size == 0 ? static_cast<int>(group.size()) : cut.size);
        const auto step = static_cast<std::size_t>(cut.step);
        for (std::size_t i = 0; i < group.size(); ++i) {
            if (i % (size * step) == 0) parts.resize(first + (i / (size * step) + 1) * step);
            parts[first + i / (size * step) * step + i % step].push_back(group[i]);
        }
    }
    return parts;
}

/// Every partition of meshes that have ones, odd sizes, gaps, and more ranks than are written as one block.
template <class Body>
void for_every_partition(Body&& body) {
    for (const auto* text : {"a=1", "a=12", "a=3 b=4", "a=2 b=3 c=4", "a=4:1 b=6:4", "a=2 b=1 c=6 d=2 @5",
                             "a=2:60 b=4:12 c=3:3", "a=5 b=7", "a=6 b=30 c=8", "a=16 b=4 c=32"}) {
        const auto mesh = Mesh::parse(text);
        for (std::uint32_t bits = 0; bits >> mesh.axis_count() == 0; ++bits) {
            auto axes = AxisSet{};
            auto turned = std::vector<AxisId>{};
            for (int a = 0; a < mesh.axis_count(); ++a)
                if ((bits >> a & 1U) != 0) axes.insert({a}), turned.insert(turned.begin(), AxisId{a});
            SCOPED_TRACE(std::string(text) + " along axes " + std::to_string(bits));
            body(mesh.partition(axes));
            body(mesh.partition_in_order(std::span<const AxisId>(turned)));
        }
    }
}

}  // namespace

TEST(GroupList, CutsGroupsAsDealingTheirMembersDoes) {
    for_every_partition([](const Partition& groups) {
        const auto whole = listed(groups);
        for (int size : {0, 2, 3, 4, 12, 30})
            for (int step : {1, 2, 3, 8}) {
                if (size == 0 && step != 1) continue;
                const auto cut = Cut{.size = size, .step = step};
                if (step > 1 && groups.group_size() % (size * step) != 0) {
                    EXPECT_THROW(GroupList(groups, cut), UsageError) << "cut " << size << ", " << step;
                    continue;
                }
                const auto list = GroupList(groups, cut);
                EXPECT_EQ(listed(list), cut_one_by_one(whole, cut)) << "cut " << size << ", " << step;
                for (const auto& part : list) {
                    const auto group = part.group();
                    EXPECT_EQ(group ? laws::list(*group) : laws::list(part), laws::list(part));
                }
                laws::expect_written(list, "cut");
            }
    });
}

TEST(GroupList, APartIsAGroupInClosedFormWhereStridesGiveIt) {
    const auto parts = [](const Mesh& mesh, Cut cut) { return GroupList(mesh.partition("a", "c"), cut); };
    const auto even = Mesh{{"b", 2}, {"a", 3}, {"c", 4}};
    EXPECT_EQ(to_string(parts(even, {.size = 2, .step = 3})[1].group().value()), "{1, 4}");
    const auto uneven = Mesh{{"a", 3}, {"b", 2}, {"c", 4}};
    EXPECT_EQ(to_string(parts(uneven, {})[1].group().value()), "{4..7, 12..15, 20..23}");
    EXPECT_FALSE(parts(uneven, {.size = 6})[1].group());
}

TEST(GroupList, PicksOfEveryGroupTheSame) {
    for_every_partition([](const Partition& groups) {
        for (const auto& picked : {std::vector{0}, std::vector{-1}, std::vector{0, -1}}) {
            const auto list = GroupList(groups, picked);
            ASSERT_EQ(list.size(), groups.size());
            for (int i = 0; i < list.size(); ++i)
                EXPECT_EQ(laws::list(list[i]), laws::list(groups[i].pick(picked)));
            laws::expect_written(list, "pick");
        }
    });
}

TEST(GroupList, RefusesACutThatIsNone) {
    const auto groups = Mesh{{"dp", 5}}.partition("dp");
    EXPECT_EQ(laws::text_of<UsageError>([&] { GroupList(groups, Cut{.size = 2, .step = 2}); }),
              "groups of 5 cannot be cut into parts of 2 members 2 apart; both must be 1 or more, and their "
              "product divide the group where the step is above 1");
    EXPECT_THROW(GroupList(groups, Cut{.size = 1, .step = 0}), UsageError);
    EXPECT_THROW(GroupList(groups, Cut{.size = -1}), UsageError);
}

TEST(GroupList, SaysWhatABufferMustHold) {
    const auto list = GroupList(Mesh{{"dp", 4}, {"tp", 2}}.partition("dp"), Cut{.size = 2});
    auto out = std::vector<int>(7);
    EXPECT_EQ(laws::text_of<UsageError>([&] { list.copy_to(out); }),
              "the 8 ranks of 4 groups were asked for in a buffer of 7");
}

}  // namespace rankmesh
