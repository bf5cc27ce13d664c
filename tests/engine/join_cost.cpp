// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/join_cost.hpp>

#include <gtest/gtest.h>

#include <rankmesh/engine/threads.hpp>

#include "costly_plans.hpp"

using namespace rankmesh;

namespace {

std::string error_of(const Plan& plan, int world, int rank) {
    try {
        join_cost(plan, world, rank);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST(JoinCost, CountsTheChannelsThatAJoinMakesOnEveryRank) {
    for (const auto& [size, plan] : costly_plans())
        threads::run(size, [&, &declared = plan](World& world) {
            const auto me = world.join(declared);
            EXPECT_EQ(join_cost(declared, world.size(), world.rank()).communicators, me.channel_count())
                << "rank " << world.rank() << " of " << world.size() << " in " << declared[0].mesh;
        });
}

TEST(JoinCost, GivesEqualRanksOneCommunicatorAndGroupsOfOneNone) {
    const auto cost = join_cost({{.mesh = {{"pp", 2}, {"dp", 4}, {"cp", 1}},
                                  .over = {{"dp", "cp"}, Axes("dp").separate("own")},
                                  .picks = {{.of = "dp", .at = {0, 1}, .as = "half"}}}},
                                8, 3);
    auto seen = std::vector<std::string>{};
    for (const auto& set : cost.sets)
        seen.push_back(detail::cat(set.text, " ", set.groups, " x ", set.group_size, " ",
                                   set.communicator ? std::to_string(*set.communicator) : "-"));
    EXPECT_EQ(seen, (std::vector<std::string>{"pp 4 x 2 0", "dp 2 x 4 1", "cp 8 x 1 -", "dp,cp 2 x 4 1",
                                              "own 2 x 4 2", "half 2 x 2 -"}));
    EXPECT_EQ(cost.sets[3].label, "'dp,cp' of mesh pp=2 dp=4 cp=1");
    EXPECT_EQ(cost.sets[3].axes, (std::vector<std::string>{"dp", "cp"}));
    EXPECT_EQ(cost.communicators, 3);
    EXPECT_EQ(cost.connections, 1 + 3 + 3);
    EXPECT_EQ(amount_of(cost, "nccl", "communicators"), 4);
    EXPECT_EQ(amount_of(cost, "nccl", "unique_ids"), 1);
    EXPECT_EQ(amount_of(join_cost({{.mesh = {{"dp", 1}}}}, 1, 0), "nccl", "communicators"), 0);
}

TEST(JoinCost, OfAMillionRanksIsThatOfAFew) {
    const auto plan =
        Plan{{.mesh = {{"pp", 16}, {"dp", rest}, {"cp", 2}, {"tp", 8}}, .over = {{"dp", "cp"}}}};
    for (auto size : {1 << 10, 1 << 20, 1 << 30}) {
        const auto cost = join_cost(plan, size, size - 1);
        EXPECT_EQ(cost.communicators, 5);
        EXPECT_EQ(cost.connections, 15 + (size / 256 - 1) + 1 + (size / 128 - 1) + 7);
        EXPECT_EQ(amount_of(cost, "nccl", "communicators"), 6);
        EXPECT_EQ(amount_of(cost, "nccl", "unique_ids"), size / 128);
    }
    EXPECT_EQ(amount_of(join_cost(plan, 256 * 5, 0), "nccl", "unique_ids"), 10);
    EXPECT_EQ(amount_of(join_cost({{.mesh = {{"dp", rest}}}}, 129, 0), "nccl", "unique_ids"), 2);
}

TEST(JoinCost, IsRefusedWhereItIsNotKnown) {
    EXPECT_EQ(error_of({{.mesh = {{"dp", 4}}}}, 4, 4),
              "the cost of a join was asked for rank 4; the world has ranks 0..3");
    EXPECT_EQ(error_of({{.mesh = {{"dp", 4}}}}, 0, 0), "a world of 0 ranks was asked for; it has 1 or more");
    EXPECT_EQ(error_of({{.mesh = {{"dp", 4}}}}, 8, 0),
              "mesh dp=4 covers 4 of the world's 8 ranks; make a size rankmesh::rest (in text '*'), or set "
              ".partial = true to leave "
              "ranks out");
    EXPECT_EQ(
        error_of({{.mesh = {{"dp", 4}}, .local = "node"}}, 4, 0),
        "'node' is the ranks of mesh dp=4 on one host, which only a job knows; leave .local away to ask "
        "what the others cost");
}
