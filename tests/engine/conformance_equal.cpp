// SPDX-License-Identifier: Apache-2.0
// Which ranks of a group have other elements.
#include <gtest/gtest.h>

#include <cmath>

#include <rankmesh/engine/equal.hpp>

#include "conformance.hpp"

using namespace rankmesh;

TEST(Conformance, Unequal_OfOneRankThatDrifted_IsThatRank) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (int odd = 0; odd < on.size(); ++odd)
            for (const auto at : {0, 999}) {
                auto weights = std::vector<float>(1000, 0.1F);
                EXPECT_EQ(unequal(on, std::span(weights)), std::vector<int>{});
                auto& one = weights[static_cast<std::size_t>(at)];
                if (on.rank() == odd) one = std::nextafter(one, 1.0F);
                // Of two ranks neither is in the majority: the lowest has the usual elements.
                const auto expected = on.size() > 2 ? odd : on.size() - 1;
                const auto found = unequal(on, std::span(weights));
                EXPECT_EQ(found, on.size() > 1 ? std::vector{expected} : std::vector<int>{}) << odd;
            }
    });
}

TEST(Conformance, Unequal_OfOtherLengthsAndTypes_IsTheRankThatHasThem) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (on.size() < 3) return;
        const auto zeros = std::vector<std::int32_t>(on.rank() == 1 ? 3 : 2);
        EXPECT_EQ(unequal(on, std::span(zeros)), std::vector{1});
        const auto zero = std::uint32_t{0};
        const auto same = std::int32_t{0};
        EXPECT_EQ(on.rank() == 2 ? unequal(on, std::span(&zero, 1)) : unequal(on, std::span(&same, 1)),
                  std::vector{2});
        EXPECT_EQ(unequal(on, std::span<const double>()), std::vector<int>{});
    });
}
