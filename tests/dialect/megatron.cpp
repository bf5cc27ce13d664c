// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/hyper_comm_grid.hpp>
#include <rankmesh/dialect/megatron/parallel_state.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"

namespace of_megatron {

using namespace rankmesh;
using dialect::Fault;
using dialect::Refusal;
using megatron::Grid;
using megatron::HyperCommGrid;
using megatron::ParallelState;
using megatron::ProcessGroups;
using megatron::RankGenerator;
using megatron::Sizes;
using megatron::State;

static_assert(sizeof(State) <= 8192, "a rank's state is no table of the world");

namespace {

using Lists = std::vector<std::vector<int>>;

std::vector<int> list(const auto& group) { return {group.begin(), group.end()}; }

Lists lists(const auto& groups) {
    auto all = Lists{};
    for (const auto& group : groups) all.push_back(list(group));
    return all;
}

struct Job {
    Sizes sizes;
    int world;
};
const auto many = std::vector<Job>{
    {{}, 1},
    {{}, 5},
    {{.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2}, 8},
    {{.context_parallel_size = 4,
      .hierarchical_context_parallel_sizes = {2, 2},
      .expert_model_parallel_size = 2},
     8},
    {{.tensor_model_parallel_size = 2, .context_parallel_size = 2, .hybrid_context_parallel = true}, 16},
    {{.pipeline_model_parallel_size = 3,
      .expert_model_parallel_size = 2,
      .num_distributed_optimizer_instances = 2,
      .embedding_stages = {0, 1, -1}},
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
void for_every_getter(const Groups& mpu, const Sizes& sizes, const auto& use) {
    using megatron::DataParallel;
    using megatron::ExpertDataParallel;
    use("model", [&] { return mpu.get_model_parallel_group(); });
    use("tensor", [&] { return mpu.get_tensor_model_parallel_group(); });
    use("pipeline", [&] { return mpu.get_pipeline_model_parallel_group(); });
    use("context", [&] { return mpu.get_context_parallel_group(); });
    for (auto cp : {false, true})
        for (auto gtp : {false, true}) {
            const auto which = DataParallel{.with_context_parallel = cp, .with_gtp_remat = gtp};
            use("data", [&] { return mpu.get_data_parallel_group(which); });
        }
    if (sizes.create_all_gather_group)
        use("data to gather", [&] {
            return mpu.get_data_parallel_group(
                {.with_context_parallel = true, .independent_all_gather = true});
        });
    const auto partial = DataParallel{.with_context_parallel = true, .partial_data_parallel = true};
    use("partial data", [&] { return mpu.get_data_parallel_group(partial); });
    for (auto of_instance : {false, true})
        for (auto gtp : {false, true}) {
            const auto which =
                ExpertDataParallel{.partial_expert_data_parallel = of_instance, .with_gtp_remat = gtp};
            use("expert data", [&] { return mpu.get_expert_data_parallel_group(which); });
            use("expert data", [&] { return mpu.get_data_modulo_expert_parallel_group(which); });
        }
    if (sizes.create_gloo_process_groups) {
        use("data on the host", [&] { return mpu.get_data_parallel_group_gloo(); });
        use("partial data on the host", [&] { return mpu.get_data_parallel_group_gloo(partial); });
        use("expert data on the host", [&] { return mpu.get_expert_data_parallel_group_gloo(); });
        use("partial expert data on the host",
            [&] { return mpu.get_expert_data_parallel_group_gloo({.partial_expert_data_parallel = true}); });
    }
    for (auto cp : {false, true}) {
        use("tensor and data", [&] { return mpu.get_tensor_and_data_parallel_group(cp); });
        use("amax", [&] { return mpu.get_amax_reduction_group(cp, false); });
        use("amax of tensor", [&] { return mpu.get_amax_reduction_group(cp, true); });
    }
    use("tensor and context", [&] { return mpu.get_tensor_and_context_parallel_group(); });
    use("expert", [&] { return mpu.get_expert_model_parallel_group(); });
    use("expert tensor", [&] { return mpu.get_expert_tensor_parallel_group(); });
    use("expert tensor and model", [&] { return mpu.get_expert_tensor_and_model_parallel_group(); });
    for (auto egtp : {false, true})
        use("expert model", [&] { return mpu.get_expert_tensor_model_pipeline_parallel_group(egtp); });
    use("intra", [&] { return mpu.get_intra_distributed_optimizer_instance_group(); });
    if (sizes.num_distributed_optimizer_instances > 1)
        use("inter", [&] { return mpu.get_inter_distributed_optimizer_instance_group(); });
    use("gtp", [&] { return mpu.get_gtp_weight_remat_group(); });
    use("expert gtp", [&] { return mpu.get_expert_gtp_weight_remat_group(); });
    for (std::size_t level = 0; level < sizes.hierarchical_context_parallel_sizes.size(); ++level)
        use("hierarchical", [&] {
            auto levels = mpu.get_hierarchical_context_parallel_groups();
            return std::move(levels[level]);
        });
    const auto all = mpu.get_data_parallel_world_size({.with_context_parallel = true});
    if (sizes.hybrid_context_parallel)
        for (int size = 2; size <= all; size *= 2)
            use("hybrid", [&] { return mpu.get_hybrid_data_context_parallel_groups(size); });
    if (mpu.is_rank_in_embedding_group()) use("embedding", [&] { return mpu.get_embedding_group(); });
    if (mpu.is_rank_in_position_embedding_group())
        use("position embedding", [&] { return mpu.get_position_embedding_group(); });
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

TEST(Megatron, TheAllGatherGroupHasDataAndContextRanksAndItsOwnChannel) {
    const auto plain = Sizes{.context_parallel_size = 2};
    auto sizes = plain;
    sizes.create_all_gather_group = true;
    const auto groups = ProcessGroups(sizes, 4);
    EXPECT_EQ(lists(groups.groups("DATA_PARALLEL_GROUP_WITH_CP_AG")),
              lists(groups.groups("DATA_PARALLEL_GROUP_WITH_CP")));
    EXPECT_FALSE(ProcessGroups(plain, 4).contains("DATA_PARALLEL_GROUP_WITH_CP_AG"));
    EXPECT_TRUE(State(sizes, 0, 4).has_separate_all_gather_group());
    EXPECT_FALSE(State(plain, 0, 4).has_separate_all_gather_group());
    const auto channels = [](const Sizes& of) {
        auto count = 0;
        threads::run(4, [&](World& world) {
            const auto me = world.join(plan(of, 4));
            if (me.rank() == 0) count = me.channel_count();
        });
        return count;
    };
    EXPECT_EQ(channels(sizes), channels(plain) + 1);
}

TEST(Megatron, EveryKindOfGroupCoversTheWorldAndTellsEveryRankItsOwn) {
    for (const auto& [sizes, world] : many) {
        const auto groups = ProcessGroups(sizes, world);
        SCOPED_TRACE(groups.decoder_rank_generator().order() + " in a world of " + std::to_string(world));
        auto made = 0;
        // The original makes them only where their axis is longer than 1.
        for (const auto* desc :
             {"DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT"})
            EXPECT_EQ(groups.contains(desc), sizes.gtp_remat_size > 1);
        EXPECT_EQ(groups.contains("EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT"),
                  sizes.expert_gtp_remat_size > 1);
        for (const auto& desc : groups.descriptions()) {
            auto all = lists(groups.groups(desc));
            laws::expect_written(groups.groups(desc), desc);
            made += static_cast<int>(all.size());
            if (desc.find("EMBEDDING") == std::string::npos) laws::expect_partition(all, world, desc);
            for (auto& group : all) std::ranges::sort(group);
            for (int rank = 0; rank < world; ++rank) {
                const auto own = groups.group(desc, rank);
                const auto listed = std::ranges::find_if(
                    all, [&](const auto& group) { return std::ranges::count(group, rank) > 0; });
                ASSERT_EQ(own.has_value(), listed != all.end()) << desc << ", rank " << rank;
                if (own) {
                    EXPECT_EQ(list(*own), *listed) << desc << ", rank " << rank;
                    for (int i = 0; i < own->size(); ++i) EXPECT_EQ(own->group_rank((*own)[i]), i) << desc;
                }
            }
        }
        EXPECT_EQ(groups.new_group_calls(), made);
    }
}

TEST(Megatron, WhereARankStandsFollowsFromItsGroups) {
    for (const auto& [sizes, world] : many)
        for (int rank = 0; rank < world; ++rank) {
            const auto mpu = State(sizes, rank, world);
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
            EXPECT_EQ(mpu.get_data_parallel_src_rank(),
                      mpu.get_data_parallel_group({.with_gtp_remat = false}).front());
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
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { mpu.get_pipeline_model_parallel_last_rank(); }),
              "stage 8 of a pipeline of 4");
    mpu.set_pipeline_model_parallel_rank({});
    mpu.set_pipeline_model_parallel_world_size({});
    EXPECT_EQ(mpu.get_pipeline_model_parallel_prev_rank(), 6);

    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_rank(), 0);
    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_world_size(), 2);
    EXPECT_TRUE(mpu.is_pipeline_first_stage({.ignore_virtual = false, .vp_stage = 0}));
    EXPECT_FALSE(mpu.is_pipeline_first_stage({.ignore_virtual = false, .vp_stage = 1}));
    EXPECT_FALSE(mpu.is_rank_in_embedding_group({.ignore_virtual = false, .vp_stage = 1}));
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { mpu.is_pipeline_last_stage({.ignore_virtual = false}); }),
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
            for (auto stages : {&Sizes::embedding_stages, &Sizes::position_embedding_stages}) {
                auto sizes = Sizes{.pipeline_model_parallel_size = pp};
                sizes.*stages = {stage};
                const auto n = std::to_string(pp);
                const auto refused = "an embedding on stage " + std::to_string(stage) + " of " + n +
                                     "; stages are -" + n + ".." + std::to_string(pp - 1);
                EXPECT_EQ(laws::text_of<dialect::Error>([&] { ProcessGroups(sizes, 8 * pp); }),
                          -pp <= stage && stage < pp ? "nothing was thrown" : refused);
                sizes.*stages = {};
                EXPECT_EQ(laws::text_of<dialect::Error>([&] { ProcessGroups(sizes, 8 * pp); }),
                          "an embedding is on no stage; name at least one");
            }
}

TEST(Megatron, NothingChangesWhereInitialisationFails) {
    auto mpu = State(0, 8);
    EXPECT_THROW(mpu.initialize_model_parallel({.virtual_pipeline_model_parallel_size = 2}), dialect::Error);
    EXPECT_EQ(mpu.get_virtual_pipeline_model_parallel_world_size(), std::nullopt);
    const auto levels = Sizes{.context_parallel_size = 8, .hierarchical_context_parallel_sizes = {2, 2}};
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { mpu.initialize_model_parallel(levels); }),
              "the hierarchical_context_parallel_sizes make 4, not the context_parallel_size of 8");
    EXPECT_FALSE(mpu.is_initialized()) << "the original has made its data-parallel groups by then";
    mpu.initialize_model_parallel({});
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { mpu.initialize_model_parallel({}); }),
              "data parallel group is already initialized");
    EXPECT_EQ(laws::text_of<Refusal>([] { ProcessGroups({.pipeline_model_parallel_size = -2}, 8); }),
              "a size of -2 was given; every size is 1 or more");
    EXPECT_EQ(
        laws::text_of<dialect::Error>([] { ProcessGroups({.rank_offset = 4, .local_world_size = 8}, 8); }),
        "the groups would reach rank 11 of a world of 8; rank_offset and local_world_size stay inside it");
    EXPECT_EQ(laws::text_of<dialect::Error>([] {
                  ProcessGroups({.pipeline_model_parallel_size = 2,
                                 .expert_model_parallel_size = 2,
                                 .order = "tp-cp-pp-ep-dp",
                                 .local_world_size = {}},
                                8)
                      .groups("HYBRID_DP_CP_GROUP_2");
              }),
              "When not using pp-last rank ordering, the data parallel size of the attention and moe layers "
              "must be the same");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { State(0, 8).get_tensor_model_parallel_rank(); }),
              "tensor model parallel group is not initialized");
    EXPECT_EQ(laws::text_of<dialect::Error>(
                  [] { State({.pipeline_model_parallel_size = 4}, 2, 8).get_embedding_group(); }),
              "embedding group is not initialized: rank 2 is in none of the groups");
    EXPECT_EQ(laws::text_of<dialect::Error>([] {
                  State(0, 8).get_data_parallel_group(
                      {.with_context_parallel = true, .partial_data_parallel = true});
              }),
              "intra partial data parallel group with CP (with GTP_remat) is not initialized");
    EXPECT_EQ(laws::text_of<dialect::Error>(
                  [] { State(0, 8).get_data_parallel_group({.with_context_parallel = true}); }),
              "data parallel group with CP (with GTP_remat) is not initialized");
    EXPECT_EQ(laws::text_of<dialect::Error>([] {
                  State({}, 0, 8).get_data_parallel_group(
                      {.with_context_parallel = true, .independent_all_gather = true});
              }),
              "data parallel group with context parallel AG is not initialized");
    EXPECT_EQ(laws::text_of<dialect::Error>(
                  [] { State(0, 8).get_data_parallel_group({.partial_data_parallel = true}); }),
              "Partial DP for Optimizer needs to include CP");
    EXPECT_EQ(laws::text_of<dialect::Error>(
                  [] { State(0, 8).get_expert_data_parallel_group({.partial_expert_data_parallel = true}); }),
              "Intra partial expert data parallel group (with GTP_remat) is not initialized");
    EXPECT_EQ(laws::text_of<dialect::Error>(
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
            const auto mpu = ParallelState(me, sizes);
            const auto pure = State(sizes, world.rank(), world.size());
            auto expected = Lists{};
            for_every_getter(pure, sizes,
                             [&](const std::string&, const auto& get) { expected.push_back(list(get())); });
            auto next = expected.begin();
            for_every_getter(mpu, sizes, [&](const std::string& name, const auto& get) {
                auto group = get();
                laws::expect_live(group, *next++, me.rank(), name);
            });
            EXPECT_EQ(mpu.get_all_ranks(), pure.get_all_ranks());
        });
}

TEST(Megatron, GroupsOverAPartOfTheWorldLeaveTheOthersOut) {
    const auto sizes = Sizes{.tensor_model_parallel_size = 2, .rank_offset = 2, .local_world_size = 4};
    threads::run(8, [&](World& world) {
        auto me = world.join(megatron::plan(sizes, world.size()));
        const auto mpu = ParallelState(me, sizes);
        if (me.rank() >= 2 && me.rank() < 6) {
            auto group = mpu.get_data_parallel_group();
            laws::expect_live(group, {me.rank() % 2 + 2, me.rank() % 2 + 4}, me.rank(), "data");
        } else {
            EXPECT_FALSE(mpu.is_initialized());
            EXPECT_EQ(laws::text_of<dialect::Error>([&] { mpu.get_tensor_model_parallel_rank(); }),
                      "tensor model parallel group is not initialized: rank " + std::to_string(me.rank()) +
                          " is in none of the groups");
        }
    });
}

TEST(Megatron, AHybridGroupThatIsShorterIsPureOnly) {
    const auto sizes = Sizes{.hybrid_context_parallel = true};
    EXPECT_EQ(lists(ProcessGroups(sizes, 10).groups("HYBRID_DP_CP_GROUP_4")).back(),
              (std::vector<int>{8, 9}));
    threads::run(10, [&](World& world) {
        auto me = world.join(megatron::plan(sizes, world.size()));
        const auto mpu = ParallelState(me, sizes);
        EXPECT_EQ(mpu.get_hybrid_data_context_parallel_groups(2).size(), 2);
        EXPECT_EQ(laws::text_of<dialect::Error>([&] { mpu.get_hybrid_data_context_parallel_groups(4); }),
                  "the last group of HYBRID_DP_CP_GROUP_4 is shorter, which no plan declares; make it with "
                  "World::sub");
        EXPECT_EQ(laws::text_of<dialect::Error>([&] { mpu.get_hybrid_data_context_parallel_groups(3); }),
                  "there is no hybrid group of size 3");
    });
}

TEST(Megatron, PartsAreStridesWhereStridesSayThemElseATable) {
    const auto placed = [](const Job& setup) {
        auto names = std::vector<std::string>{};
        for (const auto& declared : megatron::plan(setup.sizes, setup.world))
            if (!declared.placed.empty()) names.push_back(declared.name);
        return names;
    };
    for (const auto& setup : many) {
        const auto apart = setup.sizes.order == "cp-tp-ep-dp-pp";  // tp stands between cp and dp
        EXPECT_EQ(placed(setup), apart ? std::vector<std::string>{"partial"} : std::vector<std::string>{});
    }
}

TEST(Megatron, AMemberWhosePlanLacksAGroupIsRefused) {
    threads::run(4, [](World& world) {
        auto bare = world.join({{"dp", 2}, {"tp", 2}});
        EXPECT_EQ(
            laws::text_of<UsageError>([&] { ParallelState(bare, {}); }),
            "the plan has no mesh 'dense'; its one mesh has no name; or join with megatron::plan(sizes, "
            "world_size), which has it");
        const auto sizes = Sizes{.tensor_model_parallel_size = 2};
        auto plan = megatron::plan(sizes, world.size());
        plan[0].over.clear();
        auto lacking = world.join(plan);
        EXPECT_EQ(laws::text_of<UsageError>([&] { ParallelState(lacking, sizes); }),
                  "'dp,cp' of mesh pp=1 dp=2 ep=1 cp=1 gtp_remat=1 tp=2 was not declared; add .over = "
                  "{{\"dp\", \"cp\"}} to the "
                  "declaration; or join with megatron::plan(sizes, world_size), which has it");
        EXPECT_EQ(laws::text_of<UsageError>([&] { ParallelState(lacking, {.context_parallel_size = 2}); }),
                  "the member was joined with mesh pp=1 dp=2 ep=1 cp=1 gtp_remat=1 tp=2, not pp=1 dp=2 ep=1 "
                  "cp=2 gtp_remat=1 tp=1; join with megatron::plan(sizes, world_size)");
    });
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
