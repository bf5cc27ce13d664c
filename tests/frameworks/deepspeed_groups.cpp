// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/deepspeed_groups.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>

#include "frameworks/laws.hpp"
#include "support/fewer.hpp"

namespace of_deepspeed_groups {

using namespace rankmesh;
using deepspeed_groups::State;
using frameworks::Refusal;

namespace {

static_assert(sizeof(frameworks::GroupPart) <= 1024, "a rank's group is no table, however large it is");

using Groupings = std::vector<std::vector<int>>;

Groupings listed(const frameworks::Groups& groups, const std::string& kind) {
    auto all = Groupings{};
    for (int i = 0; i < groups.count(kind); ++i) all.push_back(laws::list(groups.group(kind, i)));
    return all;
}

std::vector<int> sorted(std::vector<int> ranks) {
    std::ranges::sort(ranks);
    return ranks;
}

using Make = std::function<void(State&)>;

/// Every way of making the groups of an expert size that the sizes allow.
std::vector<std::pair<int, Make>> ways_of_experts(int world) {
    auto ways = std::vector<std::pair<int, Make>>{};
    for (int expert = 1; expert <= world; ++expert)
        for (int lanes = 1; lanes <= world; ++lanes)
            for (int stages = 1; stages <= world; ++stages)
                for (const auto data_first : {false, true}) {
                    const auto divides = world % (lanes * stages) == 0;
                    if (divides && world / lanes / stages % expert == 0)
                        ways.emplace_back(expert, [=](State& state) {
                            state._create_expert_data_and_model_parallel(expert, lanes, stages, data_first);
                        });
                    if (!divides || world / stages % expert != 0 || (data_first && lanes > 1)) continue;
                    for (const auto* mode : {"tp", "sp"})
                        ways.emplace_back(expert, [=](State& state) {
                            state._create_expert_and_data_parallel(expert, lanes, stages, mode, data_first);
                        });
                }
    return ways;
}

std::string name_of(int expert) { return "ep_size_" + std::to_string(expert); }

}  // namespace

TEST(DeepSpeedGroups, ExpertGroupsPartitionTheWorldAndMeetInOneRankOrNone) {
    for (const int world : {1, 4, 6, 12, 16, 24, 30})
        for (const auto& [expert, make] : ways_of_experts(world)) {
            const auto name = name_of(expert);
            auto first = State(0, world);
            make(first);
            const auto groups = listed(first.groups(), name + "_expert");
            const auto replicas = listed(first.groups(), name + "_expert_data");
            laws::expect_partition(groups, world, name);
            laws::expect_partition(replicas, world, name + " data");
            for (int rank = 0; rank < world; ++rank) {
                auto state = State(rank, world);
                make(state);
                const auto mine = laws::list(state._get_expert_parallel_group_ranks(name));
                const auto others = laws::list(state._get_expert_data_parallel_group_ranks(name));
                EXPECT_EQ(std::ranges::count(mine, rank), 1);
                EXPECT_EQ(std::ranges::count(others, rank), 1);
                EXPECT_EQ(std::ranges::count(groups, mine), 1);
                EXPECT_EQ(std::ranges::count(replicas, others), 1);
                for (const auto peer : mine)
                    EXPECT_EQ(std::ranges::count(others, peer), peer == rank ? 1 : 0);
                EXPECT_EQ(sorted(mine)[static_cast<std::size_t>(state._get_expert_parallel_rank(name))],
                          rank);
            }
        }
}

TEST(DeepSpeedGroups, EveryGroupIsLive) {
    struct Job {
        int world, tensor, sequence, partition, devices;
        std::vector<std::pair<int, Make>> experts;
    };
    auto many = std::vector<Job>{{8,
                                  2,
                                  4,
                                  2,
                                  4,
                                  {{2, [](State& s) { s._create_expert_and_data_parallel(2); }},
                                   {4, [](State& s) { s._create_expert_data_and_model_parallel(4, 2); }}}},
                                 {6, 1, 1, 100, 8, {}},
                                 {12, 3, 1, 1, 12, {}}};
    for (const int world : {4, 6, 12})
        for (const auto& way : support::fewer_if_sanitized(ways_of_experts(world)))
            many.push_back({world, 1, 1, 1, 1, {way}});
    for (const auto& job : many)
        threads::run(job.world, [&](World& world) {
            auto state = State(world.rank(), job.world);
            state._init_tp_mesh_device(job.tensor);
            state.sequence_parallel_mesh(job.sequence);
            state._create_zero_param_parallel_group(job.partition);
            state._get_local_all_to_all_group(job.devices);
            for (const auto& [size, make] : job.experts) make(state);
            const auto me = world.join(state.plan());
            auto groups = deepspeed_groups::Groups(me, state);
            const auto rank = me.rank();
            const auto expect = [&](Communicator& on, const frameworks::GroupPart& group,
                                    const std::string& what) {
                laws::expect_live(on, sorted(laws::list(group)), rank, what);
            };
            expect(groups.get_tensor_model_parallel_group(), state.get_tensor_model_parallel_group(),
                   "tensor");
            expect(groups.get_data_parallel_group(), state.get_data_parallel_group(), "data");
            EXPECT_EQ(groups.get_tensor_model_parallel_group().rank(),
                      groups.get_tensor_model_parallel_rank());
            EXPECT_EQ(groups.get_tensor_model_parallel_group().world_rank(0),
                      groups.get_tensor_model_parallel_src_rank());
            expect(groups._get_sequence_parallel_group(), state._get_sequence_parallel_group(), "sequence");
            expect(groups._get_sequence_data_parallel_group(), state._get_data_parallel_group(), "replicas");
            EXPECT_EQ(groups._clone_world_group().size(), job.world);
            expect(*groups._get_zero_param_intra_parallel_group(),
                   state._get_zero_param_intra_parallel_group_ranks(), "hpZ");
            for (const auto* kind : {"local", "global"})
                if (state.groups().has(kind))
                    expect(groups.all_to_all_group(kind), *state.groups().of(kind, rank), kind);
            for (const auto& [size, make] : job.experts) {
                const auto name = name_of(size);
                auto& experts = groups._get_expert_parallel_group(name);
                auto& replicas = groups._get_expert_data_parallel_group(name);
                expect(experts, groups._get_expert_parallel_group_ranks(name), name);
                expect(replicas, groups._get_expert_data_parallel_group_ranks(name), name);
                EXPECT_EQ(experts.rank(), groups._get_expert_parallel_rank(name));
                EXPECT_EQ(replicas.rank(), groups._get_expert_data_parallel_rank(name));
                EXPECT_EQ(replicas.world_rank(0), groups._get_expert_broadcast_src_rank(name));
            }
            EXPECT_EQ(laws::list(groups._get_data_parallel_group_ranks()),
                      groups._get_data_parallel_group().world_ranks());
            if (!job.experts.empty()) {
                EXPECT_EQ(groups._get_max_expert_parallel_group().size(), groups._get_max_expert_size());
            }
        });
}

TEST(DeepSpeedGroups, GroupsOfOneRankCostNothing) {
    threads::run(1, [](World& world) {
        auto state = State(0, 1);
        state._init_tp_mesh_device();
        state._create_zero_param_parallel_group(8);
        EXPECT_EQ(world.join(state.plan()).channel_count(), 0);
    });
}

TEST(DeepSpeedGroups, WhatIsThereStays) {
    auto state = State(5, 12);
    state._init_tp_mesh_device(2);
    state._init_tp_mesh_device(3);
    EXPECT_EQ(state.get_tensor_model_parallel_world_size(), 2);
    state._create_expert_and_data_parallel(3);
    state._create_expert_and_data_parallel(3, {}, {}, "tp", true);
    EXPECT_EQ(laws::list(state._get_expert_parallel_group_ranks("ep_size_3")), (std::vector{3, 4, 5}));
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  state._create_zero_param_parallel_group(2);
                  state._create_zero_param_parallel_group(4);
              }),
              "ZeRO parameter intra parallel group is already initialized");
    EXPECT_EQ(state._get_zero_param_intra_parallel_group_world_size(), 2);
    // Others are made anew.
    state.sequence_parallel_mesh(2);
    state.sequence_parallel_mesh(4);
    EXPECT_EQ(state._get_sequence_parallel_world_size(), 4);
    state._get_local_all_to_all_group(6);
    EXPECT_EQ(state.all_to_all_names(),
              (std::vector<std::string>{"local_0", "local_1", "global_0", "global_1", "global_2", "global_3",
                                        "global_4", "global_5"}));
    state._get_local_all_to_all_group(12);
    EXPECT_EQ(state.groups().count("local"), 1);
}

TEST(DeepSpeedGroups, WhatIsSetWinsUntilNothingIs) {
    auto state = State(7, 8);
    state._init_tp_mesh_device(2);
    EXPECT_EQ(state.get_model_parallel_world_size(), 2);
    EXPECT_EQ(state.get_tensor_model_parallel_src_rank(), 6);
    state.set_tensor_model_parallel_world_size(4);
    state.set_tensor_model_parallel_rank(9);
    EXPECT_EQ(state.get_model_parallel_world_size(), 4);
    EXPECT_EQ(state.get_model_parallel_rank(), 9);
    EXPECT_EQ(state.get_tensor_model_parallel_src_rank(), 4);
    EXPECT_EQ(laws::text_of<Refusal>([&] { state.set_tensor_model_parallel_world_size(0); }),
              "the tensor world size is 0; every size is 1 or more");
    state.set_tensor_model_parallel_world_size({});
    state.set_tensor_model_parallel_rank({});
    EXPECT_EQ(state.get_tensor_model_parallel_src_rank(), 6);
    EXPECT_EQ(state.get_tensor_model_parallel_rank(), 1);
    EXPECT_EQ(state._get_max_expert_size(), std::nullopt);
    EXPECT_EQ(state._get_max_expert_size_name(), "ep_size_None");
}

TEST(DeepSpeedGroups, TheTensorRanksOfExpertsAreThoseOfTheLastMpu) {
    auto state = State(0, 8);
    EXPECT_EQ(state._get_expert_model_parallel_world_size(), 1);
    state._create_expert_and_data_parallel(4, 2);
    EXPECT_EQ(state._get_expert_model_parallel_world_size(), 1);
    state._create_expert_data_and_model_parallel(2, 2);
    EXPECT_EQ(state._get_expert_model_parallel_world_size(), 2);
    state._create_expert_data_and_model_parallel(1, 4);
    EXPECT_EQ(state._get_expert_model_parallel_world_size(), 4);
}

TEST(DeepSpeedGroups, SayWhatIsWrong) {
    const auto of = [](int world, const Make& make) {
        auto state = State(0, world);
        return laws::text_of<frameworks::Error>([&] { make(state); });
    };
    EXPECT_EQ(of(8, [](State& s) { s._get_expert_parallel_rank("ep_size_4"); }),
              "expert parallel group is not initialized");
    EXPECT_EQ(of(8, [](State& s) { s._get_expert_data_parallel_rank("ep_size_4"); }),
              "expert data parallel group is not initialized");
    EXPECT_EQ(of(8, [](State& s) { s.get_model_parallel_group(); }),
              "model parallel group is not initialized");
    EXPECT_EQ(of(8, [](State& s) { s._init_tp_mesh_device(3); }),
              "a tensor_model_parallel_size of 3 leaves ranks of a world of 8 out; the size must divide the "
              "world's");
    EXPECT_EQ(of(8, [](State& s) { s._init_tp_mesh_device(9); }), "8 is not divisible by 9");
    EXPECT_EQ(of(8, [](State& s) { s._create_model_parallel(3); }), "8 is not divisible by 3");
    EXPECT_EQ(of(8, [](State& s) { s.initialize_sequence_parallel(9); }),
              "world_size (8) is less than sequence_parallel_size 9");
    EXPECT_EQ(of(8, [](State& s) { s.initialize_sequence_parallel(1); }),
              "sequence_parallel_size must be greater than 1, got 1");
    EXPECT_EQ(of(8, [](State& s) { s.initialize_sequence_parallel(3); }),
              "world_size (8) is not divisible by sequence_parallel_size 3)");
    EXPECT_EQ(of(8, [](State& s) { s._init_tp_mesh_device(0); }),
              "8 was to be divided by a size of 0; every size is 1 or more");
    EXPECT_EQ(of(8, [](State& s) { s._init_tp_mesh_device(-2); }),
              "a size of -2 was given; every size is 1 or more");
    EXPECT_EQ(of(8, [](State& s) { s._init_tp_mesh_device(2, 2); }),
              "data_parallel_size 2 times tensor_model_parallel_size 2 is not the world's 8");
    EXPECT_EQ(of(12, [](State& s) { s._get_local_all_to_all_group(8); }),
              "num_gpus not equal to device per node, cannot initialize All-To-All");
    EXPECT_EQ(of(20, [](State& s) { s._get_local_all_to_all_group(8); }),
              "nodes of 8 devices leave ranks 16..19 out; the size must divide the world's 20");
    EXPECT_EQ(of(16, [](State& s) { s._create_expert_data_and_model_parallel(8, 4); }),
              "4 is not divisible by 8");
    EXPECT_EQ(of(8, [](State& s) { s._create_expert_and_data_parallel(2, 2, 1, "tp", true); }),
              "use_data_before_expert_parallel_ is not supported with mp_size > 1");
    EXPECT_EQ(of(8, [](State& s) { s._create_expert_and_data_parallel(2, 1, 3); }),
              "3 pipeline stages of a world of 8 leave ranks out; the size must divide the world's");
    EXPECT_EQ(of(6, [](State& s) { s._create_expert_and_data_parallel(2, 4); }),
              "4 tensor lanes of a stage of 6 leave ranks out; mp_size must divide the stage's");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { State(8, 8); }),
              "rank 8 of a world of 8; ranks are 0..7");
    EXPECT_EQ(of(8,
                 [](State& s) {
                     s._create_model_parallel(100);
                     EXPECT_EQ(s.groups().count("model_parallel"), 1);
                 }),
              "nothing was thrown");
}

TEST(DeepSpeedGroups, NoSizeIsBelowOneWhateverIsMadeOfIt) {
    using Sizes = std::vector<int>;
    const auto makers = std::vector<std::pair<std::size_t, std::function<void(State&, const Sizes&)>>>{
        {3, [](State& s, const Sizes& n) { s._create_expert_data_and_model_parallel(n[0], n[1], n[2]); }},
        {3, [](State& s, const Sizes& n) { s._create_expert_and_data_parallel(n[0], n[1], n[2]); }},
        {1, [](State& s, const Sizes& n) { s._init_tp_mesh_device(n[0]); }},
        {1, [](State& s, const Sizes& n) { s._create_model_parallel(n[0]); }},
        {1, [](State& s, const Sizes& n) { s.sequence_parallel_mesh(n[0]); }},
        {1, [](State& s, const Sizes& n) { s._create_zero_param_parallel_group(n[0]); }},
        {1, [](State& s, const Sizes& n) { s._get_local_all_to_all_group(n[0]); }}};
    for (const auto& [count, make] : makers) {
        auto sizes = Sizes(count, 2);
        for (auto& size : sizes)
            for (const auto wrong : {0, -size}) {
                const auto right = std::exchange(size, wrong);
                auto state = State(0, 8);
                const auto text = laws::text_of<frameworks::Error>([&] { make(state, sizes); });
                EXPECT_TRUE(text.ends_with("; every size is 1 or more"))
                    << &make - &makers[0].second << " of " << testing::PrintToString(sizes) << ": " << text;
                size = right;
            }
    }
}

TEST(DeepSpeedGroups, MembersThatLackAGroupAreRefused) {
    threads::run(4, [](World& world) {
        auto state = State(world.rank(), 4);
        auto some = world.join(state.plan());
        state._create_expert_and_data_parallel(2);
        const auto text = laws::text_of<UsageError>([&] { deepspeed_groups::Groups(some, state); });
        EXPECT_TRUE(text.starts_with("the plan has no mesh 'ep_size_2_expert_data'")) << text;
    });
    threads::run(6, [](World& world) {
        // Expert groups that run from lane to lane follow no strides: only the ranks themselves tell them
        // apart.
        auto state = State(world.rank(), 6);
        state._create_expert_and_data_parallel(2, 2);
        auto other = state.plan();
        for (auto& declaration : other) declaration.placed = {};
        auto wrong = world.join(other);
        const auto text = laws::text_of<UsageError>([&] { deepspeed_groups::Groups(wrong, state); });
        EXPECT_NE(text, "nothing was thrown");
        EXPECT_TRUE(text.ends_with("; join with state.plan()")) << text;
        EXPECT_EQ(laws::text_of<UsageError>([&] {
                      deepspeed_groups::Groups(world.join(state.plan()), State((world.rank() + 1) % 6, 6));
                  }).substr(0, 25),
                  "the state is of rank " + std::to_string((world.rank() + 1) % 6) + ", a");
    });
}

}  // namespace of_deepspeed_groups
