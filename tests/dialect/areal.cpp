// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>

#include <rankmesh/dialect/areal/parallel_grid.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"
#include "support/fake_device.hpp"

namespace of_areal {

using namespace rankmesh;
using namespace rankmesh::areal;
using dialect::Refusal;

namespace {

struct Model {
    ProcessTopology topology;
    RankMapping mapping;
    int world;
};

const auto training = std::vector<std::string>{"pipe", "data", "tensor"};
const auto inference = std::vector<std::string>{"data", "pipe", "tensor"};

const auto many =
    std::vector<Model>{{{training, {1, 1, 1}}, {}, 1},
                       {{training, {2, 2, 2}}, {}, 8},
                       {{inference, {2, 3, 1}}, {}, 8},
                       {{inference, {2, 1, 2}}, RankMapping(3), 8},
                       {{training, {3, 1, 2}}, RankMapping(1, 2), 13},
                       {{training, {2, 2, 1}}, RankMapping({{0, 1}, {1, 2}, {2, 4}, {3, 7}}), 9}};

}  // namespace

TEST(AReaL, ATopologyHasTwoOrdersOfThreeAxes) {
    const auto train = PipeDataTensorParallelTopology(2, 3, 4, true, false, true);
    const auto generate = DataPipeTensorParallelTopology(2, 3, 4, false, 128);
    EXPECT_EQ(train.repr(), "ProcessTopology(axes=['pipe', 'data', 'tensor'], dims=[2, 4, 3])");
    EXPECT_EQ(generate.repr(), "ProcessTopology(axes=['data', 'pipe', 'tensor'], dims=[4, 2, 3])");
    EXPECT_TRUE(train.sequence_parallel && !train.gradient_checkpointing &&
                train.gradient_accumulation_fusion);
    EXPECT_EQ(train.max_prompt_len, std::nullopt);
    EXPECT_EQ(generate.max_prompt_len, 128);
    EXPECT_EQ(train.get_rank_repr(5), "tensor_02") << "24 ranks have two digits";
    EXPECT_EQ(ProcessTopology(training, {1, 2, 1}).get_rank_repr(1, {}), "pipe_0-data_1-tensor_0");
    EXPECT_EQ(ProcessTopology(training, {2, 2, 2}), ProcessTopology(inference, {2, 2, 2}));
    EXPECT_EQ(ProcessTopology(training, {1, 2, 1}).str(),
              "{PipeDataTensorProcessCoord(pipe=0, data=0, tensor=0): 0, "
              "PipeDataTensorProcessCoord(pipe=0, data=1, tensor=0): 1}");
    EXPECT_EQ(laws::text_of<dialect::Error>([] {
                  ProcessTopology({"pipe", "data"}, {2, 2});
              }),
              "Corresponding coordinate namedtuple not implemented for axes ['pipe', 'data']. Check "
              "base/topology.py and implement explicitly.");
    EXPECT_EQ(laws::text_of<Refusal>([] {
                  ProcessTopology(training, {2, -1, 2});
              }),
              "a dim of -1 makes a topology without ranks; every dim is 1 or more");
}

TEST(AReaL, ThreeFactorsAreAllOrderedTriplesOnce) {
    for (int n = 0; n <= 200; ++n) {
        auto brute = std::set<std::array<int, 3>>{};
        for (int i = 1; i <= n; ++i)
            for (int j = 1; i * j <= n; ++j)
                if (n % (i * j) == 0) brute.insert({i, j, n / i / j});
        const auto factors = decompose_to_three_factors(n);
        EXPECT_EQ(factors.size(), brute.size()) << n;
        EXPECT_EQ(std::set(factors.begin(), factors.end()), brute) << n;
    }
    EXPECT_EQ(laws::text_of<dialect::Error>([] { decompose_to_three_factors(-4); }),
              "decompose -4 to three factors; give 0 or more");
}

TEST(AReaL, EveryRankHasItsPlaceAndOutsideIsNothing) {
    for (const auto& [topology, mapping, world] : many) {
        SCOPED_TRACE(topology.repr());
        auto inside = 0;
        for (int rank = 0; rank < world; ++rank) {
            const auto p = RankInfo(topology, rank, world, mapping);
            if (p.global_rank == -1) {
                EXPECT_FALSE(p.dp_group || p.pp_group || p.slice_group || p.ds_model_group || p.tp_dp_group ||
                             p.embedding_group || p.position_embedding_group || p.ds_model_world_size);
                EXPECT_FALSE(p.is_first_stage || p.is_last_stage);
                EXPECT_EQ(std::vector({p.stage_id, p.data_parallel_id, p.ds_model_rank, p.stage_to_global(0),
                                       p.get_tensor_model_parallel_rank()}),
                          std::vector(5, -1));
                EXPECT_EQ(laws::text_of<dialect::Error>([&] { p.get_model_parallel_world_size(); }),
                          "this rank is outside the model; ds_model_world_size is not set");
                continue;
            }
            EXPECT_EQ(p.global_rank, inside++) << "topology ranks rise with the world's";
            EXPECT_EQ(mapping[p.global_rank], rank);
            EXPECT_EQ((*p.pp_group)[p.stage_id], p.global_rank);
            EXPECT_EQ((*p.dp_group)[p.data_parallel_id], p.global_rank);
            EXPECT_EQ((*p.slice_group)[p.get_tensor_model_parallel_rank()], p.global_rank);
            EXPECT_EQ((*p.ds_model_group)[p.get_model_parallel_rank()], p.global_rank);
            EXPECT_TRUE(p.tp_dp_group->contains(p.global_rank));
            EXPECT_EQ(p.embedding_group.has_value(), p.is_first_stage || p.is_last_stage);
            EXPECT_EQ(p.position_embedding_group.has_value(), p.is_first_stage);
            EXPECT_EQ(p.p2p_groups(p.global_rank)[0], rank);
            EXPECT_EQ(p.p2p_groups(p.global_rank)[1],
                      mapping[p.stage_to_global((p.stage_id + 1) % p.pipe_parallel_size)]);
        }
        EXPECT_EQ(inside, topology.world_size());
    }
}

TEST(AReaL, ASecondGridMakesOnlyTheGroupsThatTheRegistryLacks) {
    auto registry = ProcessGroupRegistry();
    const auto made_by = [&](const std::vector<std::string>& axes) {
        const auto before = registry.size();
        RankInfo(ProcessTopology(axes, {2, 2, 2}), 0, 8).make_groups(registry);
        return registry.size() - before;
    };
    EXPECT_EQ(made_by(training), 34);
    EXPECT_EQ(made_by(inference), 4);
    EXPECT_EQ(made_by(training), 0);
    const auto id = registry.new_or_get_group({4, 0});
    EXPECT_EQ(registry.new_or_get_group({0, 4}, "nccl"), id);
    EXPECT_NE(registry.new_or_get_group({0, 4}, "gloo"), id);
    registry.destroy_all_comm_groups(false);
    EXPECT_EQ(registry.size(), 38);
    registry.destroy_all_comm_groups();
    EXPECT_EQ(registry.size(), 0);
}

TEST(AReaL, EveryGroupIsLive) {
    for (const auto& [topology, mapping, world_size] : many)
        threads::run(world_size, [&, topology = topology, mapping = mapping](World& world) {
            auto me = world.join(areal::plan(topology, mapping));
            auto grid = ParallelGrid(me, topology, mapping);
            const auto live = [&](ParallelGrid::Handle& on, const std::optional<Group>& group,
                                  const char* what) {
                ASSERT_EQ(on.has_value(), group.has_value()) << what;
                if (on) laws::expect_live(*on, laws::list(grid.mapped(*group)), me.rank(), what);
            };
            live(grid.get_model_parallel_group(), grid.ds_model_group, "model");
            live(grid.ds_model_proc_group_gloo, grid.ds_model_group, "model on the host");
            live(grid.get_data_parallel_group(), grid.dp_group, "data");
            live(grid.get_data_parallel_group_gloo(), grid.dp_group, "data on the host");
            live(grid.get_pipe_parallel_group(), grid.pp_group, "pipe");
            live(grid.pp_proc_group_gloo, grid.pp_group, "pipe on the host");
            live(grid.get_tensor_model_parallel_group(), grid.slice_group, "tensor");
            live(grid.get_tensor_model_parallel_cpu_group(), grid.slice_group, "tensor on the host");
            live(grid.embedding_proc_group, grid.embedding_group, "embedding");
            live(grid.position_embedding_proc_group, grid.position_embedding_group, "position embedding");
            live(grid.tp_dp_proc_group, grid.tp_dp_group, "tensor and data");
        });
}

TEST(AReaL, EveryGroupIsThereTwiceWhereTheWorldHasDevices) {
    threads::run(4, [](World& host) {
        auto world = fake::World(host);
        const auto topology = ProcessTopology(training, {2, 1, 2});
        auto me = world.join(areal::plan(topology));
        auto grid = ParallelGrid(me, topology);
        for (auto [on, on_host] : {std::pair(&grid.ds_model_proc_group, &grid.ds_model_proc_group_gloo),
                                   std::pair(&grid.dp_proc_group, &grid.dp_proc_group_gloo),
                                   std::pair(&grid.pp_proc_group, &grid.pp_proc_group_gloo),
                                   std::pair(&grid.slice_proc_group, &grid.slice_proc_group_gloo)}) {
            EXPECT_EQ((*on)->space(), Space::device);
            EXPECT_EQ((*on_host)->space(), Space::host);
            EXPECT_EQ((*on)->world_ranks(), (*on_host)->world_ranks());
            laws::expect_live(**on_host, (*on)->world_ranks(), me.rank(), (*on_host)->label());
            auto queue = fake::Queue();
            auto mine = fake::Array<int>(1, me.rank());
            auto there = (*on)->on(queue.stream());
            there.all_reduce(*mine);
            queue.synchronize();
            const auto ranks = (*on)->world_ranks();
            EXPECT_EQ(mine.values()[0], std::accumulate(ranks.begin(), ranks.end(), 0));
        }
    });
    EXPECT_EQ(fake::take_faults(), std::vector<std::string>{});
}

TEST(AReaL, SeveralModelsInOnePlanShareTheChannelsOfEqualGroups) {
    threads::run(8, [](World& world) {
        const auto actor = ProcessTopology(training, {2, 2, 2});
        const auto rollout = ProcessTopology(inference, {2, 2, 2});
        auto both = areal::plan(actor, {}, "actor");
        both.push_back(areal::plan(rollout, {}, "rollout").front());
        auto me = world.join(both);
        auto a = ParallelGrid(me["actor"], actor);
        auto b = ParallelGrid(me["rollout"], rollout);
        EXPECT_EQ(a.slice_proc_group->world_ranks(), b.slice_proc_group->world_ranks());
        // The rollout's pipe groups are the actor's data groups, and the other way round.
        EXPECT_EQ(me.channel_count(), world.join(areal::plan(actor)).channel_count());
        auto sum = 1;
        b.tp_dp_proc_group->all_reduce(sum);
        EXPECT_EQ(sum, 4);
    });
}

TEST(AReaL, AMappingThatLacksARankOrDoesNotRiseIsRefused) {
    const auto topology = ProcessTopology(training, {1, 2, 2});
    const auto text = [&](const std::map<int, int>& ranks) {
        return laws::text_of<dialect::Error>([&] { RankInfo(topology, 0, 4, ranks); });
    };
    EXPECT_EQ(text({{0, 0}, {1, 1}, {2, 2}}), "the rank mapping has no rank 3");
    EXPECT_EQ(text({{0, 0}, {1, 1}, {3, 3}}), "the rank mapping has no rank 2");
    EXPECT_EQ(text({}), "the rank mapping has no rank 0");
    EXPECT_EQ(
        text({{0, 1}, {1, 2}, {2, 3}, {3, 4}}),
        "The new group's rank should be within the world_size set by init_process_group; rank 4 is not in a "
        "world of 4");
    EXPECT_EQ(
        text({{0, 3}, {1, 2}, {2, 1}, {3, 0}}),
        "the rank mapping puts topology ranks 0 and 1 on ranks 3 and 2; groups are sorted, so each rank must "
        "be above the one before");
    EXPECT_EQ(
        text({{0, 0}, {1, 2}, {2, 1}, {3, 3}}),
        "the rank mapping puts topology ranks 1 and 2 on ranks 2 and 1; groups are sorted, so each rank must "
        "be above the one before");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { RankInfo(topology, 4, 4); }),
              "rank 4 of a world of 4; ranks are 0..3");
    EXPECT_EQ(RankInfo(topology, 1, 4, std::map<int, int>{{-1, 9}, {0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 0}})
                  .global_rank,
              1)
        << "ranks that nobody asks for may be anything";
}

TEST(AReaL, AFakeGridHasRanksAndSizesOnly) {
    const auto topology = ProcessTopology(inference, {2, 3, 4});
    for (int rank = 0; rank < topology.world_size(); ++rank) {
        const auto fake = FakeGrid(rank, topology);
        const auto info = RankInfo(topology, rank, topology.world_size());
        EXPECT_EQ(fake.get_pipe_parallel_rank(), info.get_pipe_parallel_rank());
        EXPECT_EQ(fake.get_data_parallel_rank(), info.get_data_parallel_rank());
        EXPECT_EQ(fake.get_tensor_model_parallel_rank(), info.get_tensor_model_parallel_rank());
        EXPECT_EQ(fake.get_tensor_model_parallel_world_size(), 4);
        EXPECT_EQ(fake.world_size, 24);
        EXPECT_EQ(laws::text_of<dialect::Error>([&] { fake.get_data_parallel_group(); }),
                  "No groups in fake grid.");
    }
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { FakeGrid(24, topology); }),
              "rank 24 not found in topology.");
}

TEST(AReaL, MembersThatLackAGroupAreRefused) {
    threads::run(4, [](World& world) {
        const auto topology = ProcessTopology(training, {2, 1, 2});
        auto bare = world.join({{"pipe", 2}, {"data", 1}, {"tensor", 2}});
        EXPECT_EQ(laws::text_of<UsageError>([&] { ParallelGrid(bare, topology); }),
                  "'pipe,tensor' of mesh pipe=2 data=1 tensor=2 was not declared; add .over = {{\"pipe\", "
                  "\"tensor\"}} to the declaration; or join with areal::plan(topology, rank_mapping), which "
                  "has it");
        EXPECT_EQ(
            laws::text_of<UsageError>([&] {
                ParallelGrid(bare, ProcessTopology(training, {1, 2, 2}));
            }),
            "the member was joined with mesh pipe=2 data=1 tensor=2, not pipe=1 data=2 tensor=2; join with "
            "areal::plan(topology, rank_mapping)");
    });
    threads::run(6, [](World& world) {
        const auto topology = ProcessTopology(training, {1, 1, 3});
        auto me = world.join(areal::plan(topology, RankMapping({{0, 0}, {1, 1}, {2, 4}})));
        const auto other = RankMapping({{0, 0}, {1, 2}, {2, 3}});
        const auto text = laws::text_of<UsageError>([&] { ParallelGrid(me, topology, other); });
        EXPECT_EQ(text,
                  me.rank() == 0 || me.rank() == 5
                      ? "nothing was thrown"
                      : "the member was joined with another rank mapping; join with areal::plan(topology, "
                        "rank_mapping)");
    });
}

}  // namespace of_areal
