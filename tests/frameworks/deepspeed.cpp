// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/deepspeed.hpp>
#include <rankmesh/frameworks/deepspeed_groups.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/topology.hpp>

#include "frameworks/laws.hpp"

namespace of_deepspeed {

using namespace rankmesh;
using namespace rankmesh::deepspeed;

namespace {

const auto many_topologies = std::vector<ProcessTopology>{{{"pipe", "data"}, {1, 1}},
                                                          {{"pipe", "data", "model"}, {2, 2, 2}},
                                                          {{"data", "pipe", "model"}, {3, 2, 1}},
                                                          {{"pipe", "data"}, {3, 4}},
                                                          {{"data", "pipe"}, {2, 5}},
                                                          {{"pipe", "data", "expert", "model"}, {2, 3, 1, 2}},
                                                          default_topology(6)};

Settings of(const ProcessTopology& topology) { return {.axes = topology.axes(), .dims = topology.dims()}; }

}  // namespace

TEST(DeepSpeed, EveryRankHasItsPlaceInEveryGroupOfTheGrid) {
    for (const auto& topo : many_topologies) {
        SCOPED_TRACE(to_string(topo.mesh()));
        const auto world = topo.world_size();
        const auto all = groups(of(topo), world);
        EXPECT_EQ(all.kinds(), (std::vector<std::string>{"ds_model_proc_group", "dp_proc_group",
                                                         "pp_proc_group", "slice_proc_group"}));
        auto made = std::set<std::vector<int>>{};
        for (const auto& kind : all.kinds()) {
            auto listed = std::vector<std::vector<int>>{};
            for (int i = 0; i < all.count(kind); ++i) listed.push_back(laws::list(all.group(kind, i)));
            laws::expect_partition(listed, world, kind.c_str());
            made.insert(listed.begin(), listed.end());
        }
        for (int rank = 0; rank < world; ++rank) {
            const auto p = State(of(topo), rank, world);
            EXPECT_EQ(p.pp_proc_group()[p.get_pipe_parallel_rank()], rank);
            EXPECT_EQ(p.dp_proc_group()[p.get_data_parallel_rank()], rank);
            EXPECT_EQ(p.slice_proc_group()[p.get_slice_parallel_rank()], rank);
            EXPECT_EQ(p.ds_model_proc_group()[p.get_model_parallel_rank()], rank);
            EXPECT_EQ(p.pp_proc_group().size(), p.get_pipeline_model_parallel_world_size());
            EXPECT_EQ(p.dp_proc_group().size(), p.get_data_parallel_world_size());
            EXPECT_EQ(p.slice_proc_group().size(), p.get_slice_parallel_world_size());
            EXPECT_EQ(p.ds_model_proc_group().size() * p.data_parallel_size(), world);
            EXPECT_EQ(p.ds_model_world_size() * p.data_parallel_size(), world);
            for (const auto& group :
                 {p.ds_model_proc_group(), p.dp_proc_group(), p.pp_proc_group(), p.slice_proc_group()})
                EXPECT_TRUE(made.contains(laws::list(group)));
            EXPECT_EQ(p.pp_group(), laws::list(p.pp_proc_group()));
            EXPECT_EQ(p.get_data_parallel_group_ranks(), laws::list(p.dp_proc_group()));
            for (int stage = 0; stage < p.pipe_parallel_size(); ++stage)
                EXPECT_EQ(p.stage_to_global(stage), p.pp_proc_group()[stage]);
            const auto next = (p.stage_id() + 1) % p.pipe_parallel_size();
            EXPECT_EQ(p.p2p_groups(rank), (std::vector{rank, p.stage_to_global(next)}));
            EXPECT_EQ(p.is_first_stage(), p.pp_proc_group().front() == rank);
            EXPECT_EQ(p.is_last_stage(), p.pp_proc_group().back() == rank);
        }
    }
}

TEST(DeepSpeed, AGridSaysWhatIsWrong) {
    const auto topo = PipeDataParallelTopology(2, 2);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { State(of(topo), 0, 8); }), "Invalid Grid");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { State(of(topo), 4, 4); }),
              "rank 4 of a world of 4; ranks are 0..3");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] {
                  State({.axes = {"a", "data"}, .dims = std::vector{2, 2}}, 0, 4);
              }),
              "the topology a=2 data=2 has no axis 'pipe'; a grid needs pipe and data");
    EXPECT_EQ(topo.stage_to_global(3, 0, {{"data", 0}}), 0);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { State(of(topo), 3, 4).stage_to_global(2); }),
              "key {'pipe': 2, 'data': 1} invalid, mapping: pipe=2 data=2");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  topo.stage_to_global(3, 0, {{"jeff", 1}});
              }),
              "Got unexpected field names: ['jeff']");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  topo.stage_to_global(3, 0, {{"pipe", 1}});
              }),
              "stage_to_global() got multiple values for keyword argument 'pipe'");
}

TEST(DeepSpeed, EveryGroupOfTheGridIsLive) {
    for (const auto& topo : many_topologies)
        threads::run(topo.world_size(), [&](World& world) {
            auto me = world.join(plan(of(topo), world.size()));
            auto grid = PipelineParallelGrid(me, of(topo));
            const State& pure = grid;
            const auto live = [&](Communicator& on, const auto& group, const char* what) {
                laws::expect_live(on, laws::list(group), me.rank(), what);
            };
            live(grid.get_model_parallel_group(), pure.ds_model_proc_group(), "model");
            live(grid.get_data_parallel_group(), pure.dp_proc_group(), "data");
            live(grid.get_pipe_parallel_group(), pure.pp_proc_group(), "pipe");
            live(grid.get_slice_parallel_group(), pure.slice_proc_group(), "slice");
        });
    threads::run(6, [](World& world) {
        auto me = world.join(plan(Settings{}, 6));
        EXPECT_EQ(PipelineParallelGrid(me, {}).groups().mesh(), (Mesh{{"pipe", 2}, {"data", 3}}));
        const auto made = deepspeed_groups::State(world.rank(), 6);
        auto both = made.plan();
        for (auto& declared : plan(Settings{}, 6, "grid")) both.push_back(std::move(declared));
        auto member = world.join(both);
        auto grid = PipelineParallelGrid(member, {}, "grid");
        EXPECT_EQ(deepspeed_groups::Groups(member, made)._clone_world_group().size(),
                  3 * grid.pp_proc_group().size());
    });
}

TEST(DeepSpeed, AMemberThatLacksAGroupOfTheGridIsRefused) {
    threads::run(4, [](World& world) {
        auto bare = world.join({{"pipe", 2}, {"data", 1}, {"model", 2}});
        EXPECT_NE(laws::text_of<UsageError>([&] {
                      PipelineParallelGrid(bare, of(PipeModelDataParallelTopology(2, 2, 1)));
                  }).find("join with deepspeed::plan(settings, world_size)"),
                  std::string::npos);
    });
}

}  // namespace of_deepspeed
