// SPDX-License-Identifier: Apache-2.0
#include "engine/engines.hpp"

#include <gtest/gtest.h>

#include <set>

#include "costly_plans.hpp"

using namespace rankmesh;

namespace {

/// True if making a world of that engine says how to build it.
bool says_how_to_build_it(const detail::Engine& engine) {
    try {
        engine.create(0, nullptr, {});
    } catch (const NotBuilt& error) {
        return std::string_view(error.what()).find("-DRANKMESH_") != std::string_view::npos;
    }
    return false;
}

}  // namespace

TEST(Engines, HaveANameOfTheirOwnAndAreBuiltOrSayHowTheyAre) {
    auto names = std::set<std::string_view>{};
    auto built = std::vector<std::string>{};
    for (const auto& engine : detail::engines()) {
        EXPECT_TRUE(names.insert(engine.name).second) << engine.name;
        if (engine.is_built()) {
            built.emplace_back(engine.name);
        } else if (engine.create) {
            EXPECT_TRUE(says_how_to_build_it(engine)) << engine.name;
        }
    }
    auto listed = std::vector<std::string>{};
    for (const auto& engine : built_engines()) listed.push_back(engine.name);
    EXPECT_EQ(listed, built);
    EXPECT_EQ(listed.front(), "threads");
}

TEST(Engines, OneNeedsNoLauncherAndNoneIsChosenThatWasNotBuilt) {
    EXPECT_FALSE(detail::engines().front().started);
    EXPECT_TRUE(detail::engines().front().is_built());
    for (const auto& engine : detail::engines())
        EXPECT_TRUE(!engine.started || engine.is_built() || !engine.started()) << engine.name;
}

TEST(Engines, SayWhatAJoinTakesInTheirOrderAndInTheirName) {
    for (const auto& [size, plan] : costly_plans()) {
        const auto cost = join_cost(plan, size, 0);
        const auto needs = needs_of(cost);
        auto next = needs.begin();
        for (const auto& engine : detail::engines()) {
            if (!engine.need) continue;
            ASSERT_NE(next, needs.end());
            EXPECT_EQ(next->engine, engine.name);
            EXPECT_FALSE(next->text.empty());
            for (const auto& amount : next->amounts)
                EXPECT_LE(amount.outside.value_or(0), amount.count.value_or(1 << 30)) << amount.of;
            ++next;
        }
        EXPECT_EQ(next, needs.end());
        EXPECT_EQ(amount_of(cost, "gloo", "connections"), cost.connections);
        EXPECT_EQ(amount_of(cost, "mpi", "communicators"), cost.communicators);
        EXPECT_EQ(amount_of(cost, "nccl", "communicators"), cost.communicators + (cost.joins ? 1 : 0));
        EXPECT_TRUE(cost.joins || cost.communicators == 0);
    }
}
