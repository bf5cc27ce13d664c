// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/megatron.hpp>

#include <algorithm>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>

#include "frameworks/laws.hpp"
#include "frameworks/lists.hpp"

namespace of_megatron {

using namespace rankmesh;
using frameworks::Refusal;
using laws::list;
using megatron::groups;
using megatron::ParallelState;
using megatron::Settings;
using megatron::State;
using tests::Lists;
using tests::lists;

namespace {

struct Job {
    Settings sizes;
    int world;
};
const auto many = std::vector<Job>{
    {{}, 1},
    {{}, 5},
    {{.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2}, 8},
    {{.context_parallel_size = 4,
      .hierarchical_context_parallel_sizes = std::vector{2, 2},
      .expert_model_parallel_size = 2},
     8},
    {{.tensor_model_parallel_size = 2, .context_parallel_size = 2, .hybrid_context_parallel = true}, 16},
    {{.pipeline_model_parallel_size = 3,
      .expert_model_parallel_size = 2,
      .num_distributed_optimizer_instances = 2,
      .embedding_stages = std::vector{0, 1, -1}},
     12},
    {{.tensor_model_parallel_size = 2,
      .pipeline_model_parallel_size = 2,
      .expert_model_parallel_size = 2,
      .gtp_remat_size = 2,
      .expert_gtp_remat_size = 2},
     16},
    {{.tensor_model_parallel_size = 4, .expert_model_parallel_size = 2, .expert_tensor_parallel_size = 1}, 8},
    // Parts of data and context ranks that end between no two axes: found rank by rank.
    {{.tensor_model_parallel_size = 2,
      .context_parallel_size = 4,
      .num_distributed_optimizer_instances = 2,
      .expert_tensor_parallel_size = 1,
      .order = "cp-tp-ep-dp-pp"},
     24},
    {{.pipeline_model_parallel_size = 2,
      .context_parallel_size = 2,
      .expert_model_parallel_size = 2,
      .num_distributed_optimizer_instances = 3,
      .order = "pp-cp-dp-tp-ep"},
     12},
    {{.num_distributed_optimizer_instances = 3, .create_gloo_process_groups = false}, 6},
    {{.tensor_model_parallel_size = 2, .context_parallel_size = 2, .create_all_gather_group = true}, 8}};

/// Every getter of a group by its name: `use(name, get)`, where `get()` is the group.
template <class Groups>
void for_every_getter(Groups& mpu, const Settings& sizes, const auto& use) {
    use("model", [&]() -> decltype(auto) { return mpu.get_model_parallel_group(); });
    use("tensor", [&]() -> decltype(auto) { return mpu.get_tensor_model_parallel_group(); });
    use("pipeline", [&]() -> decltype(auto) { return mpu.get_pipeline_model_parallel_group(); });
    use("context", [&]() -> decltype(auto) { return mpu.get_context_parallel_group(); });
    for (auto cp : {false, true})
        for (auto gtp : {false, true}) {
            use("data", [&]() -> decltype(auto) { return mpu.get_data_parallel_group(cp, gtp); });
        }
    if (sizes.create_all_gather_group)
        use("data to gather",
            [&]() -> decltype(auto) { return mpu.get_data_parallel_group(true, true, false, true); });
    use("partial data", [&]() -> decltype(auto) { return mpu.get_data_parallel_group(true, true, true); });
    for (auto of_instance : {false, true})
        for (auto gtp : {false, true}) {
            use("expert data",
                [&]() -> decltype(auto) { return mpu.get_expert_data_parallel_group(gtp, of_instance); });
        }
    if (sizes.create_gloo_process_groups) {
        use("data on the host", [&]() -> decltype(auto) { return mpu.get_data_parallel_group_gloo(); });
        use("partial data on the host",
            [&]() -> decltype(auto) { return mpu.get_data_parallel_group_gloo(true, true); });
        use("expert data on the host",
            [&]() -> decltype(auto) { return mpu.get_expert_data_parallel_group_gloo(); });
        use("partial expert data on the host",
            [&]() -> decltype(auto) { return mpu.get_expert_data_parallel_group_gloo(true); });
    }
    for (auto cp : {false, true}) {
        use("tensor and data",
            [&]() -> decltype(auto) { return mpu.get_tensor_and_data_parallel_group(cp); });
        use("amax", [&]() -> decltype(auto) { return mpu.get_amax_reduction_group(cp, false); });
        use("amax of tensor", [&]() -> decltype(auto) { return mpu.get_amax_reduction_group(cp, true); });
    }
    use("tensor and context",
        [&]() -> decltype(auto) { return mpu.get_tensor_and_context_parallel_group(); });
    use("expert", [&]() -> decltype(auto) { return mpu.get_expert_model_parallel_group(); });
    use("expert tensor", [&]() -> decltype(auto) { return mpu.get_expert_tensor_parallel_group(); });
    use("expert tensor and model",
        [&]() -> decltype(auto) { return mpu.get_expert_tensor_and_model_parallel_group(); });
    for (auto egtp : {false, true})
        use("expert model",
            [&]() -> decltype(auto) { return mpu.get_expert_tensor_model_pipeline_parallel_group(egtp); });
    use("intra", [&]() -> decltype(auto) { return mpu.get_intra_distributed_optimizer_instance_group(); });
    if (sizes.num_distributed_optimizer_instances > 1)
        use("inter",
            [&]() -> decltype(auto) { return mpu.get_inter_distributed_optimizer_instance_group(); });
    use("gtp", [&]() -> decltype(auto) { return mpu.get_gtp_weight_remat_group(); });
    use("expert gtp", [&]() -> decltype(auto) { return mpu.get_expert_gtp_weight_remat_group(); });
    for (std::size_t level = 0;
         level < sizes.hierarchical_context_parallel_sizes.value_or(std::vector<int>{}).size(); ++level)
        use("hierarchical", [&]() -> decltype(auto) {
            auto levels = mpu.get_hierarchical_context_parallel_groups();
            if constexpr (std::is_pointer_v<typename decltype(levels)::value_type>)
                return *levels[level];
            else
                return frameworks::GroupPart(levels[level]);
        });
    const auto all = mpu.get_data_parallel_world_size(true);
    if (sizes.hybrid_context_parallel)
        for (int size = 2; size <= all; size *= 2)
            use("hybrid",
                [&]() -> decltype(auto) { return mpu.get_hybrid_data_context_parallel_groups(size); });
    if (mpu.is_rank_in_embedding_group())
        use("embedding", [&]() -> decltype(auto) { return mpu.get_embedding_group(); });
    if (mpu.is_rank_in_position_embedding_group())
        use("position embedding", [&]() -> decltype(auto) { return mpu.get_position_embedding_group(); });
}

}  // namespace

TEST(Megatron, TheAllGatherGroupHasDataAndContextRanksAndItsOwnChannel) {
    const auto plain = Settings{.context_parallel_size = 2};
    auto sizes = plain;
    sizes.create_all_gather_group = true;
    const auto made = groups(sizes, 4);
    EXPECT_EQ(lists(made, "DATA_PARALLEL_GROUP_WITH_CP_AG"), lists(made, "DATA_PARALLEL_GROUP_WITH_CP"));
    EXPECT_FALSE(groups(plain, 4).has("DATA_PARALLEL_GROUP_WITH_CP_AG"));
    EXPECT_TRUE(State(sizes, 0, 4).has_separate_all_gather_group());
    EXPECT_FALSE(State(plain, 0, 4).has_separate_all_gather_group());
    const auto channels = [](const Settings& of) {
        auto count = 0;
        threads::run(4, [&](World& world) {
            const auto me = world.join(megatron::plan(of, 4));
            if (me.rank() == 0) count = me.channel_count();
        });
        return count;
    };
    EXPECT_EQ(channels(sizes), channels(plain) + 1);
}

TEST(Megatron, EveryKindOfGroupCoversTheWorldAndTellsEveryRankItsOwn) {
    for (const auto& [sizes, world] : many) {
        const auto made = groups(sizes, world);
        SCOPED_TRACE(to_string(made.mesh()) + " in a world of " + std::to_string(world));
        // The original makes them only where their axis is longer than 1.
        for (const auto* desc :
             {"DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT"})
            EXPECT_EQ(made.has(desc), sizes.gtp_remat_size > 1);
        EXPECT_EQ(made.has("EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT"), sizes.expert_gtp_remat_size > 1);
        for (const auto& desc : made.kinds()) {
            auto all = lists(made, desc);
            if (desc.find("EMBEDDING") == std::string::npos) laws::expect_partition(all, world, desc);
            for (auto& group : all) std::ranges::sort(group);
            for (int rank = 0; rank < world; ++rank) {
                const auto own = made.of(desc, rank);
                const auto listed = std::ranges::find_if(
                    all, [&](const auto& group) { return std::ranges::count(group, rank) > 0; });
                ASSERT_EQ(own.has_value(), listed != all.end()) << desc << ", rank " << rank;
                if (own) {
                    EXPECT_EQ(list(*own), *listed) << desc << ", rank " << rank;
                    for (int i = 0; i < own->size(); ++i) EXPECT_EQ(own->group_rank((*own)[i]), i) << desc;
                }
            }
        }
    }
}

TEST(Megatron, WhereARankStandsFollowsFromItsGroups) {
    for (const auto& [sizes, world] : many)
        for (int rank = 0; rank < world; ++rank) {
            auto mpu = State(sizes, rank, world);
            SCOPED_TRACE("rank " + std::to_string(rank) + " of " + std::to_string(world));
            for_every_getter(mpu, sizes, [&](const std::string& name, const auto& get) {
                EXPECT_TRUE(get().contains(rank)) << name;
            });
            const auto pipeline = mpu.get_pipeline_model_parallel_group();
            EXPECT_EQ(pipeline[mpu.get_pipeline_model_parallel_rank()], rank);
            EXPECT_EQ(mpu.get_pipeline_model_parallel_world_size(), pipeline.size());
            EXPECT_EQ(mpu.get_pipeline_model_parallel_first_rank(), pipeline.front());
            EXPECT_EQ(mpu.get_pipeline_model_parallel_last_rank(), pipeline.back());
            EXPECT_EQ(mpu.is_pipeline_first_stage(), pipeline.front() == rank);
            EXPECT_EQ(mpu.is_pipeline_last_stage(), pipeline.back() == rank);
            const auto next = State(sizes, mpu.get_pipeline_model_parallel_next_rank(), world);
            EXPECT_EQ(next.get_pipeline_model_parallel_prev_rank(), rank) << "the pipeline wraps";
            EXPECT_EQ(mpu.get_tensor_model_parallel_src_rank(),
                      mpu.get_tensor_model_parallel_group().front());
            EXPECT_EQ(mpu.get_data_parallel_src_rank(), mpu.get_data_parallel_group(false, false).front());
            EXPECT_EQ(mpu.get_model_parallel_src_rank(), mpu.get_model_parallel_group().front());
            EXPECT_EQ(mpu.get_expert_model_parallel_src_rank(),
                      mpu.get_expert_model_parallel_group().front());
        }
}

TEST(Megatron, WhatIsSetWinsUntilItIsTakenBackAndRipplesIntoNeighbours) {
    auto mpu = State({.pipeline_model_parallel_size = 4, .virtual_pipeline_model_parallel_size = 2}, 0, 8);
    mpu.set_pipeline_model_parallel_rank(2);
    EXPECT_EQ(mpu.get_pipeline_model_parallel_next_rank(), 6);
    EXPECT_FALSE(mpu.is_pipeline_first_stage());
    mpu.set_pipeline_model_parallel_world_size(3);
    EXPECT_TRUE(mpu.is_pipeline_last_stage());
    EXPECT_EQ(mpu.get_pipeline_model_parallel_next_rank(), 0);
    mpu.set_pipeline_model_parallel_world_size(9);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.get_pipeline_model_parallel_last_rank(); }),
              "stage 8 is out of range of pipeline {0, 2, 4, 6}; its size was set to more than 4");
    mpu.set_pipeline_model_parallel_rank({});
    mpu.set_pipeline_model_parallel_world_size({});
    EXPECT_EQ(mpu.get_pipeline_model_parallel_prev_rank(), 6);

    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_rank(), 0);
    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_world_size(), 2);
    EXPECT_TRUE(mpu.is_pipeline_first_stage(false, 0));
    EXPECT_FALSE(mpu.is_pipeline_first_stage(false, 1));
    EXPECT_FALSE(mpu.is_rank_in_embedding_group(false, 1));
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.is_pipeline_last_stage(false); }),
              "vp_stage must be passed if virtual pipeline is enabled");

    mpu.destroy_model_parallel();
    EXPECT_FALSE(mpu.is_initialized());
    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_rank(), std::nullopt);
    mpu.set_tensor_model_parallel_rank(3);
    EXPECT_EQ(mpu.get_expert_tensor_parallel_rank(), 3) << "without a group, that of tensor parallelism";
}

TEST(Megatron, WhatIsSetIsAnsweredAndNothingElse) {
    using Number = std::optional<int>;
    struct Pair {
        void (*set)(State&, Number);
        Number (*get)(const State&);
    };
    const auto pairs = std::vector<Pair>{
        {[](State& mpu, Number n) { mpu.set_tensor_model_parallel_rank(n); },
         [](const State& mpu) -> Number { return mpu.get_tensor_model_parallel_rank(); }},
        {[](State& mpu, Number n) { mpu.set_tensor_model_parallel_world_size(n); },
         [](const State& mpu) -> Number { return mpu.get_tensor_model_parallel_world_size(); }},
        {[](State& mpu, Number n) { mpu.set_pipeline_model_parallel_rank(n); },
         [](const State& mpu) -> Number { return mpu.get_pipeline_model_parallel_rank(); }},
        {[](State& mpu, Number n) { mpu.set_pipeline_model_parallel_world_size(n); },
         [](const State& mpu) -> Number { return mpu.get_pipeline_model_parallel_world_size(); }},
        {[](State& mpu, Number n) { mpu.set_data_parallel_rank(n); },
         [](const State& mpu) -> Number { return mpu.get_data_parallel_rank(); }},
        {[](State& mpu, Number n) { mpu.set_expert_model_parallel_rank(n); },
         [](const State& mpu) -> Number { return mpu.get_expert_model_parallel_rank(); }},
        {[](State& mpu, Number n) { mpu.set_expert_model_parallel_world_size(n); },
         [](const State& mpu) -> Number { return mpu.get_expert_model_parallel_world_size(); }},
        {[](State& mpu, Number n) { mpu.set_expert_tensor_parallel_rank(n); },
         [](const State& mpu) -> Number { return mpu.get_expert_tensor_parallel_rank(); }},
        {[](State& mpu, Number n) { mpu.set_expert_tensor_parallel_world_size(n); },
         [](const State& mpu) -> Number { return mpu.get_expert_tensor_parallel_world_size(); }},
        {[](State& mpu, Number n) { mpu.set_virtual_pipeline_model_parallel_rank(n); },
         [](const State& mpu) { return mpu.get_virtual_pipeline_model_parallel_rank(); }},
        {[](State& mpu, Number n) { mpu.set_virtual_pipeline_model_parallel_world_size(n); },
         [](const State& mpu) { return mpu.get_virtual_pipeline_model_parallel_world_size(); }}};
    auto mpu = State({.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2}, 5, 8);
    const auto answers = [&] {
        auto all = std::vector<Number>{};
        for (const auto& pair : pairs) all.push_back(pair.get(mpu));
        return all;
    };
    const auto before = answers();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        auto expected = before;
        expected[i] = 77;
        pairs[i].set(mpu, 77);
        EXPECT_EQ(answers(), expected) << i;
        pairs[i].set(mpu, {});
        EXPECT_EQ(answers(), before) << i;
    }
}

TEST(Megatron, AnEmbeddingIsOnAStageThatIsThereCountedFromEitherEnd) {
    for (int pp = 1; pp <= 4; ++pp)
        for (int stage = -pp - 2; stage <= pp + 1; ++stage)
            for (auto stages : {&Settings::embedding_stages, &Settings::position_embedding_stages}) {
                auto sizes = Settings{.pipeline_model_parallel_size = pp};
                sizes.*stages = std::vector{stage};
                const auto n = std::to_string(pp);
                const auto refused = "an embedding on stage " + std::to_string(stage) + " of " + n +
                                     "; stages are -" + n + ".." + std::to_string(pp - 1);
                EXPECT_EQ(laws::text_of<frameworks::Error>([&] { groups(sizes, 8 * pp); }),
                          -pp <= stage && stage < pp ? "nothing was thrown" : refused);
                sizes.*stages = std::vector<int>{};
                EXPECT_EQ(laws::text_of<frameworks::Error>([&] { groups(sizes, 8 * pp); }),
                          "an embedding is on no stage; name at least one");
            }
}

TEST(Megatron, NothingChangesWhereInitialisationFails) {
    auto mpu = State(0, 8);
    EXPECT_THROW(mpu.initialize_model_parallel({.virtual_pipeline_model_parallel_size = 2}),
                 frameworks::Error);
    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_world_size(), std::nullopt);
    const auto levels =
        Settings{.context_parallel_size = 8, .hierarchical_context_parallel_sizes = std::vector{2, 2}};
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.initialize_model_parallel(levels); }),
              "the hierarchical_context_parallel_sizes make 4, not the context_parallel_size of 8");
    EXPECT_FALSE(mpu.is_initialized()) << "the original has made its data-parallel groups by then";
    mpu.initialize_model_parallel({});
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.initialize_model_parallel({}); }),
              "data parallel group is already initialized");
    EXPECT_EQ(laws::text_of<Refusal>([] { groups({.pipeline_model_parallel_size = -2}, 8); }),
              "pipeline_model_parallel_size is -2; every size is 1 or more");
    EXPECT_EQ(
        laws::text_of<frameworks::Error>([] { groups({.rank_offset = 4, .local_world_size = 8}, 8); }),
        "the groups would reach rank 11 of a world of 8; rank_offset and local_world_size stay inside it");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] {
                  groups({.pipeline_model_parallel_size = 2,
                          .expert_model_parallel_size = 2,
                          .order = "tp-cp-pp-ep-dp",
                          .local_world_size = {}},
                         8);
              }),
              "When not using pp-last rank ordering, the data parallel size of the attention and moe layers "
              "must be the same");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { State(0, 8).get_tensor_model_parallel_rank(); }),
              "tensor model parallel group is not initialized");
    EXPECT_EQ(laws::text_of<frameworks::Error>(
                  [] { State({.pipeline_model_parallel_size = 4}, 2, 8).get_embedding_group(); }),
              "embedding group is not initialized on rank 2; its members here are {0, 6}");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { State(0, 8).get_data_parallel_group(true, true, true); }),
              "intra partial data parallel group with CP (with GTP_remat) is not initialized");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { State(0, 8).get_data_parallel_group(true); }),
              "data parallel group with CP (with GTP_remat) is not initialized");
    EXPECT_EQ(laws::text_of<frameworks::Error>(
                  [] { State({}, 0, 8).get_data_parallel_group(true, true, false, true); }),
              "data parallel group with context parallel AG is not initialized");
    EXPECT_EQ(
        laws::text_of<frameworks::Error>([] { State(0, 8).get_data_parallel_group(false, true, true); }),
        "Partial DP for Optimizer needs to include CP");
    EXPECT_EQ(
        laws::text_of<frameworks::Error>([] { State(0, 8).get_expert_data_parallel_group(true, true); }),
        "Intra partial expert data parallel group (with GTP_remat) is not initialized");
    EXPECT_EQ(laws::text_of<frameworks::Error>(
                  [] { State(0, 8).get_expert_tensor_model_pipeline_parallel_group(true); }),
              "Expert tensor-model-pipeline parallel group with EGTP is not initialized");
    EXPECT_EQ(State(0, 8).get_gtp_weight_remat_world_size(), 0) << "where there is no group";
    EXPECT_EQ(State(0, 8).get_expert_gtp_weight_remat_rank(), 0) << "where there is no group";
    EXPECT_EQ(State().get_data_parallel_rank(), 0) << "where no world is known";
}

TEST(Megatron, EveryGroupIsLive) {
    for (const auto& [sizes, world_size] : many)
        threads::run(world_size, [&](World& world) {
            auto me = world.join(megatron::plan(sizes, world.size()));
            auto mpu = ParallelState(me, sizes);
            auto pure = State(sizes, world.rank(), world.size());
            auto expected = Lists{};
            for_every_getter(pure, sizes,
                             [&](const std::string&, const auto& get) { expected.push_back(list(get())); });
            auto next = expected.begin();
            for_every_getter(mpu, sizes, [&](const std::string& name, const auto& get) {
                auto&& group = get();
                laws::expect_live(group, *next++, me.rank(), name);
            });
            EXPECT_EQ(mpu.get_all_ranks(), pure.get_all_ranks());
        });
}

TEST(Megatron, GroupsOverAPartOfTheWorldLeaveTheOthersOut) {
    const auto sizes = Settings{.tensor_model_parallel_size = 2, .rank_offset = 2, .local_world_size = 4};
    threads::run(8, [&](World& world) {
        auto me = world.join(megatron::plan(sizes, world.size()));
        auto mpu = ParallelState(me, sizes);
        if (me.rank() >= 2 && me.rank() < 6) {
            auto& group = mpu.get_data_parallel_group();
            laws::expect_live(group, {me.rank() % 2 + 2, me.rank() % 2 + 4}, me.rank(), "data");
        } else {
            EXPECT_FALSE(mpu.is_initialized());
            EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.get_tensor_model_parallel_rank(); }),
                      "tensor model parallel group is not initialized on rank " + std::to_string(me.rank()) +
                          ", which is in none of the groups");
        }
    });
}

TEST(Megatron, AHybridGroupThatIsShorterIsPureOnly) {
    const auto sizes = Settings{.hybrid_context_parallel = true};
    EXPECT_EQ(lists(groups(sizes, 10), "HYBRID_DP_CP_GROUP_4").back(), (std::vector<int>{8, 9}));
    threads::run(10, [&](World& world) {
        auto me = world.join(megatron::plan(sizes, world.size()));
        auto mpu = ParallelState(me, sizes);
        EXPECT_EQ(mpu.get_hybrid_data_context_parallel_groups(2).size(), 2);
        EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.get_hybrid_data_context_parallel_groups(4); }),
                  "the last group of HYBRID_DP_CP_GROUP_4 is shorter, which no plan declares; make it with "
                  "World::sub");
        EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.get_hybrid_data_context_parallel_groups(3); }),
                  "there is no hybrid group of size 3");
    });
}

TEST(Megatron, AMemberWhosePlanLacksAGroupIsRefused) {
    threads::run(4, [](World& world) {
        auto bare = world.join({{"dp", 2}, {"tp", 2}});
        EXPECT_EQ(laws::text_of<UsageError>([&] { ParallelState(bare, {}); }),
                  "the plan has no mesh 'gtp_remat'; its one mesh has no name; or join with "
                  "megatron::plan(settings, world_size), which has it");
        const auto sizes = Settings{.tensor_model_parallel_size = 2};
        auto plan = megatron::plan(sizes, world.size());
        EXPECT_EQ(
            laws::text_of<UsageError>([&] { ParallelState(world.join(plan), {.context_parallel_size = 2}); }),
            "the member was joined with mesh groups=2:1 group=2:2, not groups=1 group=4; join with "
            "megatron::plan(settings, world_size)");
        plan[0].axes = std::vector<std::string>{};
        auto lacking = world.join(plan);
        const auto own = std::to_string(world.rank());
        EXPECT_EQ(laws::text_of<UsageError>([&] { ParallelState(lacking, sizes); }),
                  "the member's group 'gtp_remat' leaves this rank out, where it must be {" + own +
                      "}; join with megatron::plan(settings, world_size)");
    });
}

}  // namespace of_megatron
