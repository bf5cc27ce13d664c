// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/areal.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/topology.hpp>

#include "frameworks/laws.hpp"
#include "support/fake_device.hpp"

namespace of_areal {

using namespace rankmesh;
using namespace rankmesh::areal;
using frameworks::Refusal;
using Ranks = std::vector<int>;

namespace {

struct Model {
    Settings settings;
    int world;
};

const auto training = std::vector<std::string>{"pipe", "data", "tensor"};
const auto inference = std::vector<std::string>{"data", "pipe", "tensor"};

Settings settings(const std::vector<std::string>& axes, const Ranks& dims,
                  std::optional<Ranks> mapping = {}) {
    return {.axes = axes, .dims = dims, .rank_mapping = std::move(mapping)};
}

const auto many = std::vector<Model>{{settings(training, {1, 1, 1}), 1},
                                     {settings(training, {2, 2, 2}), 8},
                                     {settings(inference, {2, 3, 1}), 8},
                                     {settings(inference, {2, 1, 2}, Ranks{3, 4, 5, 6}), 8},
                                     {settings(training, {3, 1, 2}, Ranks{1, 3, 5, 7, 9, 11}), 13},
                                     {settings(training, {2, 2, 1}, Ranks{1, 2, 4, 7}), 9}};

ProcessTopology topology_of(const Settings& settings) { return {settings.axes, *settings.dims}; }

/// The world rank of a rank of the topology.
int placed(const Settings& settings, int rank) {
    return settings.rank_mapping ? (*settings.rank_mapping)[static_cast<std::size_t>(rank)] : rank;
}

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
    EXPECT_EQ(laws::text_of<frameworks::Error>([] {
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
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { decompose_to_three_factors(-4); }),
              "decompose -4 to three factors; give 0 or more");
}

TEST(AReaL, EveryRankHasItsPlaceAndOutsideIsNothing) {
    for (const auto& [settings, world] : many) {
        const auto topology = topology_of(settings);
        SCOPED_TRACE(topology.repr());
        auto inside = 0;
        for (int rank = 0; rank < world; ++rank) {
            const auto p = State(settings, rank, world);
            EXPECT_EQ(p.world_size(), topology.world_size());
            if (p.global_rank() == -1) {
                EXPECT_FALSE(p.dp_proc_group() || p.pp_proc_group() || p.slice_proc_group() ||
                             p.slice_group() || p.ds_model_proc_group() || p.tp_dp_proc_group() ||
                             p.embedding_proc_group() || p.position_embedding_proc_group());
                EXPECT_TRUE(p.dp_group().empty() && p.pp_group().empty());
                EXPECT_FALSE(p.is_first_stage() || p.is_last_stage());
                EXPECT_EQ(Ranks({p.stage_id(), p.data_parallel_id(), p.ds_model_rank(), p.stage_to_global(0),
                                 p.get_tensor_model_parallel_rank()}),
                          Ranks(5, -1));
                EXPECT_EQ(laws::text_of<frameworks::Error>([&] { p.get_model_parallel_world_size(); }),
                          laws::text_of<frameworks::Error>([&] { p.ds_model_world_size(); }));
                continue;
            }
            const auto own = p.global_rank();
            EXPECT_EQ(own, inside++) << "topology ranks rise with the world's";
            EXPECT_EQ(placed(settings, own), rank);
            const auto coord = topology.get_coord(own);
            EXPECT_EQ(p.stage_id(), coord["pipe"]);
            EXPECT_EQ(p.data_parallel_id(), coord["data"]);
            EXPECT_EQ(p.get_tensor_model_parallel_rank(), coord["tensor"]);
            const auto expect = [&](const std::optional<GroupPart>& group, const Group& expected) {
                auto ranks = laws::list(expected);
                for (auto& each : ranks) each = placed(settings, each);
                ASSERT_TRUE(group.has_value());
                EXPECT_EQ(laws::list(*group), ranks);
            };
            const auto& mesh = topology.mesh();
            expect(p.pp_proc_group(), mesh.group(own, "pipe"));
            expect(p.dp_proc_group(), mesh.group(own, "data"));
            expect(p.slice_proc_group(), mesh.group(own, "tensor"));
            expect(p.ds_model_proc_group(), mesh.group(own, "pipe", "tensor"));
            expect(p.ds_model_proc_group_gloo(), mesh.group(own, "pipe", "tensor"));
            expect(p.tp_dp_proc_group(), mesh.group(own, "data", "tensor"));
            EXPECT_EQ(p.dp_group(), laws::list(mesh.group(own, "data")));
            EXPECT_EQ(p.pp_group(), laws::list(mesh.group(own, "pipe")));
            EXPECT_EQ(p.slice_group(), laws::list(mesh.group(own, "tensor")));
            EXPECT_EQ((*p.ds_model_proc_group())[p.get_model_parallel_rank()], rank);
            EXPECT_EQ(p.get_model_parallel_world_size(), p.ds_model_proc_group()->size());
            EXPECT_EQ(p.embedding_proc_group().has_value(), p.is_first_stage() || p.is_last_stage());
            EXPECT_EQ(p.position_embedding_proc_group().has_value(), p.is_first_stage());
            const auto next = p.stage_to_global((p.stage_id() + 1) % p.pipe_parallel_size());
            EXPECT_EQ(p.p2p_groups(), Ranks({rank, placed(settings, next)}));
            EXPECT_EQ(p.p2p_groups(own), p.p2p_groups());
        }
        EXPECT_EQ(inside, topology.world_size());
    }
}

TEST(AReaL, EveryGroupIsLive) {
    for (const auto& [settings, world_size] : many)
        threads::run(world_size, [&, settings = settings](World& world) {
            auto me = world.join(plan(settings, world.size()));
            auto grid = ParallelGrid(me, settings);
            const State& pure = grid;
            const auto live = [&](Communicator* on, const std::optional<GroupPart>& group, const char* what) {
                ASSERT_EQ(on != nullptr, group.has_value()) << what;
                if (on) laws::expect_live(*on, laws::list(*group), me.rank(), what);
            };
            live(grid.get_model_parallel_group(), pure.ds_model_proc_group(), "model");
            live(grid.ds_model_proc_group_gloo(), pure.ds_model_proc_group(), "model on the host");
            live(grid.get_data_parallel_group(), pure.dp_proc_group(), "data");
            live(grid.get_data_parallel_group_gloo(), pure.dp_proc_group(), "data on the host");
            live(grid.get_pipe_parallel_group(), pure.pp_proc_group(), "pipe");
            live(grid.pp_proc_group_gloo(), pure.pp_proc_group(), "pipe on the host");
            live(grid.get_tensor_model_parallel_group(), pure.slice_proc_group(), "tensor");
            live(grid.get_tensor_model_parallel_cpu_group(), pure.slice_proc_group(), "tensor on the host");
            live(grid.embedding_proc_group(), pure.embedding_proc_group(), "embedding");
            live(grid.position_embedding_proc_group(), pure.position_embedding_proc_group(),
                 "position embedding");
            live(grid.tp_dp_proc_group(), pure.tp_dp_proc_group(), "tensor and data");
        });
}

TEST(AReaL, EveryGroupIsThereTwiceWhereTheWorldHasDevices) {
    threads::run(4, [](World& host) {
        auto world = fake::World(host);
        const auto sizes = settings(training, {2, 1, 2});
        auto me = world.join(plan(sizes, world.size()));
        auto grid = ParallelGrid(me, sizes);
        for (auto [on, on_host] : {std::pair(grid.ds_model_proc_group(), grid.ds_model_proc_group_gloo()),
                                   std::pair(grid.dp_proc_group(), grid.dp_proc_group_gloo()),
                                   std::pair(grid.pp_proc_group(), grid.pp_proc_group_gloo()),
                                   std::pair(grid.slice_proc_group(), grid.slice_proc_group_gloo())}) {
            EXPECT_EQ(on->space(), Space::device);
            EXPECT_EQ(on_host->space(), Space::host);
            EXPECT_EQ(on->world_ranks(), on_host->world_ranks());
            laws::expect_live(*on_host, on->world_ranks(), me.rank(), on_host->label());
            auto queue = fake::Queue();
            auto mine = fake::Array<int>(1, me.rank());
            auto there = on->on(queue.stream());
            there.all_reduce(*mine);
            queue.synchronize();
            const auto ranks = on->world_ranks();
            EXPECT_EQ(mine.values()[0], std::accumulate(ranks.begin(), ranks.end(), 0));
        }
    });
    EXPECT_EQ(fake::take_faults(), std::vector<std::string>{});
}

TEST(AReaL, SeveralModelsInOnePlanShareTheChannelsOfEqualGroups) {
    threads::run(8, [](World& world) {
        const auto actor = settings(training, {2, 2, 2});
        const auto rollout = settings(inference, {2, 2, 2});
        auto both = plan(actor, 8, "actor");
        for (auto& declared : plan(rollout, 8, "rollout")) both.push_back(std::move(declared));
        auto me = world.join(both);
        auto a = ParallelGrid(me, actor, "actor");
        auto b = ParallelGrid(me, rollout, "rollout");
        EXPECT_EQ(a.slice_proc_group()->world_ranks(), b.slice_proc_group()->world_ranks());
        // The rollout's pipe groups are the actor's data groups, and the other way round.
        EXPECT_EQ(me.channel_count(), world.join(plan(actor, 8)).channel_count());
        auto sum = 1;
        b.tp_dp_proc_group()->all_reduce(sum);
        EXPECT_EQ(sum, 4);
        EXPECT_NE(laws::text_of<UsageError>([&] {
                      ParallelGrid(me, actor, "critic");
                  }).find("join with areal::plan(settings, world_size, name)"),
                  std::string::npos);
    });
}

TEST(AReaL, AMappingThatLacksARankOrDoesNotRiseIsRefused) {
    const auto text = [](const Ranks& ranks) {
        return laws::text_of<frameworks::Error>([&] { State(settings(training, {1, 2, 2}, ranks), 0, 4); });
    };
    EXPECT_EQ(text({0, 1, 2}), "the rank mapping has no rank 3");
    EXPECT_EQ(text({}), "the rank mapping has no rank 0");
    EXPECT_EQ(text({0, 1, 2, 3, 3}), "the rank mapping has 5 ranks for 4");
    EXPECT_EQ(
        text({1, 2, 3, 4}),
        "The new group's rank should be within the world_size set by init_process_group; rank 4 is not in a "
        "world of 4");
    EXPECT_EQ(
        text({3, 2, 1, 0}),
        "the rank mapping puts topology ranks 0 and 1 on ranks 3 and 2; groups are sorted, so each rank must "
        "be above the one before");
    EXPECT_EQ(
        text({0, 2, 1, 3}),
        "the rank mapping puts topology ranks 1 and 2 on ranks 2 and 1; groups are sorted, so each rank must "
        "be above the one before");
    EXPECT_EQ(
        laws::text_of<frameworks::Error>([&] {
            State(settings(training, {1, 2, 4}), 0, 4);
        }),
        "The new group's rank should be within the world_size set by init_process_group; rank 7 is not in a "
        "world of 4");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  State(settings(training, {1, 2, 2}), 4, 4);
              }),
              "rank 4 of a world of 4; ranks are 0..3");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { State(Settings{}, 0, 4); }),
              "a topology needs dims: a size for each axis");
}

TEST(AReaL, MembersThatLackAGroupAreRefused) {
    threads::run(6, [](World& world) {
        auto bare = world.join({{"pipe", 2}, {"data", 1}, {"tensor", 3}});
        EXPECT_NE(laws::text_of<UsageError>([&] {
                      ParallelGrid(bare, settings(training, {2, 1, 3}));
                  }).find("join with areal::plan(settings, world_size)"),
                  std::string::npos);
        auto me = world.join(plan(settings(training, {1, 1, 3}, Ranks{0, 1, 4}), 6));
        const auto text = laws::text_of<UsageError>([&] {
            ParallelGrid(me, settings(training, {1, 1, 3}, Ranks{0, 2, 3}));
        });
        EXPECT_EQ(text.starts_with("the member's group "), me.rank() != 5) << text;
    });
}

}  // namespace of_areal
