// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/hyper_comm_grid.hpp>
#include <rankmesh/dialect/megatron/rank_generator.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"

namespace of_megatron {

using namespace rankmesh;
using dialect::Refusal;
using megatron::Grid;
using megatron::HyperCommGrid;
using megatron::RankGenerator;

namespace {

using Lists = std::vector<std::vector<int>>;

Lists lists(const auto& groups) {
    auto all = Lists{};
    for (const auto& group : groups) all.push_back(laws::list(group));
    return all;
}

}  // namespace

TEST(Megatron, TheFirstTokenOfAnOrderIsFastestAndTokensOfAGroupHaveNone) {
    for (const std::string order : {"tp-cp-ep-dp-pp", "pp-dp-tp", "dp-tp-gtp_remat-pp-cp", "PP-TP-DP"}) {
        const auto generator = RankGenerator({.tp = 2, .dp = 3, .pp = 2, .order = order, .rank_offset = 4});
        SCOPED_TRACE(generator.order());
        const auto names = megatron::tokens(generator.order());
        for (const std::string token : {"tp", "dp", "pp", "cp", "tp-pp", "dp-cp", "dp-tp-pp"}) {
            // Ranks that are the same in every axis outside the token form a group.
            auto expected = std::map<std::vector<int>, std::vector<int>>{};
            for (int rank = 0; rank < 12; ++rank) {
                auto rest = rank;
                auto outside = std::vector<int>{};
                for (std::size_t i = 0; i < names.size(); ++i) {
                    const auto size = generator.ordered_size()[i];
                    if (("-" + token + "-").find("-" + names[i] + "-") == std::string::npos)
                        outside.insert(outside.begin(), rest % size);
                    rest /= size;
                }
                expected[outside].push_back(rank + 4);
            }
            auto sorted = Lists{};
            for (const auto& [key, ranks] : expected) sorted.push_back(ranks);
            EXPECT_EQ(lists(generator.get_ranks(token)), sorted) << token;
        }
        EXPECT_EQ(lists(generator.get_ranks("tp-pp")), lists(generator.get_ranks("pp-tp")));
        EXPECT_EQ(lists(generator.get_ranks("tp-tp")), lists(generator.get_ranks("tp")));
    }
}

TEST(Megatron, AnOrderThatDoesNotSayWhereAnAxisIsIsAnError) {
    using Arguments = RankGenerator::Arguments;
    const auto said = [](const Arguments& arguments) {
        return laws::text_of<dialect::Error>([&] { RankGenerator(arguments).get_ranks("dp"); });
    };
    EXPECT_EQ(said({.tp = 2, .cp = 2, .order = "tp-dp-pp"}),
              "The size of (cp) is (2), but you haven'tspecified the order (tp-dp-pp).");
    // The original looks for the letters "tp", finds them in gtp_remat, and fails at the first group.
    EXPECT_EQ(said({.tp = 2, .order = "gtp_remat-dp-pp"}),
              "The size of (tp) is (2), but you haven'tspecified the order (gtp_remat-dp-pp).");
    EXPECT_EQ(said({.order = "tp--dp"}),
              "the order (tp--dp) names ''; the axes are tp, pp, dp, ep, cp and gtp_remat");
    EXPECT_EQ(said({.ep = 2, .cp = 2}),
              "Both EP and CP > 1 in not allow in one rank generator. CP is only included in default "
              "RankGenerator, and EP only in expert RankGenerator.");
    EXPECT_EQ(laws::text_of<Refusal>([] { RankGenerator({.dp = -2}); }),
              "a size of -2 was given for dp; every size is 1 or more");
    EXPECT_EQ(laws::text_of<Refusal>([] { RankGenerator({.rank_offset = -1}); }),
              "a rank offset of -1 was given; it is 0 or more");
    EXPECT_EQ(laws::text_of<Refusal>([] { RankGenerator({.dp = 2, .order = "dp-tp-dp"}); }),
              "the order (dp-tp-dp) lists dp twice; list it once");
    EXPECT_EQ(RankGenerator({.dp = 2, .order = "tp-dp-tp"}).world_size(), 2) << "a size of 1 may stand twice";
    EXPECT_EQ(laws::text_of<dialect::Error>([] { RankGenerator({.dp = 2}).get_ranks("dp-zz"); }),
              "'zz' is not in the order tp-cp-ep-dp-pp-gtp_remat");
}

TEST(MegatronGrid, TheFirstDimensionIsFastestAndKeysGoTheOtherWay) {
    const auto grid = Grid({2, 3, 4}, {"tp", "cp", "dp"}, 30, 5);
    EXPECT_EQ(lists(grid.get_rank_enum("tp"))[0], (std::vector<int>{5, 6}));
    EXPECT_EQ(lists(grid.get_rank_enum("dp"))[1], (std::vector<int>{6, 12, 18, 24}));
    EXPECT_EQ(lists(grid.get_rank_enum({"tp", "dp"})), lists(grid.get_rank_enum({"dp", "tp"})));
    EXPECT_EQ(lists(grid.get_rank_enum({"tp", "dp"})), lists(grid.gen_rank_enum({"dp", "tp"})));
    EXPECT_EQ(lists(grid.gen_rank_enum({"tp", "cp"}))[0], (std::vector<int>{5, 7, 9, 6, 8, 10}));
    for (const auto& group : grid.get_rank_enum({"tp", "dp"}))
        for (auto rank : group) EXPECT_EQ(grid.group(rank, {"dp", "tp"}), group);
    EXPECT_THROW(grid.group(4, "tp"), UsageError) << "outside the grid";
    EXPECT_EQ(to_string(grid.key({"tp", "dp"})), "dp-tp");
    EXPECT_EQ(grid.get_rank_enum(std::vector<std::string>{}).size(), 24) << "without dimensions, each alone";
    EXPECT_TRUE(grid.is_rank_in_grid(28));
    EXPECT_FALSE(grid.is_rank_in_grid(29));
    EXPECT_EQ(Grid({}, {}, 8, 3).get_rank_enum(std::vector<std::string>{})[0].front(), 3);
}

TEST(MegatronGrid, WhatMakesNoSenseIsAnErrorAndChangesNothing) {
    const auto said = [](const auto& body) { return laws::text_of<dialect::Error>(body); };
    EXPECT_EQ(said([] { Grid({2, 2}, {"tp"}, 8); }), "len(shape) [2, 2] != len(dim_names) ['tp']");
    EXPECT_EQ(said([] {
                  Grid({2, 4}, {"tp", "dp"}, 8, 4);
              }),
              "Grid shape [2, 4] is over sized with world size 8 and rank offset 4");
    EXPECT_EQ(said([] { Grid({2}, {"tp"}, 8, -1); }), "rank_offset must be non-negative, got -1");
    EXPECT_EQ(laws::text_of<Refusal>([] {
                  Grid({2, 0}, {"tp", "dp"}, 8);
              }),
              "the grid shape [2, 0] has a size of 0; every size is 1 or more");
    EXPECT_EQ(laws::text_of<Refusal>([] {
                  Grid({2, 2}, {"tp", "tp"}, 8);
              }),
              "the grid has duplicate dim_names: ['tp', 'tp']; list each once");

    auto grid = Grid({2, 2, 2}, {"tp", "cp", "dp"}, 8);
    EXPECT_EQ(
        said([&] {
            grid.register_view("expert", {2, 4}, {"ep", "dp"}, {"dp"});
        }),
        "Shared dim 'dp' has different membership across views: base enumeration [[0, 4], [1, 5], [2, 6], "
        "[3, 7]] != view 'expert' enumeration [[0, 2, 4, 6], [1, 3, 5, 7]]");
    EXPECT_EQ(said([&] {
                  grid.register_view("expert", {4, 2}, {"ep", "dp"}, {"ep"});
              }),
              "Shared dim 'ep' of view 'expert' is not in the base view ['tp', 'cp', 'dp']");
    EXPECT_EQ(said([&] {
                  grid.register_view("expert", {4, 2}, {"ep", "dp"}, {"cp"});
              }),
              "Shared dim 'cp' of view 'expert' is not in the view's dim_names ['ep', 'dp']");
    EXPECT_EQ(said([&] {
                  grid.register_view("expert", {4, 2}, {"ep", "dp"}, {"dp", "dp"});
              }),
              "View 'expert' has duplicate shared_dims: ['dp', 'dp']");
    EXPECT_EQ(grid.views(), std::vector<std::string>{"base"});
    grid.register_view("expert", {4, 2}, {"ep", "dp"}, {"dp"});
    EXPECT_EQ(said([&] { grid.get_rank_enum("tp", "expert"); }),
              "'tp' is not in view 'expert' with dim_names ['ep', 'dp']");
    EXPECT_EQ(said([&] {
                  grid.get_rank_enum({"tp", "tp"});
              }),
              "the dimensions ['tp', 'tp'] repeat; name each once");
    grid.create_pg("dp", "expert");
    EXPECT_EQ(lists(grid.get_pg("dp")), lists(grid.get_rank_enum("dp"))) << "shared: the grid's own";
    EXPECT_THROW(grid.create_pg("dp"), dialect::Error);
    EXPECT_EQ(grid.keys().size(), 1U);
    grid.destroy();
    EXPECT_EQ(said([&] { grid.get_pg("dp"); }),
              "Process group for dp hasn't been created. Call create_pg first.");
}

TEST(MegatronGrid, EveryGroupIsLiveAndOnlyInsideTheGrid) {
    threads::run(10, [](World& world) {
        auto grid = Grid({2, 2, 2}, {"tp", "cp", "dp"}, world.size(), 1);
        grid.register_view("expert", {4, 2}, {"ep", "dp"}, {"dp"});
        auto me = world.join(plan(grid, {{{"dp", "cp"}}, {{"ep", "dp"}, "expert"}}));
        auto live = HyperCommGrid(me, grid);
        EXPECT_EQ(laws::text_of<dialect::Error>([&] { live.get_pg("tp"); }),
                  "Process group for tp hasn't been created. Call create_pg first.");
        const auto check = [&](const megatron::Dims& dims, std::optional<std::string_view> view) {
            auto group = live.create_pg(dims, view);
            EXPECT_EQ(group.has_value(), live.is_current_rank_in_grid());
            if (!group) {
                EXPECT_EQ(
                    laws::text_of<dialect::Error>([&] { live.get_pg(dims, view); }),
                    "rank " + std::to_string(me.rank()) + " is outside the grid, which covers ranks 1..8");
                return;
            }
            for (const auto& ranks : grid.get_rank_enum(dims, view))
                if (ranks.contains(me.rank()))
                    laws::expect_live(*group, laws::list(ranks), me.rank(), to_string(live.key(dims, view)));
            EXPECT_EQ(live.get_pg(dims, view).world_ranks(), group->world_ranks());
        };
        check("tp", {});
        check("cp", {});
        check({"cp", "dp"}, {});
        check("dp", "expert");
        check("ep", "expert");
        check({"ep", "dp"}, "expert");
        if (live.is_current_rank_in_grid()) {
            EXPECT_EQ(
                laws::text_of<UsageError>([&] {
                    live.create_pg({"tp", "cp"});
                }),
                "'cp,tp' of mesh dp=2 cp=2 tp=2 @1 was not declared; add .over = {{\"cp\", \"tp\"}} to the "
                "declaration; or join with megatron::plan(grid, groups), which has it");
        }
        EXPECT_EQ(live.keys().size(), 6U);
    });
}

}  // namespace of_megatron
