// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/process_groups.hpp>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"

namespace of_olmo {

using namespace rankmesh;
using namespace rankmesh::olmo;
using dialect::Refusal;

namespace {

struct Given {
    int world;
    ParallelConfigs configs;
};

ParallelConfigs hsdp(std::optional<int> replicas, std::optional<int> shards, ParallelConfigs others = {}) {
    others.dp = DataParallelConfig{DataParallelType::hsdp, replicas, shards};
    return others;
}

ParallelConfigs fsdp(ParallelConfigs others = {}) {
    others.dp = DataParallelConfig{};
    return others;
}

const auto many = std::vector<Given>{{1, {}},
                                     {7, {}},
                                     {6, fsdp()},
                                     {8, fsdp({.tp = {{2}}})},
                                     {12, fsdp({.tp = {{2}}, .cp = {{3}}, .pp = {{.degree = 2}}})},
                                     {8, fsdp({.tp = {{1}}, .cp = {{1}}, .pp = {{.degree = 1}}})},
                                     {8, hsdp(2, {})},
                                     {8, hsdp({}, 2, {.tp = {{2}}})},
                                     {16, hsdp(2, 2, {.cp = {{2}}, .pp = {{.degree = 2}}})},
                                     {12, hsdp(3, {}, {.cp = {{2}}, .ep = {{2}}})},
                                     {8, hsdp(1, 8, {.ep = {{-1}}})},
                                     {32, hsdp(2, 2, {.tp = {{2}}, .cp = {{2}}, .pp = {{.degree = 2}}})}};

DeviceMesh built(const Given& given, int rank) {
    return WorldMesh(rank, given.world).build_world_mesh(given.configs);
}

using Part = std::function<DeviceMesh(const DeviceMesh&)>;
const auto parts = std::map<std::string, Part>{
    {"dp_model", get_dp_model_mesh},
    {"dp", get_dp_mesh},
    {"dp_shard", get_dp_shard_mesh},
    {"dp_replicate", get_dp_replicate_mesh},
    {"tp", get_tp_mesh},
    {"cp", get_cp_mesh},
    {"pp", get_pp_mesh},
    {"ep", get_ep_mesh},
    {"pp_stage", [](const DeviceMesh& mesh) { return get_pp_stage_mesh(mesh); }},
    {"dp flattened", [](const DeviceMesh& mesh) { return flatten_mesh(get_dp_mesh(mesh), "all_dp"); }}};

/// Does something with every part that the mesh has.
void for_each_part(const DeviceMesh& mesh,
                   const std::function<void(const std::string& name, const DeviceMesh& part)>& body) {
    for (const auto& [name, part] : parts) {
        auto found = std::optional<DeviceMesh>{};
        try {
            found = part(mesh);
        } catch (const dialect::Error& error) {
            EXPECT_EQ(error.fault, dialect::Fault::unknown) << name << ": " << error.what();
        }
        if (found) body(name, *found);
    }
}

template <class Body>
std::string error_of(Body&& body) {
    return laws::text_of<dialect::Error>(body);
}

}  // namespace

TEST(Olmo, EveryPartHasEachRankAtItsCoordinateAndPartsCoverTheWorld) {
    for (const auto& given : many) {
        auto seen = std::map<std::string, std::set<std::vector<int>>>{};
        for (int rank = 0; rank < given.world; ++rank)
            for_each_part(built(given, rank), [&](const std::string& name, const DeviceMesh& part) {
                SCOPED_TRACE(name + " of rank " + std::to_string(rank) + " in " +
                             to_string(olmo::mesh(given.configs, given.world)));
                const auto ranks = laws::list(part.mesh());
                seen[name].insert(ranks);
                if (part.ndim() == 0) {
                    EXPECT_EQ(ranks, std::vector{rank});
                    EXPECT_FALSE(part.get_coordinate() || part.mesh_dim_names());
                    return;
                }
                // The ranks are row-major: the coordinate, folded, is the place in the list.
                const auto shape = part.shape();
                const auto coordinate = *part.get_coordinate();
                auto place = 0;
                for (std::size_t i = 0; i < shape.size(); ++i) place = place * shape[i] + coordinate[i];
                EXPECT_EQ(ranks.at(static_cast<std::size_t>(place)), rank);
                for (std::size_t i = 0; i < shape.size(); ++i) {
                    const auto dim = (*part.mesh_dim_names())[i];
                    EXPECT_EQ(part.get_group(dim).size(), shape[i]);
                    EXPECT_EQ(part.get_local_rank(dim), coordinate[i]);
                }
                if (part.ndim() == 1) {
                    EXPECT_EQ(part.get_group(), part.mesh());
                }
            });
        EXPECT_TRUE(seen.contains("dp"));
        for (const auto& [name, groups] : seen)
            laws::expect_partition({groups.begin(), groups.end()}, given.world, name);
    }
}

TEST(Olmo, GroupsAreMadeInTheOrderOfTorchAndCoverTheWorld) {
    for (const auto& given : many)
        for (const auto& made : new_groups(built(given, 0))) {
            auto groups = std::vector<std::vector<int>>{};
            for (const auto& group : made.groups) groups.push_back(laws::list(group));
            laws::expect_partition(groups, given.world, made.group_desc);
        }
    const auto cube = init_device_mesh({2, 2, 2}, std::nullopt, 0, 8);
    auto text = std::string{};
    for (const auto& made : new_groups(cube)) {
        text += made.group_desc;
        for (const auto& group : made.groups) text += " " + to_string(group);
        text += "\n";
    }
    EXPECT_EQ(text,
              "mesh_dim_0 {0, 4} {2, 6} {1, 5} {3, 7}\n"
              "mesh_dim_1 {0, 2} {1, 3} {4, 6} {5, 7}\n"
              "mesh_dim_2 {0, 1} {2, 3} {4, 5} {6, 7}\n");
    EXPECT_TRUE(new_groups(init_device_mesh({8}, {{"dp"}}, 0, 8)).empty()) << "the world's group exists";
}

TEST(Olmo, TheRootIsIndexableByWhatIsFlattened) {
    const auto mesh = built({16, hsdp(2, 2, {.cp = {{2}}, .pp = {{.degree = 2}}})}, 13);
    EXPECT_EQ(to_string(mesh["dp"].mesh()), to_string(get_dp_process_group(mesh)));
    EXPECT_EQ(error_of([&] { (void)mesh["dp_cp"]; }),
              "Invalid mesh_dim_names ('dp_cp',) specified. Valid mesh_dim_names are ('pp', 'dp_replicate', "
              "'dp_shard', 'cp', 'dp')");
    get_dp_model_mesh(mesh);
    EXPECT_EQ(get_device_mesh_info(mesh[{"pp", "dp_replicate", "dp_cp"}]),
              "3D device mesh with shape (pp=2, dp_replicate=2, dp_cp=4)");
    EXPECT_EQ(to_string(mesh["dp_cp"].mesh()), "{12..15}");
    EXPECT_EQ(to_string(flatten_mesh(get_pp_stage_mesh(mesh)).mesh()), "{8..15}");
    EXPECT_EQ(mesh["dp_replicate_dp_shard_cp"].get_local_rank(), 5);
    EXPECT_EQ(get_device_mesh_info(get_pp_stage_mesh(mesh, mesh[{"pp", "cp"}])),
              "2D device mesh with shape (dp_replicate=2, dp_shard=2)");
    EXPECT_EQ(
        error_of([&] {
            flatten_mesh(mesh[{"pp", "cp"}], "dp");
        }),
        "dp already exists for submesh of the mesh with dimensions ('pp', 'cp'). Please specify another "
        "valid mesh_dim_name.");
    EXPECT_EQ(error_of([&] { flatten_mesh(mesh[{"dp_cp"}], "again"); }),
              "'dp_cp' is flattened already, and no dimension of the root");
    EXPECT_EQ(error_of([&] {
                  (void)mesh[{"cp", "pp"}];
              }),
              "Invalid mesh_dim_names ('cp', 'pp') specified. Mesh dim indices should be in ascending order");
    EXPECT_EQ(to_string(mesh[{"pp", "cp"}]["cp"].mesh()), to_string(mesh["cp"].mesh()));
    EXPECT_EQ(error_of([&] { (void)mesh["pp"]["cp"]; }),
              "Invalid mesh_dim_names ('cp',) specified. Valid mesh_dim_names are ('pp',)");
    EXPECT_EQ(error_of([&] { (void)mesh["pp"]["dp"]; }),
              "Invalid mesh_dim_names ('dp',) specified. Valid mesh_dim_names are ('pp',)");
    EXPECT_EQ(error_of([&] { (void)mesh.get_group(); }),
              "Found the DeviceMesh have 4 dimensions; `mesh_dim` needs to be specified when "
              "device_mesh.ndim is not 1");
    EXPECT_EQ(error_of([&] { (void)mesh["pp"].get_group("tp"); }),
              "Mesh dimension 'tp' does not exist. Available mesh dimensions are: ('pp',)");
}

TEST(Olmo, ExpertDimensionsFoldIntoDataParallelOnes) {
    const auto experts = build_expert_parallel_mesh({2}, 5, 8);
    EXPECT_EQ(get_device_mesh_info(experts), "2D device mesh with shape (ep_replicate=4, ep_shard=2)");
    EXPECT_EQ(to_string(get_ep_mesh(experts).mesh()), "{4, 5}");
    EXPECT_EQ(get_device_mesh_info(get_dp_model_mesh(experts)), "1D device mesh with shape (dp=8,)");
    EXPECT_EQ(get_dp_process_group(experts).size(), 8);
    const auto both = init_device_mesh({2, 2, 2}, {{"dp", "ep", "tp"}}, 3, 8);
    EXPECT_EQ(get_device_mesh_info(get_dp_mesh(both)), "1D device mesh with shape (dp_ep=4,)");
    EXPECT_EQ(to_string(get_tp_mesh(both).mesh()), "{2, 3}");
    // What torch cannot slice is an error that leaves the mesh as it was.
    const auto apart = init_device_mesh({2, 2, 2}, {{"dp", "cp", "ep"}}, 3, 8);
    EXPECT_EQ(
        error_of([&] { get_dp_mesh(apart); }),
        "Invalid mesh_dim_names ('dp_ep', 'cp') specified. Mesh dim indices should be in ascending order");
    EXPECT_TRUE(apart.flattened().empty());
    EXPECT_EQ(error_of([] { build_expert_parallel_mesh({5}, 0, 8); }),
              "Expert parallelism requires world size (8) to be divisible by 'degree' (5)");
    EXPECT_EQ(error_of([] { build_expert_parallel_mesh({0}, 0, 8); }),
              "'degree' is 0, and nothing is divisible by 0");
}

TEST(Olmo, AMeshWithoutNamesOrDataParallelDimensionsHasNoParts) {
    const auto unnamed = init_device_mesh({2, 4}, std::nullopt, 0, 8);
    EXPECT_EQ(get_device_mesh_info(unnamed), "2D device mesh with shape (2, 4)");
    EXPECT_EQ(get_device_mesh_info(init_device_mesh({8}, std::nullopt, 0, 8)),
              "1D device mesh with shape (8,)");
    EXPECT_EQ(error_of([&] { get_dp_mesh(unnamed); }),
              "could not determine DP sub-mesh without dimension names");
    EXPECT_EQ(error_of([&] { get_pp_stage_mesh(unnamed, unnamed); }),
              "could not determine pipeline parallel stage sub-mesh without dimension names");
    EXPECT_EQ(error_of([&] { flatten_mesh(unnamed, "all"); }),
              "a mesh without dimension names cannot be flattened");
    EXPECT_EQ(error_of([&] { (void)unnamed["dim_0"]; }), "Cannot slice a DeviceMesh without mesh_dim_names!");
    const auto foreign = init_device_mesh({2, 4}, {{"cp", "tp"}}, 6, 8);
    EXPECT_EQ(error_of([&] { get_dp_model_mesh(foreign); }),
              "'cp' is folded into the data-parallel dimension before it, and 'tp' is none, in ('cp', 'tp')");
    EXPECT_EQ(get_dp_mesh(foreign).ndim(), 0);
    EXPECT_EQ(error_of([&] { get_dp_process_group(foreign); }),
              "Found the DeviceMesh have 0 dimensions; `mesh_dim` needs to be specified when "
              "device_mesh.ndim is not 1");
    EXPECT_EQ(error_of([&] {
                  get_tp_mesh(built({8, fsdp()}, 0));
              }),
              "could not determine tensor parallel sub-mesh from mesh with dimensions ('dp',)");
    EXPECT_EQ(error_of([&] {
                  get_dp_mesh(init_device_mesh({2, 2}, {{"dp_cp", "tp"}}, 0, 4));
              }),
              "'get_dp_mesh' should be called on the original world mesh");
}

TEST(Olmo, TheWorldMeshIsKeptOnceItIsBuilt) {
    auto world = WorldMesh(3, 8);
    world.build_world_mesh();
    EXPECT_FALSE(world.get_world_mesh()) << "nothing was given";
    EXPECT_THROW(world.build_world_mesh(fsdp({.tp = {{3}}})), dialect::Error);
    EXPECT_FALSE(world.get_world_mesh()) << "it failed";
    world.build_world_mesh(fsdp());
    EXPECT_EQ(get_device_mesh_info(*world.get_world_mesh()), "1D device mesh with shape (dp=8,)");
    EXPECT_EQ(error_of([&] { world.build_world_mesh(); }),
              "world mesh already exists! You can only call 'build_world_mesh' once!");
}

TEST(Olmo, ConfigurationsAreCheckedInTheOriginalsOrder) {
    const auto of = [](const ParallelConfigs& configs) {
        return error_of([&] { olmo::mesh(configs, 8, {.num_nodes = 2}); });
    };
    EXPECT_EQ(
        of({.tp = {{3}}}),
        "Data parallel config is required in addition to expert/tensor/context/pipeline parallel configs");
    EXPECT_EQ(of(fsdp({.tp = {{0}}, .cp = {{0}}, .pp = {{.degree = 3}}})),
              "PipelineParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = {{0}}, .cp = {{-1}}})),
              "ContextParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = {{8}}, .cp = {{2}}, .ep = {{0}}})),
              "TensorParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = {{2}}, .ep = {{3}}})),
              "ExpertParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = {{2}}, .ep = {{2}}})),
              "expert parallelism is mutually exclusive with tensor parallism");
    EXPECT_EQ(of(fsdp({.ep = {{2}}})),
              "expert parallelism can currently only be used with HSDP data parallelism");
    EXPECT_EQ(of(hsdp(3, 4, {.ep = {{2}}})),
              "data parallel world size (8) must be divisible by 'num_replicas' (3)");
    EXPECT_EQ(of(hsdp({}, 3)), "data parallel world size (8) must be divisible by 'shard_degree' (3)");
    EXPECT_EQ(of(hsdp({}, {}, {.ep = {{2}}})), "expert parallelism + HSDP requires the same sharding degree");
    EXPECT_EQ(of(hsdp({}, {}, {.ep = {{-2}}})), "nothing was thrown") << "negative: as many as there are";
    EXPECT_EQ(of(hsdp(0, {})), "num_replicas is 0, and nothing is divisible by 0");
    EXPECT_EQ(of(hsdp({}, 0)), "shard_degree is 0, and nothing is divisible by 0");
    EXPECT_EQ(of(hsdp(-2, {})), "invalid shape dimension -2 in -2 x -4; sizes are 1 or more");
    EXPECT_EQ(of(hsdp(4, 4)), "Mesh should not be bigger than default world size 8, but found 16 ranks!");
    EXPECT_EQ(
        laws::text_of<Refusal>([] { olmo::mesh(hsdp(2, 2), 8); }),
        "a mesh of 2 x 2 leaves ranks 4..7 of a world of 8 out; its sizes must multiply to the world's");
    EXPECT_EQ(error_of([] { WorldMesh(8, 8).build_world_mesh(fsdp()); }),
              "rank 8 of a world of 8; ranks are 0..7");
    EXPECT_EQ(error_of([] { data_parallel_type("zero"); }),
              "'zero' is not a valid DataParallelType; they are fsdp, hsdp and ddp");
}

TEST(Olmo, ReplicasFollowFromTheNodes) {
    const auto neither = DataParallelConfig{.name = DataParallelType::hsdp};
    EXPECT_EQ(neither.get_replicate_and_shard_degree(8, 3), std::pair(3, 2)) << "the whole part";
    EXPECT_EQ(get_num_nodes({.num_nodes = 3, .local_world_size = 2}, 8), 3);
    EXPECT_EQ(get_num_nodes({.local_world_size = 2}, 8), 4);
    EXPECT_EQ(error_of([] { get_num_nodes({}, 8); }),
              "the number of nodes of a world of 8 ranks is not known; give NUM_NODES or LOCAL_WORLD_SIZE");
    EXPECT_EQ(error_of([] { get_num_nodes({}, 1); }),
              "the number of nodes of a world of 1 rank is not known; give NUM_NODES or LOCAL_WORLD_SIZE");
    EXPECT_EQ(to_string(olmo::mesh(hsdp({}, {}, {.tp = {{2}}}), 16, {.local_world_size = 4})),
              "dp_replicate=4 dp_shard=2 tp=2");
    threads::run(2, [](World& world) {
        if (world.rank() != 0) return;
        EXPECT_EQ(environment_of(world).local_world_size, 2) << "threads of one host";
        setenv("NUM_NODES", "2", 1);
        setenv("LOCAL_WORLD_SIZE", "1", 1);
        EXPECT_EQ(environment_of(world).num_nodes, 2);
        EXPECT_EQ(environment_of(world).local_world_size, 1);
        setenv("NUM_NODES", "two", 1);
        EXPECT_EQ(error_of([&] { environment_of(world); }), "NUM_NODES is 'two', which is no number");
        unsetenv("NUM_NODES");
        unsetenv("LOCAL_WORLD_SIZE");
    });
}

TEST(Olmo, EveryGroupIsLive) {
    for (const auto& given : many)
        threads::run(given.world, [&](World& world) {
            const auto me = world.join(plan(given.configs, given.world));
            const auto mesh = WorldMesh(me.rank(), given.world).build_world_mesh(given.configs);
            auto groups = ProcessGroups(me, mesh);
            for_each_part(mesh, [&](const std::string& name, const DeviceMesh& part) {
                if (name == "dp flattened") return;  // a name of this test's own
                for (const auto& dim : part.mesh_dim_names().value_or(std::vector<std::string>{}))
                    laws::expect_live(groups.get_group(part, dim), laws::list(part.get_group(dim)), me.rank(),
                                      name + " " + dim);
            });
            laws::expect_live(groups.get_dp_process_group(), laws::list(get_dp_process_group(mesh)),
                              me.rank(), "dp process group");
        });
}

TEST(Olmo, ExpertsJoinBesideTheDenseMeshAndOtherGroupsAreDeclared) {
    threads::run(8, [](World& world) {
        const auto configs = fsdp({.tp = {{2}}, .pp = {{.degree = 2}}});
        const auto experts = ExpertParallelConfig{4};
        auto both = plan(configs, 8);
        both[0].name = "dense";
        both[0].over.push_back({"dp", "tp"});
        both.push_back(plan(experts, 8)[0]);
        both[1].name = "experts";
        const auto me = world.join(both);

        const auto mesh = WorldMesh(me.rank(), 8).build_world_mesh(configs);
        const auto stage = flatten_mesh(get_pp_stage_mesh(mesh), "stage");
        auto dense = ProcessGroups(me["dense"], mesh);
        laws::expect_live(dense.get_group(stage), laws::list(stage.mesh()), me.rank(), "stage");
        EXPECT_EQ(error_of([&] {
                      dense.get_group(flatten_mesh(mesh[{"pp", "tp"}], "model"));
                  }),
                  "there is no group over ('pp', 'tp'); flatten the mesh before its ProcessGroups are made, "
                  "and declare the group in the plan");

        const auto expert_mesh = build_expert_parallel_mesh(experts, me.rank(), 8);
        auto groups = ProcessGroups(me["experts"], expert_mesh);
        laws::expect_live(groups.get_group(get_ep_mesh(expert_mesh)),
                          laws::list(get_ep_mesh(expert_mesh).mesh()), me.rank(), "ep");
        EXPECT_EQ(groups.get_dp_process_group().size(), 8);
        EXPECT_EQ(error_of([&] { groups.get_group(stage); }),
                  "these are the groups of mesh ep_replicate=2 ep_shard=4, not of pp=2 dp=2 tp=2");
    });
}

TEST(Olmo, AMemberThatLacksAGroupIsRefused) {
    threads::run(8, [](World& world) {
        const auto configs = hsdp(2, 2, {.cp = {{2}}});
        const auto mesh = WorldMesh(world.rank(), 8).build_world_mesh(configs);
        const auto bare = world.join({{"dp_replicate", 2}, {"dp_shard", 2}, {"cp", 2}});
        EXPECT_EQ(
            laws::text_of<UsageError>([&] { ProcessGroups(bare, mesh); }),
            "'dp_replicate,dp_shard' of mesh dp_replicate=2 dp_shard=2 cp=2 was not declared; add .over "
            "= {{\"dp_replicate\", \"dp_shard\"}} to the declaration; or join with olmo::plan of the "
            "same configurations, which has it");
        const auto other = world.join(plan(fsdp(), 8));
        EXPECT_EQ(laws::text_of<UsageError>([&] { ProcessGroups(other, mesh); }),
                  "the member was joined with mesh dp=8, not dp_replicate=2 dp_shard=2 cp=2; join with "
                  "olmo::plan of the same configurations");
    });
}

TEST(Olmo, EveryStageRunsOnOneRankOfThePipeline) {
    for (auto style : {PipelineSplitStyle::loop, PipelineSplitStyle::v})
        for (int degree = 1; degree <= 6; ++degree) {
            const auto config = PipelineParallelConfig{.degree = degree, .style = style};
            auto stages = std::vector<std::vector<int>>{};
            for (int rank = 0; rank < degree; ++rank)
                stages.push_back(config.stage_ids_this_rank(rank, 2 * degree));
            laws::expect_partition(stages, 2 * degree, "stages");
            // The rank of the last stage is the first to be done with a batch.
            const auto& last = stages[static_cast<std::size_t>(config.final_stage_rank())];
            EXPECT_EQ(last.back(), 2 * degree - 1);
            auto order = std::vector<int>{};
            for (auto rank : config.rank_completion_order()) order.push_back(rank);
            EXPECT_EQ(order.front(), config.final_stage_rank());
            laws::expect_partition({order}, degree, "completion order");
        }
    const auto four = PipelineParallelConfig{.degree = 4};
    EXPECT_EQ(error_of([&] { (void)four.stage_ids_this_rank(0, 6); }),
              "num_stages 6 must be evenly divisible by pipeline size 4");
    EXPECT_EQ(laws::text_of<Refusal>([&] { (void)four.stage_ids_this_rank(7, 8); }),
              "rank 7 of a pipeline of 4; its ranks are 0..3");
    EXPECT_EQ(laws::text_of<Refusal>([&] { (void)four.stage_ids_this_rank(0, -8); }),
              "num_stages is -8; it must be 1 or more");
    EXPECT_EQ(laws::text_of<Refusal>([] { (void)PipelineParallelConfig{.degree = 0}.final_stage_rank(); }),
              "PipelineParallelConfig.degree is 0; it must be 1 or more");
    const auto v = PipelineParallelConfig{.degree = 4, .schedule = PipelineScheduleType::zbv_zero_bubble};
    EXPECT_EQ(error_of([&] { (void)v.stage_ids_this_rank(0, 4); }),
              "v schedules assume 2 stages per rank, got 1");
}

TEST(Olmo, AScheduleKnowsItsStagesAndMicrobatches) {
    const auto pp = init_device_mesh({4, 2}, {{"pp", "dp"}}, 0, 8)["pp"];
    const auto looped = PipelineSchedule({{0, 8}, {4, 8}}, pp, PipelineScheduleType::looped_bfs);
    EXPECT_TRUE(looped.has_first_stage());
    EXPECT_FALSE(looped.has_last_stage());
    EXPECT_EQ(looped.num_microbatches, 4);
    const auto single = PipelineSchedule({{3, 4}}, pp, PipelineScheduleType::gpipe, 16);
    EXPECT_FALSE(single.has_first_stage());
    EXPECT_TRUE(single.has_last_stage());
    EXPECT_EQ(single.num_microbatches, 16);
    EXPECT_EQ(error_of([&] {
                  PipelineSchedule({{0, 8}, {4, 8}}, pp, PipelineScheduleType::single_1F1B);
              }),
              "Expected a single stage for '1F1B' pipeline schedule");
    EXPECT_EQ(error_of([&] {
                  PipelineSchedule({{0, 4}}, pp, PipelineScheduleType::interleaved_1F1B);
              }),
              "Multi-stage schedule expects at least two stages but got 1");
    EXPECT_EQ(error_of([&] { PipelineSchedule({}, pp, PipelineScheduleType::gpipe); }),
              "a pipeline schedule without stages was asked for");
    EXPECT_EQ(laws::text_of<Refusal>([&] {
                  PipelineSchedule({{0, 4}}, pp, PipelineScheduleType::gpipe, 0);
              }),
              "num_microbatches is 0; it must be 1 or more");
    for (auto name : {"1F1B", "Interleaved1F1B", "GPipe", "LoopedBFS", "InterleavedZeroBubble",
                      "ZBVZeroBubble", "Custom1F1B", "CustomInterleaved1F1B", "Custom1F1BV"})
        EXPECT_EQ(to_string(pipeline_schedule_type(name)), name);
    EXPECT_EQ(error_of([] { pipeline_schedule_type("GPpipe"); }), "Invalid pipeline schedule 'GPpipe'");
    EXPECT_EQ(error_of([] { pipeline_split_style("u"); }), "Invalid pipeline split style 'u'");
}

TEST(Olmo, SchedulesOfItsOwnHaveOneStyleAndTwoStagesARank) {
    const auto custom = [](PipelineScheduleType schedule, std::optional<PipelineSplitStyle> style = {}) {
        return PipelineParallelConfig{.degree = 4, .schedule = schedule, .style = style};
    };
    const auto v = custom(PipelineScheduleType::custom_1F1B_V);
    EXPECT_EQ(v.infer_style(), PipelineSplitStyle::v);
    EXPECT_EQ(v.stage_ids_this_rank(1, 8), (std::vector{1, 6}));
    EXPECT_EQ(v.final_stage_rank(), 0);
    const auto interleaved = custom(PipelineScheduleType::custom_interleaved_1F1B);
    EXPECT_EQ(interleaved.infer_style(), PipelineSplitStyle::loop);
    EXPECT_EQ(interleaved.stage_ids_this_rank(1, 8), (std::vector{1, 5}));
    EXPECT_EQ(custom(PipelineScheduleType::custom_1F1B, PipelineSplitStyle::v).final_stage_rank(), 0);
    EXPECT_TRUE(is_single_stage(PipelineScheduleType::custom_1F1B));
    EXPECT_TRUE(is_multi_stage(PipelineScheduleType::custom_1F1B_V));
    EXPECT_EQ(error_of([&] {
                  (void)custom(PipelineScheduleType::custom_1F1B_V, PipelineSplitStyle::loop).infer_style();
              }),
              "custom_1F1B_V requires pipeline split style 'v'");
    EXPECT_EQ(error_of([&] {
                  (void)custom(PipelineScheduleType::custom_interleaved_1F1B, PipelineSplitStyle::v)
                      .rank_completion_order();
              }),
              "custom_interleaved_1F1B requires pipeline split style 'loop'; use custom_1F1B_V for V-shaped "
              "placement");
    const auto pp = init_device_mesh({4, 2}, {{"pp", "dp"}}, 0, 8)["pp"];
    EXPECT_EQ(PipelineSchedule({{0, 8}, {7, 8}}, pp, PipelineScheduleType::custom_1F1B_V).num_microbatches,
              4);
    EXPECT_EQ(error_of([&] {
                  PipelineSchedule({{0, 4}}, pp, PipelineScheduleType::custom_interleaved_1F1B);
              }),
              "Interleaved 1F1B requires exactly 2 stages per rank, got 1");
    EXPECT_EQ(error_of([&] {
                  PipelineSchedule({{0, 4}}, pp, PipelineScheduleType::custom_1F1B);
              }),
              "Custom 1F1B schedule is not implemented yet.");
}

TEST(Olmo, ThePipelineMayHaveAGroupOfItsOwnForActivationsAndGradients) {
    auto config = PipelineParallelConfig{.degree = 2};
    const auto mesh = [](int rank) { return built({8, fsdp({.tp = {{2}}, .pp = {{.degree = 2}}})}, rank); };
    EXPECT_FALSE(config.build_p2p_process_group(mesh(0)));
    config.p2p_use_separate_group = true;
    config.p2p_nccl_max_ctas = 4;
    for (int rank = 0; rank < 8; ++rank)
        EXPECT_EQ(to_string(*config.build_p2p_process_group(mesh(rank))),
                  to_string(get_pp_mesh(mesh(rank)).mesh()));
    const auto of = [&](const PipelineParallelConfig& wrong) {
        return error_of([&] { (void)wrong.build_p2p_process_group(mesh(0)); });
    };
    using P2P = PipelineP2PBackend;
    EXPECT_EQ(of({.p2p_nccl_min_ctas = 1}),
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas require p2p_use_separate_group=True");
    EXPECT_EQ(of({.p2p_backend = P2P::nccl_rma, .p2p_nccl_min_ctas = 0}),
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas only apply to p2p_backend='nccl'");
    EXPECT_EQ(of({.p2p_nccl_min_ctas = 0}), "p2p_nccl_min_ctas must be positive, and is 0");
    EXPECT_EQ(of({.p2p_nccl_max_ctas = -1}), "p2p_nccl_max_ctas must be positive, and is -1");
    EXPECT_EQ(of({.p2p_nccl_min_ctas = 3, .p2p_nccl_max_ctas = 2}),
              "p2p_nccl_min_ctas cannot exceed p2p_nccl_max_ctas, and 3 does 2");
    EXPECT_EQ(of({.p2p_backend = P2P::nccl_device}),
              "p2p_backend='nccl_device' is reserved but not implemented yet");
    EXPECT_EQ(error_of([&] {
                  (void)config.build_p2p_process_group(built({8, fsdp()}, 0));
              }),
              "could not build PP P2P groups from mesh with dimensions ('dp',)");
    EXPECT_EQ(
        error_of([&] { (void)config.build_p2p_process_group(init_device_mesh({8}, std::nullopt, 0, 8)); }),
        "could not build PP P2P groups without mesh dimension names");
    for (auto name : {"nccl", "nccl_rma", "nccl_rma_ack", "nccl_device"})
        EXPECT_EQ(to_string(pipeline_p2p_backend(name)), name);
    EXPECT_EQ(error_of([] { pipeline_p2p_backend("mpi"); }), "Invalid pipeline P2P backend 'mpi'");
}

TEST(Olmo, ExpertsOfTheDdpTrainModuleTakeTheirRanksFromDpAndCpOfAStage) {
    const auto ddp = [](ParallelConfigs others) {
        others.dp = DataParallelConfig{.name = DataParallelType::ddp};
        return others;
    };
    const auto configs = ddp({.cp = {{2}}, .pp = {{.degree = 2}}, .ep = {{4}}});
    for (int rank = 0; rank < 16; ++rank) {
        const auto [dense, moe] = build_dense_and_moe_mesh(configs, rank, 16);
        EXPECT_EQ(get_device_mesh_info(dense), "3D device mesh with shape (pp=2, dp=4, cp=2)");
        EXPECT_EQ(get_device_mesh_info(*moe), "3D device mesh with shape (pp=2, ep_dp=2, ep_mp=4)");
        EXPECT_EQ(laws::list(dense["pp"].mesh()), laws::list((*moe)["pp"].mesh()));
        EXPECT_EQ(laws::list(get_dp_model_mesh(dense).mesh()), laws::list((*moe)[{"ep_dp", "ep_mp"}].mesh()));
    }
    EXPECT_FALSE(build_dense_and_moe_mesh(ddp({}), 0, 8).moe);
    EXPECT_EQ(build_dense_and_moe_mesh(ddp({.cp = {{2}}, .ep = {{-1}}}), 0, 8).moe->shape(),
              (std::vector{1, 8}));
    const auto of = [&](const ParallelConfigs& wrong) {
        return error_of([&] { build_dense_and_moe_mesh(wrong, 0, 8); });
    };
    EXPECT_TRUE(of({.cp = {{2}}}).starts_with("Data parallel config is required"));
    EXPECT_EQ(
        of(ddp({.pp = {{.degree = 1}}})),
        "PipelineParallelConfig.degree is 1; OLMoDDPTrainModule takes 2 or more that divide the 8 ranks "
        "which are left for it");
    EXPECT_TRUE(of(ddp({.cp = {{3}}})).starts_with("ContextParallelConfig.degree is 3;"));
    EXPECT_TRUE(of(ddp({.tp = {{0}}})).starts_with("TensorParallelConfig.degree is 0;"));
    EXPECT_TRUE(
        of(ddp({.pp = {{.degree = 2}}, .ep = {{8}}})).starts_with("ExpertParallelConfig.degree is 8;"));
    EXPECT_EQ(laws::text_of<Refusal>([&] { build_dense_and_moe_mesh(ddp({.tp = {{2}}}), 0, 8); }),
              "a mesh of 4 leaves ranks 4..7 of a world of 8 out; its sizes must multiply to the world's");
}

}  // namespace of_olmo
