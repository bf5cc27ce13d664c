// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/megatron2022.hpp>

#include "frameworks/laws.hpp"

namespace of_megatron2022 {

using namespace rankmesh;
using frameworks::Fault;
using frameworks::Groups;
using frameworks::Refusal;
using megatron2022::ParallelState;
using megatron2022::Settings;
using megatron2022::State;

namespace {

struct Setup {
    Settings sizes;
    int world;
};
const auto many = std::vector<Setup>{{{}, 1},
                                     {{}, 5},
                                     {{2, 1, {}, 3}, 8},
                                     {{1, 2, {}, 0}, 2},
                                     {{2, 4, {}, 2}, 8},
                                     {{3, 2, {}, -1}, 12},
                                     {{2, 3, 4, 1}, 18},
                                     {{1, 7, 2, -3}, 14},
                                     {{5, 4}, 60}};

State made(const Settings& sizes, int rank, int world) {
    auto mpu = State(rank, world);
    mpu.initialize_model_parallel(sizes);
    return mpu;
}

/// The ranks of a pipeline and of its two embedding groups, as the original makes its lists.
struct Lists {
    Lists(const Setup& setup, int pipeline) {
        const auto& [sizes, world] = setup;
        const auto step = world / sizes.pipeline_model_parallel_size;
        for (int rank = pipeline; rank < world; rank += step) ranks.push_back(rank);
        embedding = position = ranks;
        if (ranks.size() == 1) return;
        embedding = {ranks.front(), ranks.back()};
        position = {ranks.front()};
        if (!sizes.pipeline_model_parallel_split_rank) return;
        const auto given = *sizes.pipeline_model_parallel_split_rank;
        const auto stages = static_cast<int>(ranks.size());
        const auto split = ranks[static_cast<std::size_t>(given < 0 ? given + stages : given)];
        if (split != ranks.front() && split != ranks.back()) embedding = {ranks.front(), split, ranks.back()};
        if (split != ranks.front()) position.push_back(split);
    }
    std::vector<int> ranks, embedding, position;
};

bool holds(const std::vector<int>& list, int rank) { return std::ranges::find(list, rank) != list.end(); }

std::vector<std::vector<int>> lists(const Groups& groups, const char* kind) {
    auto made = std::vector<std::vector<int>>{};
    for (int i = 0; i < groups.count(kind); ++i) made.push_back(laws::list(groups.group(kind, i)));
    return made;
}

constexpr auto pipelines = "_PIPELINE_MODEL_PARALLEL_GROUP";

}  // namespace

TEST(Megatron2022, TheGroupsOfEachKindCoverTheWorldAndEachRankKnowsItsOwn) {
    for (const auto& [sizes, world] : many) {
        const auto all = megatron2022::groups(sizes, world);
        laws::expect_partition(lists(all, "_DATA_PARALLEL_GROUP"), world, "data");
        laws::expect_partition(lists(all, "_MODEL_PARALLEL_GROUP"), world, "model");
        laws::expect_partition(lists(all, "_TENSOR_MODEL_PARALLEL_GROUP"), world, "tensor");
        laws::expect_partition(lists(all, pipelines), world, "pipeline");
        for (int rank = 0; rank < world; ++rank) {
            SCOPED_TRACE(to_string(all.mesh()) + " rank " + std::to_string(rank));
            const auto mpu = made(sizes, rank, world);
            const auto tensor = sizes.tensor_model_parallel_size;
            EXPECT_EQ(mpu.get_tensor_model_parallel_group()[mpu.get_tensor_model_parallel_rank()], rank);
            EXPECT_EQ(mpu.get_pipeline_model_parallel_group()[mpu.get_pipeline_model_parallel_rank()], rank);
            EXPECT_EQ(mpu.get_data_parallel_group()[mpu.get_data_parallel_rank()], rank);
            EXPECT_TRUE(mpu.get_model_parallel_group().contains(rank));
            EXPECT_EQ(mpu.get_model_parallel_group().size(), tensor * sizes.pipeline_model_parallel_size);
            EXPECT_EQ(mpu.get_data_parallel_world_size() * mpu.get_model_parallel_group().size(), world);
            EXPECT_EQ(mpu.get_tensor_model_parallel_world_size(), tensor);
            EXPECT_EQ(mpu.get_tensor_model_parallel_src_rank(),
                      mpu.get_tensor_model_parallel_group().front());
            EXPECT_EQ(mpu.get_data_parallel_src_rank(), mpu.get_data_parallel_group().front());
        }
    }
}

TEST(Megatron2022, PipelinesWrapAndTheirEmbeddingGroupsAreTheirEndsAndTheSplit) {
    for (const auto& setup : many) {
        const auto& [sizes, world] = setup;
        const auto all = megatron2022::groups(sizes, world);
        for (int p = 0; p < all.count(pipelines); ++p) {
            const auto expected = Lists(setup, p);
            EXPECT_EQ(laws::list(all.group(pipelines, p)), expected.ranks);
            EXPECT_EQ(laws::list(all.group("_EMBEDDING_GROUP", p)), expected.embedding);
            EXPECT_EQ(laws::list(all.group("_POSITION_EMBEDDING_GROUP", p)), expected.position);
            for (auto rank : expected.ranks) {
                SCOPED_TRACE(to_string(all.mesh()) + " rank " + std::to_string(rank));
                const auto mpu = made(sizes, rank, world);
                EXPECT_EQ(mpu.get_pipeline_model_parallel_first_rank(), expected.ranks.front());
                EXPECT_EQ(mpu.get_pipeline_model_parallel_last_rank(), expected.ranks.back());
                EXPECT_EQ(made(sizes, mpu.get_pipeline_model_parallel_next_rank(), world)
                              .get_pipeline_model_parallel_prev_rank(),
                          rank);
                EXPECT_EQ(mpu.is_pipeline_first_stage(true), rank == expected.ranks.front());
                EXPECT_EQ(mpu.is_pipeline_last_stage(true), rank == expected.ranks.back());
                EXPECT_EQ(laws::list(mpu.embedding_global_ranks()), expected.embedding);
                EXPECT_EQ(laws::list(mpu.position_embedding_global_ranks()), expected.position);
                EXPECT_EQ(mpu.is_rank_in_embedding_group(true), holds(expected.embedding, rank));
                EXPECT_EQ(mpu.is_rank_in_position_embedding_group(), holds(expected.position, rank));
                if (holds(expected.embedding, rank))
                    EXPECT_EQ(laws::list(mpu.get_embedding_group()), expected.embedding);
                else
                    EXPECT_THROW(mpu.get_embedding_group(), frameworks::Error);
                if (holds(expected.position, rank))
                    EXPECT_EQ(laws::list(mpu.get_position_embedding_group()), expected.position);
                else
                    EXPECT_THROW(mpu.get_position_embedding_group(), frameworks::Error);
            }
        }
    }
}

TEST(Megatron2022, OfAllVirtualStagesOfAPipelineOneIsFirstAndOneIsLast) {
    for (const auto& [sizes, world] : many) {
        const auto chunks = sizes.virtual_pipeline_model_parallel_size.value_or(1);
        for (const auto& pipeline : lists(megatron2022::groups(sizes, world), pipelines)) {
            auto first = std::vector<std::pair<int, int>>{};
            auto last = first;
            for (auto rank : pipeline)
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    auto mpu = made(sizes, rank, world);
                    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_world_size(),
                              sizes.virtual_pipeline_model_parallel_size);
                    if (chunks > 1) mpu.set_virtual_pipeline_model_parallel_rank(chunk);
                    if (mpu.is_pipeline_first_stage()) first.emplace_back(rank, chunk);
                    if (mpu.is_pipeline_last_stage()) last.emplace_back(rank, chunk);
                    const auto ends = mpu.embedding_global_ranks();
                    if (ends.front() == rank || ends.back() == rank) {
                        EXPECT_EQ(mpu.is_rank_in_embedding_group(), rank == ends.front()
                                                                        ? mpu.is_pipeline_first_stage()
                                                                        : mpu.is_pipeline_last_stage());
                    } else {
                        EXPECT_EQ(mpu.is_rank_in_embedding_group(), ends.contains(rank)) << "at any chunk";
                    }
                }
            EXPECT_EQ(first, (std::vector{std::pair{pipeline.front(), 0}}));
            EXPECT_EQ(last, (std::vector{std::pair{pipeline.back(), chunks - 1}}));
        }
    }
}

TEST(Megatron2022, EveryStageIsBeforeOrAfterTheSplitAndBothWhereThereIsNone) {
    for (const auto& [sizes, world] : many) {
        const auto split = sizes.pipeline_model_parallel_split_rank;
        const auto stages = sizes.pipeline_model_parallel_size;
        auto at_split = std::vector<int>{};
        const auto groups = megatron2022::groups(sizes, world);
        for (auto rank : groups.group(pipelines, 0)) {
            const auto mpu = made(sizes, rank, world);
            const auto stage = mpu.get_pipeline_model_parallel_rank();
            if (split && *split < 0 && stages > 1) {
                EXPECT_EQ(laws::text_of<Refusal>([&] { mpu.is_pipeline_stage_before_split(); }),
                          detail::cat("pipeline_model_parallel_split_rank is ", *split,
                                      ", and no stage is before or after that; give ", *split + stages));
                continue;
            } else if (split && stages > 1) {
                EXPECT_EQ(mpu.is_pipeline_stage_before_split(), stage < *split);
                EXPECT_NE(mpu.is_pipeline_stage_before_split(), mpu.is_pipeline_stage_after_split());
                if (mpu.is_pipeline_stage_at_split()) at_split.push_back(stage);
            } else {
                EXPECT_TRUE(mpu.is_pipeline_stage_before_split() && mpu.is_pipeline_stage_after_split() &&
                            mpu.is_pipeline_stage_at_split());
            }
            EXPECT_EQ(mpu.is_pipeline_stage_before_split(stage), mpu.is_pipeline_stage_before_split());
            EXPECT_EQ(mpu.is_pipeline_stage_after_split(stage), mpu.is_pipeline_stage_after_split());
        }
        if (split && *split >= 0 && stages > 1) {
            EXPECT_EQ(at_split, *split > 0 ? std::vector{*split - 1} : std::vector<int>{});
        }
    }
}

TEST(Megatron2022, WhatIsSetWinsUntilItIsUnsetAndChangesTheRanksThatFollow) {
    auto mpu = made({2, 4, {}, 2}, 6, 16);  // tensor rank 0 of 2, stage 1 of {2, 6, 10, 14}
    mpu.set_tensor_model_parallel_world_size(4);
    EXPECT_EQ(mpu.get_tensor_model_parallel_world_size(), 4);
    EXPECT_EQ(mpu.get_tensor_model_parallel_src_rank(), 4);
    EXPECT_EQ(laws::list(mpu.get_tensor_model_parallel_group()), (std::vector{6, 7}));
    mpu.set_tensor_model_parallel_rank(3);
    EXPECT_EQ(mpu.get_tensor_model_parallel_rank(), 3);
    mpu.set_pipeline_model_parallel_world_size(3);
    EXPECT_EQ(mpu.get_pipeline_model_parallel_last_rank(), 10);
    EXPECT_FALSE(mpu.is_pipeline_last_stage());
    mpu.set_pipeline_model_parallel_rank(2);
    EXPECT_TRUE(mpu.is_pipeline_last_stage());
    EXPECT_EQ(mpu.get_pipeline_model_parallel_next_rank(), 2);
    EXPECT_EQ(mpu.get_pipeline_model_parallel_prev_rank(), 6);
    EXPECT_FALSE(mpu.is_pipeline_stage_before_split());
    mpu.set_pipeline_model_parallel_rank(-1);  // as torch would count it
    EXPECT_EQ(mpu.get_pipeline_model_parallel_prev_rank(), 6);
    mpu.set_pipeline_model_parallel_split_rank(0);
    EXPECT_EQ(mpu.pipeline_model_parallel_split_rank(), 2) << "nobody reads what that sets";
    mpu.set_pipeline_model_parallel_world_size(5);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.get_pipeline_model_parallel_last_rank(); }),
              "stage 4 is out of range of pipeline {2, 6, 10, 14}; its size was set to more than 4");
    EXPECT_EQ(laws::text_of<Refusal>([&] { mpu.set_pipeline_model_parallel_world_size(0); }),
              "the pipeline model parallel world size is 0; every size is 1 or more");
    for (auto set :
         {&State::set_tensor_model_parallel_world_size, &State::set_pipeline_model_parallel_world_size,
          &State::set_tensor_model_parallel_rank, &State::set_pipeline_model_parallel_rank})
        (mpu.*set)(std::nullopt);
    EXPECT_EQ(mpu.get_tensor_model_parallel_world_size(), 2);
    EXPECT_EQ(mpu.get_tensor_model_parallel_rank(), 0);
    EXPECT_EQ(mpu.get_pipeline_model_parallel_world_size(), 4);
    EXPECT_EQ(mpu.get_pipeline_model_parallel_rank(), 1);

    auto unmade = State(5, 16);
    unmade.set_tensor_model_parallel_world_size(4);
    EXPECT_EQ(unmade.get_tensor_model_parallel_src_rank(), 4) << "no group is asked";
}

TEST(Megatron2022, SettingsThatMakeNoSenseAreRefusedAndChangeNothing) {
    const auto refused = [](const Settings& sizes, Fault fault, const std::string& text) {
        auto mpu = State(0, 8);
        try {
            mpu.initialize_model_parallel(sizes);
            ADD_FAILURE() << "accepted, not refused: " << text;
        } catch (const frameworks::Error& error) {
            EXPECT_EQ(error.what(), text);
            EXPECT_EQ(error.fault, fault) << text;
        }
        EXPECT_FALSE(mpu.model_parallel_is_initialized());
        EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_world_size(), std::nullopt);
        EXPECT_EQ(mpu.pipeline_model_parallel_split_rank(), std::nullopt);
    };
    refused({2, 3}, Fault::sizes,
            "world_size (8) is not divisible by tensor_model_parallel_size (2) x "
            "pipeline_model_parallel_size (3)");
    refused({0, 1}, Fault::sizes,
            "world_size (8) is not divisible by tensor_model_parallel_size (0) x "
            "pipeline_model_parallel_size (1)");
    refused({2, 2, 2, {}}, Fault::sizes,
            "pipeline-model-parallel size should be greater than 2 with interleaved schedule, not 2");
    refused({-2, -2}, Fault::sizes, "tensor_model_parallel_size is -2; every size is 1 or more");
    refused({1, -1}, Fault::sizes, "pipeline_model_parallel_size is -1; every size is 1 or more");
    refused({1, 4, 0, {}}, Fault::sizes,
            "virtual_pipeline_model_parallel_size is 0; every size is 1 or more");
    for (auto split : {4, 9, -5})
        refused({1, 4, {}, split}, Fault::out_of_range,
                "pipeline_model_parallel_split_rank " + std::to_string(split) +
                    " of 4 stages is out of range; it is -4..3");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { State(8, 8); }),
              "rank 8 of a world of 8; ranks are 0..7");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { State().initialize_model_parallel(); }),
              "this process is in no world; give the rank and the size of the world");
    EXPECT_EQ(laws::text_of<Refusal>([] {
                  megatron2022::plan({.tensor_model_parallel_size = -1, .pipeline_model_parallel_size = -1},
                                     1);
              }),
              "tensor_model_parallel_size is -1; every size is 1 or more");

    auto mpu = made({2, 2}, 0, 8);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  mpu.initialize_model_parallel({2, 4, 2, 1});
              }),
              "data parallel group is already initialized");
    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_world_size(), std::nullopt);
    EXPECT_EQ(mpu.pipeline_model_parallel_split_rank(), std::nullopt);
}

TEST(Megatron2022, WhatIsNotInitializedOrStaleSaysSo) {
    auto mpu = State(6, 16);
    const auto text = [](auto&& body) { return laws::text_of<frameworks::Error>(body); };
    EXPECT_EQ(text([&] { mpu.get_model_parallel_group(); }), "model parallel group is not initialized");
    EXPECT_EQ(text([&] { mpu.get_tensor_model_parallel_rank(); }),
              "intra_layer_model parallel group is not initialized");
    EXPECT_EQ(text([&] { mpu.is_pipeline_first_stage(); }),
              "pipeline_model parallel group is not initialized");
    EXPECT_EQ(text([&] { mpu.get_data_parallel_src_rank(); }), "Data parallel group is not initialized");
    EXPECT_EQ(text([&] { mpu.get_pipeline_model_parallel_last_rank(); }),
              "Pipeline parallel group is not initialized");
    EXPECT_EQ(text([&] { mpu.is_rank_in_embedding_group(); }), "embedding group is not initialized");

    mpu.initialize_model_parallel({2, 4, 3, 2});
    EXPECT_EQ(text([&] { mpu.get_embedding_group(); }),
              "embedding group is not initialized on rank 6; its members here are {2, 10, 14}");
    mpu.set_tensor_model_parallel_rank(7);
    mpu.destroy_model_parallel();
    EXPECT_FALSE(mpu.model_parallel_is_initialized());
    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_rank(), std::nullopt);
    EXPECT_EQ(text([&] { mpu.get_tensor_model_parallel_rank(); }),
              "intra_layer_model parallel group is not initialized");
    EXPECT_EQ(laws::text_of<Refusal>([&] { mpu.get_pipeline_model_parallel_first_rank(); }),
              "Pipeline parallel group is not initialized; its ranks from before destroy_model_parallel are "
              "stale");

    mpu.initialize_model_parallel({2, 2});
    EXPECT_EQ(laws::list(mpu.embedding_global_ranks()), (std::vector{6, 14}));
    EXPECT_EQ(mpu.get_tensor_model_parallel_rank(), 0);
    EXPECT_EQ(laws::text_of<Refusal>([&] { mpu.is_pipeline_stage_before_split(); }),
              "pipeline_model_parallel_split_rank was not given; 2 is left over from before "
              "destroy_model_parallel; give it, or begin with a new State for none");
    mpu.destroy_model_parallel();
    mpu.initialize_model_parallel({2, 2, {}, 1});
    EXPECT_TRUE(mpu.is_pipeline_stage_at_split());
}

TEST(Megatron2022, EveryGroupIsLive) {
    for (const auto& [sizes, world] : many)
        threads::run(world, [&, sizes = sizes](World& world) {
            auto me = world.join(megatron2022::plan(sizes, world.size()));
            auto mpu = ParallelState(me, sizes);
            const auto& pure = static_cast<const State&>(mpu);
            const auto expect = [&](Communicator& on, const frameworks::GroupPart& group, const char* what) {
                laws::expect_live(on, laws::list(group), me.rank(), what);
            };
            expect(mpu.get_model_parallel_group(), pure.get_model_parallel_group(), "model");
            expect(mpu.get_tensor_model_parallel_group(), pure.get_tensor_model_parallel_group(), "tensor");
            expect(mpu.get_pipeline_model_parallel_group(), pure.get_pipeline_model_parallel_group(),
                   "pipeline");
            expect(mpu.get_data_parallel_group(), pure.get_data_parallel_group(), "data");
            if (mpu.is_rank_in_embedding_group(true))
                expect(mpu.get_embedding_group(), pure.get_embedding_group(), "embedding");
            else
                EXPECT_THROW(mpu.get_embedding_group(), frameworks::Error);
            if (mpu.is_rank_in_position_embedding_group())
                expect(mpu.get_position_embedding_group(), pure.get_position_embedding_group(), "position");
            else
                EXPECT_THROW(mpu.get_position_embedding_group(), frameworks::Error);

            mpu.destroy_model_parallel();
            EXPECT_EQ(laws::text_of<frameworks::Error>([&] { mpu.get_data_parallel_group(); }),
                      "data parallel group is not initialized");
            mpu = ParallelState(me, sizes);
            EXPECT_EQ(mpu.get_data_parallel_group().size(), pure.get_data_parallel_world_size());
        });
}

TEST(Megatron2022, MembersThatLackAGroupAreRefused) {
    threads::run(8, [](World& world) {
        const auto sizes = Settings{1, 4, {}, 2};
        const auto refusal = [&](const Plan& plan) {
            auto me = world.join(plan);
            return laws::text_of<UsageError>([&] { ParallelState(me, sizes); });
        };
        EXPECT_TRUE(refusal({{.name = "ranks", .mesh = {{"pp", 4}, {"dp", 2}, {"tp", 1}}}})
                        .ends_with("; or join with megatron2022::plan(settings, world_size), which has it"));
        const auto stage = world.rank() / 2, first = world.rank() % 2;
        const auto other = refusal(megatron2022::plan({1, 4, {}, 1}, 8));
        EXPECT_EQ(other, detail::cat("the member's group '_EMBEDDING_GROUP' ",
                                     stage == 2 ? "leaves this rank out"
                                     : first    ? "is {1, 3, 7}"
                                                : "is {0, 2, 6}",
                                     ", where it must be ",
                                     stage == 1 ? "of other ranks"
                                     : first    ? "{1, 5, 7}"
                                                : "{0, 4, 6}",
                                     "; join with megatron2022::plan(settings, world_size)"));
    });
}

}  // namespace of_megatron2022
