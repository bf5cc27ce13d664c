// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/group_part.hpp>

#include <gtest/gtest.h>

#include <rankmesh/core/mesh.hpp>

#include "laws.hpp"

namespace rankmesh {

using frameworks::GroupPart;

TEST(GroupPart, HasTheMembersAtEvenDistances) {
    for (const auto* text : {"a=12", "a=3 b=4 c=2", "a=2 b=3 c=4", "a=2 b=1 c=6 @5", "a=2:60 b=4:12 c=3:3"}) {
        const auto mesh = Mesh::parse(text);
        const auto whole = mesh.axis_count() == 1 ? mesh.ranks() : mesh.group(mesh.offset(), "a", "c");
        for (int first = 0; first < whole.size(); ++first)
            for (int step : {1, 2, 3, 5}) {
                const auto size = (whole.size() - first + step - 1) / step;
                const auto part = GroupPart(whole, first, step, size);
                auto expected = std::vector<int>{};
                for (int i = first; i < whole.size(); i += step) expected.push_back(whole[i]);
                EXPECT_EQ(laws::list(part), expected) << text << ", " << first << ", " << step;
                for (int i = 0; i < size; ++i) EXPECT_EQ(part.group_rank(part[i]), i);
                for (const auto rank : whole)
                    EXPECT_EQ(part.contains(rank), std::ranges::find(expected, rank) != expected.end());
                const auto closed = part.group();
                EXPECT_EQ(closed ? laws::list(*closed) : expected, expected);
            }
    }
}

TEST(GroupPart, IsAGroupInClosedFormWhereStridesGiveIt) {
    const auto even = Mesh{{"b", 2}, {"a", 3}, {"c", 4}}.group(0, "a", "c");
    EXPECT_EQ(to_string(GroupPart(even, 1, 3, 2).group().value()), "{1, 4}");
    const auto uneven = Mesh{{"a", 3}, {"b", 2}, {"c", 4}}.group(4, "a", "c");
    EXPECT_EQ(to_string(GroupPart(uneven, 0, 1, 12).group().value()), "{4..7, 12..15, 20..23}");
    EXPECT_FALSE(GroupPart(uneven, 6, 1, 6).group());
}

}  // namespace rankmesh
