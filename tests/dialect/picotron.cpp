// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"

namespace of_picotron {

using namespace rankmesh;
using picotron::ProcessGroupManager;
using picotron::RankInfo;
using picotron::Sizes;

namespace {

const auto many_sizes = std::vector<Sizes>{{},
                                           {.tp = 5},
                                           {.tp = 2, .cp = 2, .pp = 2, .dp = 2},
                                           {.tp = 3, .cp = 1, .pp = 4, .dp = 2},
                                           {.cp = 6, .dp = 5},
                                           {.pp = 7}};

int world_of(const Sizes& sizes) { return sizes.tp * sizes.cp * sizes.pp * sizes.dp; }

}  // namespace

TEST(Picotron, EveryRankHasItsPlaceInEveryGroupAndKnowsItsEnds) {
    for (const auto& sizes : many_sizes)
        for (int rank = 0; rank < world_of(sizes); ++rank) {
            const auto p = RankInfo(sizes, rank, world_of(sizes));
            SCOPED_TRACE(p.str());
            EXPECT_EQ(p.tp_group_ids[p.tp_rank], rank);
            EXPECT_EQ(p.cp_group_ids[p.cp_rank], rank);
            EXPECT_EQ(p.pp_group_ids[p.pp_rank], rank);
            EXPECT_EQ(p.dp_group_ids[p.dp_rank], rank);
            EXPECT_EQ(p.cp_dp_group_ids[p.dp_rank * sizes.cp + p.cp_rank], rank) << "dp-major";
            EXPECT_EQ(p.pp_dp_group_ids[p.dp_rank * sizes.pp + p.pp_rank], rank) << "dp-major";
            EXPECT_EQ(p.tp_first_rank, p.tp_group_ids.front());
            EXPECT_EQ(p.dp_last_rank, p.dp_group_ids.back());
            EXPECT_EQ(p.pp_is_first_stage, p.pp_first_rank == rank);
            EXPECT_EQ(p.pp_is_last_stage, p.pp_last_rank == rank);
            // Whom one sends to receives from one.
            EXPECT_EQ(RankInfo(sizes, p.cp_send_rank, world_of(sizes)).cp_recv_rank, rank);
            if (p.pp_next_rank) {
                EXPECT_EQ(RankInfo(sizes, *p.pp_next_rank, world_of(sizes)).pp_prev_rank, rank);
            }
            EXPECT_EQ(p.pp_next_rank.has_value(), !p.pp_is_last_stage);
        }
}

TEST(Picotron, EveryGroupIsLive) {
    for (const auto& sizes : many_sizes)
        threads::run(world_of(sizes), [&](World& world) {
            auto me = world.join(picotron::plan(sizes));
            auto pgm = ProcessGroupManager(me, sizes);
            laws::expect_live(pgm.tp_group, laws::list(pgm.tp_group_ids), me.rank(), "tp");
            laws::expect_live(pgm.cp_group, laws::list(pgm.cp_group_ids), me.rank(), "cp");
            laws::expect_live(pgm.pp_group, laws::list(pgm.pp_group_ids), me.rank(), "pp");
            laws::expect_live(pgm.dp_group, laws::list(pgm.dp_group_ids), me.rank(), "dp");
            laws::expect_live(pgm.cp_dp_group, laws::list(pgm.cp_dp_group_ids), me.rank(), "cp_dp");
            laws::expect_live(pgm.pp_dp_group, laws::list(pgm.pp_dp_group_ids), me.rank(), "pp_dp");
            auto again = picotron::setup_process_group_manager(me, sizes.tp, sizes.cp, sizes.pp, sizes.dp);
            EXPECT_EQ(again.str(), pgm.str());
        });
}

TEST(Picotron, SizesThatDoNotFitAndMembersThatLackAGroupAreRefused) {
    EXPECT_EQ(laws::text_of<dialect::Error>([] { RankInfo({.tp = 2, .cp = 2, .pp = 2, .dp = 2}, 0, 8); }),
              "World size (8) != TP (2) * CP (2) * PP (2) * DP (2)");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { RankInfo({.tp = -2, .cp = -4}, 0, 8); }),
              "a size of -4 was given; every size is 1 or more");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { RankInfo({.tp = 2}, 2, 2); }),
              "rank 2 of a world of 2; ranks are 0..1");
    threads::run(4, [](World& world) {
        auto bare = world.join({{"dp", 2}, {"pp", 1}, {"cp", 2}, {"tp", 1}});
        EXPECT_EQ(
            laws::text_of<UsageError>([&] { ProcessGroupManager(bare, {.cp = 2, .dp = 2}); }),
            "'cp,dp' of mesh dp=2 pp=1 cp=2 tp=1 was not declared; add .over = {{\"cp\", \"dp\"}} to the "
            "declaration; or join with picotron::plan(sizes), which has it");
        EXPECT_EQ(laws::text_of<UsageError>([&] { ProcessGroupManager(bare, {.tp = 2, .dp = 2}); }),
                  "the member was joined with mesh dp=2 pp=1 cp=2 tp=1, not dp=2 pp=1 cp=1 tp=2; join with "
                  "picotron::plan(sizes)");
    });
}

}  // namespace of_picotron
