// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/picotron.hpp>

#include "frameworks/laws.hpp"

namespace of_picotron {

using namespace rankmesh;
using picotron::ProcessGroupManager;
using picotron::Settings;
using picotron::State;

namespace {

const auto many = std::vector<Settings>{{},
                                        {.tp_size = 5},
                                        {.tp_size = 2, .cp_size = 2, .pp_size = 2, .dp_size = 2},
                                        {.tp_size = 3, .cp_size = 1, .pp_size = 4, .dp_size = 2},
                                        {.cp_size = 6, .dp_size = 5},
                                        {.pp_size = 7}};

int world_of(const Settings& sizes) { return sizes.tp_size * sizes.cp_size * sizes.pp_size * sizes.dp_size; }

}  // namespace

TEST(Picotron, EveryRankHasItsPlaceInEveryGroupAndKnowsItsEnds) {
    for (const auto& sizes : many)
        for (int rank = 0; rank < world_of(sizes); ++rank) {
            const auto p = State(sizes, rank, world_of(sizes));
            SCOPED_TRACE(p.str());
            EXPECT_EQ(p.tp_group_ids()[p.tp_rank()], rank);
            EXPECT_EQ(p.cp_group_ids()[p.cp_rank()], rank);
            EXPECT_EQ(p.pp_group_ids()[p.pp_rank()], rank);
            EXPECT_EQ(p.dp_group_ids()[p.dp_rank()], rank);
            EXPECT_EQ(p.cp_dp_group_ids()[p.dp_rank() * sizes.cp_size + p.cp_rank()], rank) << "dp-major";
            EXPECT_EQ(p.pp_dp_group()[p.dp_rank() * sizes.pp_size + p.pp_rank()], rank) << "dp-major";
            EXPECT_EQ(p.tp_first_rank(), p.tp_group_ids().front());
            EXPECT_EQ(p.dp_last_rank(), p.dp_group_ids().back());
            EXPECT_EQ(p.pp_is_first_stage(), p.pp_first_rank() == rank);
            EXPECT_EQ(p.pp_is_last_stage(), p.pp_last_rank() == rank);
            // Whom one sends to receives from one.
            EXPECT_EQ(State(sizes, p.cp_send_rank(), world_of(sizes)).cp_recv_rank(), rank);
            if (p.pp_next_rank()) {
                EXPECT_EQ(State(sizes, *p.pp_next_rank(), world_of(sizes)).pp_prev_rank(), rank);
            }
            EXPECT_EQ(p.pp_next_rank().has_value(), !p.pp_is_last_stage());
            EXPECT_EQ(p.cp_dp_world_size(), sizes.cp_size * sizes.dp_size);
            EXPECT_EQ((std::pair{p.global_rank(), p.world_size()}), (std::pair{rank, world_of(sizes)}));
        }
}

TEST(Picotron, EveryGroupIsLive) {
    for (const auto& sizes : many)
        threads::run(world_of(sizes), [&](World& world) {
            auto me = world.join(picotron::plan(sizes, world.size()));
            auto pgm = ProcessGroupManager(me, sizes);
            const State& pure = pgm;
            laws::expect_live(pgm.tp_group(), laws::list(pgm.tp_group_ids()), me.rank(), "tp");
            laws::expect_live(pgm.cp_group(), laws::list(pgm.cp_group_ids()), me.rank(), "cp");
            laws::expect_live(pgm.pp_group(), laws::list(pgm.pp_group_ids()), me.rank(), "pp");
            laws::expect_live(pgm.dp_group(), laws::list(pgm.dp_group_ids()), me.rank(), "dp");
            laws::expect_live(pgm.cp_dp_group(), laws::list(pgm.cp_dp_group_ids()), me.rank(), "cp_dp");
            laws::expect_live(pgm.pp_dp_group(), laws::list(pure.pp_dp_group()), me.rank(), "pp_dp");
            laws::expect_live(pgm.world_group(), laws::list(pure.world_group()), me.rank(), "world");
            EXPECT_EQ(picotron::setup_process_group_manager(me, sizes).str(), pgm.str());
        });
}

TEST(Picotron, TheLocalRankIsThatOfTheEnvironmentElseTheRank) {
    const auto state = State({.dp_size = 4}, 2, 4);
    unsetenv("LOCAL_RANK");
    EXPECT_EQ(state.local_rank(), 2);
    setenv("LOCAL_RANK", "1", 1);
    EXPECT_EQ(state.local_rank(), 1);
    unsetenv("LOCAL_RANK");
}

TEST(Picotron, SettingsThatDoNotFitAndMembersThatLackAGroupAreRefused) {
    const auto text = [](const Settings& sizes, int rank, int world) {
        return laws::text_of<frameworks::Error>([&] { State(sizes, rank, world); });
    };
    EXPECT_EQ(text({.tp_size = 2, .cp_size = 2, .pp_size = 2, .dp_size = 2}, 0, 8),
              "World size (8) != TP (2) * CP (2) * PP (2) * DP (2)");
    EXPECT_EQ(text({.tp_size = -2, .cp_size = -4}, 0, 8), "tp_size is -2; every size is 1 or more");
    EXPECT_EQ(text({.tp_size = 2}, 2, 2), "rank 2 of a world of 2; ranks are 0..1");
    threads::run(4, [](World& world) {
        const auto sizes = Settings{.cp_size = 2, .dp_size = 2};
        auto bare = world.join({{"dp", 2}, {"pp", 1}, {"cp", 2}, {"tp", 1}});
        const auto lacks = laws::text_of<UsageError>([&] { ProcessGroupManager(bare, sizes); });
        EXPECT_TRUE(lacks.ends_with("; or join with picotron::plan(settings, world_size), which has it"))
            << lacks;
        auto other = world.join(picotron::plan({.tp_size = 2, .dp_size = 2}, 4));
        const auto differs = laws::text_of<UsageError>([&] { ProcessGroupManager(other, sizes); });
        EXPECT_TRUE(differs.starts_with("the member was joined with mesh ") &&
                    differs.ends_with("; join with picotron::plan(settings, world_size)"))
            << differs;
    });
}

}  // namespace of_picotron
