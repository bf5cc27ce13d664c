// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/olmo.hpp>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>

#include "frameworks/laws.hpp"

namespace of_olmo {

using namespace rankmesh;
using frameworks::init_device_mesh;
using frameworks::Refusal;
using olmo::DeviceMesh;
using olmo::Settings;
using olmo::State;

namespace {

struct Given {
    int world;
    Settings configs;
};

Settings hsdp(std::optional<int> replicas, std::optional<int> shards, Settings others = {}) {
    others.dp_type = "hsdp";
    others.num_replicas = replicas;
    others.shard_degree = shards;
    return others;
}

Settings fsdp(Settings others = {}) {
    others.dp_type = "fsdp";
    return others;
}

const auto many = std::vector<Given>{{1, {}},
                                     {7, {}},
                                     {6, fsdp()},
                                     {8, fsdp({.tp = 2})},
                                     {12, fsdp({.tp = 2, .cp = 3, .pp = 2})},
                                     {8, fsdp({.tp = 1, .cp = 1, .pp = 1})},
                                     {8, hsdp(2, {})},
                                     {8, hsdp({}, 2, {.tp = 2})},
                                     {16, hsdp(2, 2, {.cp = 2, .pp = 2})},
                                     {12, hsdp(3, {}, {.cp = 2, .ep = 2})},
                                     {8, hsdp(1, 8, {.ep = -1})},
                                     {32, hsdp(2, 2, {.tp = 2, .cp = 2, .pp = 2})}};

const auto any = State();  // which is asked about meshes

DeviceMesh built(const Given& given, int rank) {
    return *State(given.configs, rank, given.world).get_world_mesh();
}

DeviceMesh dp_flattened(const DeviceMesh& mesh) {
    const auto dp = any.get_dp_mesh(mesh);
    return dp.ndim() > 1 ? dp.flatten("dp") : dp;
}

DeviceMesh flatten_mesh(const DeviceMesh& mesh, std::string_view name = {}) { return mesh.flatten(name); }

using Part = std::function<DeviceMesh(const DeviceMesh&)>;
const auto parts = std::map<std::string, Part>{
    {"dp_model", [](const DeviceMesh& mesh) { return any.get_dp_model_mesh(mesh); }},
    {"dp", [](const DeviceMesh& mesh) { return any.get_dp_mesh(mesh); }},
    {"dp_shard", [](const DeviceMesh& mesh) { return any.get_dp_shard_mesh(mesh); }},
    {"dp_replicate", [](const DeviceMesh& mesh) { return any.get_dp_replicate_mesh(mesh); }},
    {"tp", [](const DeviceMesh& mesh) { return any.get_tp_mesh(mesh); }},
    {"cp", [](const DeviceMesh& mesh) { return any.get_cp_mesh(mesh); }},
    {"pp", [](const DeviceMesh& mesh) { return any.get_pp_mesh(mesh); }},
    {"ep", [](const DeviceMesh& mesh) { return any.get_ep_mesh(mesh); }},
    {"pp_stage", [](const DeviceMesh& mesh) { return any.get_pp_stage_mesh(mesh); }},
    {"dp flattened", dp_flattened}};

/// Does something with every part that the mesh has.
void for_each_part(const DeviceMesh& mesh,
                   const std::function<void(const std::string& name, const DeviceMesh& part)>& body) {
    for (const auto& [name, part] : parts) {
        auto found = std::optional<DeviceMesh>{};
        try {
            found = part(mesh);
        } catch (const frameworks::Error& error) {
            EXPECT_EQ(error.fault, frameworks::Fault::unknown) << name << ": " << error.what();
        }
        if (found) body(name, *found);
    }
}

template <class Body>
std::string error_of(Body&& body) {
    return laws::text_of<frameworks::Error>(body);
}

}  // namespace

TEST(Olmo, EveryPartHasEachRankAtItsCoordinateAndPartsCoverTheWorld) {
    for (const auto& given : many) {
        auto seen = std::map<std::string, std::set<std::vector<int>>>{};
        for (int rank = 0; rank < given.world; ++rank)
            for_each_part(built(given, rank), [&](const std::string& name, const DeviceMesh& part) {
                SCOPED_TRACE(name + " of rank " + std::to_string(rank) + " in " +
                             any.get_device_mesh_info(built(given, 0)));
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

/// All groups by kind, which is what torch calls them.
std::map<std::string, std::vector<std::vector<int>>> torchs(const Given& given) {
    const auto groups = olmo::groups(given.configs, given.world);
    auto all = std::map<std::string, std::vector<std::vector<int>>>{};
    for (const auto& kind : groups.kinds())
        for (int i = 0; i < groups.count(kind); ++i) all[kind].push_back(laws::list(groups.group(kind, i)));
    return all;
}

TEST(Olmo, GroupsAreMadeInTheOrderOfTorchAndCoverTheWorld) {
    for (const auto& given : many)
        for (const auto& [kind, listed] : torchs(given)) laws::expect_partition(listed, given.world, kind);
    using Lists = std::vector<std::vector<int>>;
    const auto cube = torchs({8, fsdp({.tp = 2, .pp = 2})});
    EXPECT_EQ(cube.at("mesh_pp"), (Lists{{0, 4}, {2, 6}, {1, 5}, {3, 7}}));
    EXPECT_EQ(cube.at("mesh_dp"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
    EXPECT_EQ(cube.at("mesh_tp"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    EXPECT_TRUE(torchs({8, fsdp({})}).empty()) << "the world's group exists";
}

TEST(Olmo, TheRootIsIndexableByWhatIsFlattened) {
    const auto mesh = built({16, hsdp(2, 2, {.cp = 2, .pp = 2})}, 13);
    EXPECT_EQ(to_string(mesh["dp"].mesh()), to_string(dp_flattened(mesh).mesh()));
    EXPECT_EQ(error_of([&] { (void)mesh["dp_cp"]; }),
              "Invalid mesh_dim_names ('dp_cp',) specified. Valid mesh_dim_names are ('pp', 'dp_replicate', "
              "'dp_shard', 'cp', 'dp')");
    any.get_dp_model_mesh(mesh);
    EXPECT_EQ(any.get_device_mesh_info(mesh[{"pp", "dp_replicate", "dp_cp"}]),
              "3D device mesh with shape (pp=2, dp_replicate=2, dp_cp=4)");
    EXPECT_EQ(to_string(mesh["dp_cp"].mesh()), "{12..15}");
    EXPECT_EQ(to_string(flatten_mesh(any.get_pp_stage_mesh(mesh)).mesh()), "{8..15}");
    EXPECT_EQ(mesh["dp_replicate_dp_shard_cp"].get_local_rank(), 5);
    EXPECT_EQ(any.get_device_mesh_info(any.get_pp_stage_mesh(mesh, mesh[{"pp", "cp"}])),
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
    const auto experts = State(5, 8).build_expert_parallel_mesh(2);
    EXPECT_EQ(any.get_device_mesh_info(experts), "2D device mesh with shape (ep_replicate=4, ep_shard=2)");
    EXPECT_EQ(to_string(any.get_ep_mesh(experts).mesh()), "{4, 5}");
    EXPECT_EQ(any.get_device_mesh_info(any.get_dp_model_mesh(experts)), "1D device mesh with shape (dp=8,)");
    EXPECT_EQ(dp_flattened(experts).size(), 8);
    const auto both = init_device_mesh({2, 2, 2}, {{"dp", "ep", "tp"}}, 3, 8);
    EXPECT_EQ(any.get_device_mesh_info(any.get_dp_mesh(both)), "1D device mesh with shape (dp_ep=4,)");
    EXPECT_EQ(to_string(any.get_tp_mesh(both).mesh()), "{2, 3}");
    // What torch cannot slice is an error that leaves the mesh as it was.
    const auto apart = init_device_mesh({2, 2, 2}, {{"dp", "cp", "ep"}}, 3, 8);
    EXPECT_EQ(
        error_of([&] { any.get_dp_mesh(apart); }),
        "Invalid mesh_dim_names ('dp_ep', 'cp') specified. Mesh dim indices should be in ascending order");
    EXPECT_TRUE(apart.flattened().empty());
    EXPECT_EQ(error_of([] { State(0, 8).build_expert_parallel_mesh(5); }),
              "Expert parallelism requires world size (8) to be divisible by 'degree' (5)");
    EXPECT_EQ(error_of([] { State(0, 8).build_expert_parallel_mesh(0); }),
              "'degree' is 0, and nothing is divisible by 0");
}

TEST(Olmo, AMeshWithoutNamesOrDataParallelDimensionsHasNoParts) {
    const auto unnamed = init_device_mesh({2, 4}, std::nullopt, 0, 8);
    EXPECT_EQ(any.get_device_mesh_info(unnamed), "2D device mesh with shape (2, 4)");
    EXPECT_EQ(any.get_device_mesh_info(init_device_mesh({8}, std::nullopt, 0, 8)),
              "1D device mesh with shape (8,)");
    EXPECT_EQ(error_of([&] { any.get_dp_mesh(unnamed); }),
              "could not determine DP sub-mesh without dimension names");
    EXPECT_EQ(error_of([&] { any.get_pp_stage_mesh(unnamed, unnamed); }),
              "could not determine pipeline parallel stage sub-mesh without dimension names");
    EXPECT_EQ(error_of([&] { flatten_mesh(unnamed, "all"); }),
              "a mesh without dimension names cannot be flattened");
    EXPECT_EQ(error_of([&] { (void)unnamed["dim_0"]; }), "Cannot slice a DeviceMesh without mesh_dim_names!");
    const auto foreign = init_device_mesh({2, 4}, {{"cp", "tp"}}, 6, 8);
    EXPECT_EQ(error_of([&] { any.get_dp_model_mesh(foreign); }),
              "'cp' is folded into the data-parallel dimension before it, and 'tp' is none, in ('cp', 'tp')");
    EXPECT_EQ(any.get_dp_mesh(foreign).ndim(), 0);
    EXPECT_EQ(error_of([&] { dp_flattened(foreign).get_group(); }),
              "Found the DeviceMesh have 0 dimensions; `mesh_dim` needs to be specified when "
              "device_mesh.ndim is not 1");
    EXPECT_EQ(error_of([&] {
                  any.get_tp_mesh(built({8, fsdp()}, 0));
              }),
              "could not determine tensor parallel sub-mesh from mesh with dimensions ('dp',)");
    EXPECT_EQ(error_of([&] {
                  any.get_dp_mesh(init_device_mesh({2, 2}, {{"dp_cp", "tp"}}, 0, 4));
              }),
              "'get_dp_mesh' should be called on the original world mesh");
}

TEST(Olmo, TheWorldMeshIsKeptOnceItIsBuilt) {
    auto world = State(3, 8);
    EXPECT_FALSE(world.get_world_mesh());
    EXPECT_THROW(world.build_world_mesh(fsdp({.tp = 3})), frameworks::Error);
    EXPECT_FALSE(world.get_world_mesh()) << "it failed";
    EXPECT_EQ(error_of([&] { world.get_dp_mesh({}); }), "the world mesh is not built");
    world.build_world_mesh(fsdp());
    EXPECT_EQ(world.get_device_mesh_info(world.get_world_mesh()), "1D device mesh with shape (dp=8,)");
    EXPECT_EQ(world.get_dp_mesh({}), (*world.get_world_mesh())["dp"]) << "no mesh stands for the world mesh";
    EXPECT_EQ(error_of([&] { world.build_world_mesh(); }), "the world mesh is already built");
}

TEST(Olmo, ConfigurationsAreCheckedInTheOriginalsOrder) {
    const auto of = [](Settings configs) {
        configs.num_nodes = 2;
        return error_of([&] { olmo::groups(configs, 8); });
    };
    EXPECT_EQ(
        of({.tp = 3}),
        "Data parallel config is required in addition to expert/tensor/context/pipeline parallel configs");
    EXPECT_EQ(of(fsdp({.tp = 0, .cp = 0, .pp = 3})),
              "PipelineParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = 0, .cp = -1})),
              "ContextParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = 8, .cp = 2, .ep = 0})),
              "TensorParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = 2, .ep = 3})),
              "ExpertParallelConfig.degree must be at least 1 and divide into the world size");
    EXPECT_EQ(of(fsdp({.tp = 2, .ep = 2})), "expert parallelism is mutually exclusive with tensor parallism");
    EXPECT_EQ(of(fsdp({.ep = 2})),
              "expert parallelism can currently only be used with HSDP data parallelism");
    EXPECT_EQ(of(hsdp(3, 4, {.ep = 2})),
              "data parallel world size (8) must be divisible by 'num_replicas' (3)");
    EXPECT_EQ(of(hsdp({}, 3)), "data parallel world size (8) must be divisible by 'shard_degree' (3)");
    EXPECT_EQ(of(hsdp({}, {}, {.ep = 2})), "expert parallelism + HSDP requires the same sharding degree");
    EXPECT_EQ(of(hsdp({}, {}, {.ep = -2})), "nothing was thrown") << "negative: as many as there are";
    EXPECT_EQ(of(hsdp(0, {})), "num_replicas is 0, and nothing is divisible by 0");
    EXPECT_EQ(of(hsdp({}, 0)), "shard_degree is 0, and nothing is divisible by 0");
    EXPECT_EQ(of(hsdp(-2, {})), "invalid shape dimension -2 in -2 x -4; sizes are 1 or more");
    EXPECT_EQ(of(hsdp(4, 4)), "Mesh should not be bigger than default world size 8, but found 16 ranks!");
    EXPECT_EQ(
        laws::text_of<Refusal>([] { olmo::groups(hsdp(2, 2), 8); }),
        "a mesh of 2 x 2 leaves ranks 4..7 of a world of 8 out; its sizes must multiply to the world's");
    EXPECT_EQ(error_of([] { State(fsdp(), 8, 8); }), "rank 8 of a world of 8; ranks are 0..7");
    EXPECT_EQ(of({.dp_type = "zero"}), "'zero' is not a valid DataParallelType; they are fsdp, hsdp and ddp");
    EXPECT_EQ(error_of([] {
                  frameworks::Groups("olmo", {{"dp_type", "fsdp"}, {"schedule", "1F1B"}}, 8);
              }),
              "pp_config has a schedule and no degree; give its degree");
    EXPECT_EQ(of({.shard_degree = 2}), "num_replicas and shard_degree are of hsdp, and dp_type is not given");
}

TEST(Olmo, ReplicasFollowFromTheNodes) {
    const auto world = State(0, 8);
    EXPECT_EQ(any.get_replicate_and_shard_degree(8, {}, {}, 3), (std::vector{3, 2})) << "the whole part";
    EXPECT_EQ(any.get_replicate_and_shard_degree(8, 4), (std::vector{4, 2}));
    EXPECT_EQ(world.get_num_nodes(3, 2), 3);
    EXPECT_EQ(world.get_num_nodes({}, 2), 4);
    const auto unknown = std::string(
        "OLMo-core's hsdp makes a replica of each node, and how many nodes a world of 8 ranks has is not "
        "known; "
        "give num_replicas, shard_degree, num_nodes or local_world_size, or give NUM_NODES or "
        "LOCAL_WORLD_SIZE "
        "in the environment");
    EXPECT_EQ(error_of([&] { world.get_num_nodes({}); }), unknown);
    EXPECT_EQ(error_of([&] { olmo::groups(hsdp({}, {}), 8); }), unknown);
    EXPECT_EQ(to_string(olmo::groups(hsdp({}, {}, {.tp = 2, .local_world_size = 4}), 16).mesh()),
              "dp_replicate=4 dp_shard=2 tp=2");
    setenv("NUM_NODES", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    EXPECT_EQ(world.get_num_nodes({}), 2);
    EXPECT_EQ(world.get_num_nodes({}, 4), 2) << "what is said is not mixed with the environment";
    unsetenv("NUM_NODES");
    EXPECT_EQ(world.get_num_nodes({}), 8);
    setenv("NUM_NODES", "two", 1);
    EXPECT_EQ(error_of([&] { world.get_num_nodes({}); }), "NUM_NODES is 'two', which is no number");
    unsetenv("NUM_NODES");
    unsetenv("LOCAL_WORLD_SIZE");
}

TEST(Olmo, EveryGroupIsLive) {
    for (const auto& given : many)
        threads::run(given.world, [&](World& world) {
            const auto me = world.join(olmo::plan(given.configs, given.world));
            auto groups = olmo::WorldMesh(me, given.configs);
            const auto mesh = *groups.get_world_mesh();
            groups.get_dp_model_mesh(mesh);  // flattens dp_cp
            auto names = mesh.mesh_dim_names().value();
            for (const auto& [name, axes] : mesh.flattened()) names.push_back(name);
            for (const auto& name : names)
                laws::expect_live(groups.get_group(name), laws::list(mesh.get_group(name)), me.rank(), name);
            laws::expect_live(groups.get_dp_process_group(), laws::list(dp_flattened(mesh).mesh()), me.rank(),
                              "dp process group");
            const auto& state = static_cast<const State&>(groups);
            EXPECT_EQ(laws::list(state.get_dp_process_group()), laws::list(dp_flattened(mesh).mesh()));
            EXPECT_EQ(error_of([&] { groups.get_group("ep"); }),
                      "Mesh dimension 'ep' does not exist. Available mesh dimensions are: " +
                          frameworks::to_string(mesh.mesh_dim_names().value()));
        });
}

TEST(Olmo, GroupsOfOtherMeshesJoinBesideThoseOfTheWorldMesh) {
    threads::run(8, [](World& world) {
        const auto configs = fsdp({.tp = 2, .pp = 2});
        auto plan = olmo::plan(configs, 8);
        plan.push_back({.name = "experts", .mesh = {{"ep_replicate", 2}, {"ep_shard", 4}}});
        const auto me = world.join(plan);
        auto groups = olmo::WorldMesh(me, configs);
        EXPECT_EQ(groups.get_group("pp").size(), 2);
        const auto experts = groups.build_expert_parallel_mesh(4);
        auto ep = me["experts"].on("ep_shard");
        laws::expect_live(ep, laws::list(groups.get_ep_mesh(experts).mesh()), me.rank(), "ep");
    });
}

TEST(Olmo, AMemberOfAnotherPlanIsRefused) {
    threads::run(8, [](World& world) {
        const auto other = world.join(olmo::plan(fsdp({.pp = 2}), 8));
        EXPECT_NE(laws::text_of<UsageError>([&] {
                      olmo::WorldMesh(other, hsdp(2, 2, {.cp = 2}));
                  }).find("join with olmo::plan(settings, world_size)"),
                  std::string::npos);
    });
}

TEST(Olmo, EveryStageRunsOnOneRankOfThePipeline) {
    for (const auto* style : {"loop", "v"})
        for (int degree = 1; degree <= 6; ++degree) {
            const auto schedule = "Interleaved1F1B";
            auto stages = std::vector<std::vector<int>>{};
            for (int rank = 0; rank < degree; ++rank)
                stages.push_back(any.stage_ids_this_rank(rank, 2 * degree, degree, schedule, style));
            laws::expect_partition(stages, 2 * degree, "stages");
            // The rank of the last stage is the first to be done with a batch.
            const auto last = any.final_stage_rank(degree, schedule, style);
            EXPECT_EQ(stages[static_cast<std::size_t>(last)].back(), 2 * degree - 1);
            const auto order = any.rank_completion_order(degree, schedule, style);
            EXPECT_EQ(order.front(), last);
            laws::expect_partition({order}, degree, "completion order");
        }
    const auto of_four = [](int rank, int stages, const char* schedule = "GPipe") {
        return [=] { any.stage_ids_this_rank(rank, stages, 4, schedule); };
    };
    EXPECT_EQ(error_of(of_four(0, 6)), "num_stages 6 must be evenly divisible by pipeline size 4");
    EXPECT_EQ(laws::text_of<Refusal>(of_four(7, 8)), "rank 7 of a pipeline of 4; its ranks are 0..3");
    EXPECT_EQ(laws::text_of<Refusal>(of_four(0, -8)), "num_stages is -8; it must be 1 or more");
    EXPECT_EQ(laws::text_of<Refusal>([] { any.final_stage_rank(0, "GPipe"); }),
              "PipelineParallelConfig.degree is 0; it must be 1 or more");
    EXPECT_EQ(error_of(of_four(0, 4, "ZBVZeroBubble")), "v schedules assume 2 stages per rank, got 1");
}

TEST(Olmo, AScheduleKnowsItsMicrobatches) {
    const auto of = [](int stages, const char* schedule, std::optional<int> given = {}) {
        return [=] { return any.num_microbatches(stages, 4, schedule, given); };
    };
    EXPECT_EQ(of(2, "LoopedBFS")(), 4) << "as many as the pipeline has ranks";
    EXPECT_EQ(of(1, "GPipe", 16)(), 16);
    EXPECT_EQ(error_of(of(2, "1F1B")), "Expected a single stage for '1F1B' pipeline schedule");
    EXPECT_EQ(error_of(of(1, "Interleaved1F1B")),
              "Multi-stage schedule expects at least two stages but got 1");
    EXPECT_EQ(error_of(of(0, "GPipe")), "a pipeline schedule without stages was asked for");
    EXPECT_EQ(laws::text_of<Refusal>(of(1, "GPipe", 0)), "num_microbatches is 0; it must be 1 or more");
    EXPECT_EQ(error_of(of(1, "GPpipe")), "Invalid pipeline schedule 'GPpipe'");
    EXPECT_EQ(error_of([] { any.infer_style("GPipe", "u"); }), "Invalid pipeline split style 'u'");
    EXPECT_EQ(of(2, "Custom1F1BV")(), 4);
    EXPECT_EQ(error_of(of(1, "CustomInterleaved1F1B")),
              "Interleaved 1F1B requires exactly 2 stages per rank, got 1");
    EXPECT_EQ(error_of(of(1, "Custom1F1B")), "Custom 1F1B schedule is not implemented yet.");
}

TEST(Olmo, SchedulesOfItsOwnHaveOneStyle) {
    EXPECT_EQ(any.infer_style("Custom1F1BV"), "v");
    EXPECT_EQ(any.stage_ids_this_rank(1, 8, 4, "Custom1F1BV"), (std::vector{1, 6}));
    EXPECT_EQ(any.final_stage_rank(4, "Custom1F1BV"), 0);
    EXPECT_EQ(any.infer_style("CustomInterleaved1F1B"), "loop");
    EXPECT_EQ(any.stage_ids_this_rank(1, 8, 4, "CustomInterleaved1F1B"), (std::vector{1, 5}));
    EXPECT_EQ(any.final_stage_rank(4, "Custom1F1B", "v"), 0);
    EXPECT_TRUE(any.is_single_stage("Custom1F1B"));
    EXPECT_FALSE(any.is_single_stage("Custom1F1BV"));
    EXPECT_EQ(error_of([] { any.infer_style("Custom1F1BV", "loop"); }),
              "custom_1F1B_V requires pipeline split style 'v'");
    EXPECT_EQ(error_of([] { any.rank_completion_order(4, "CustomInterleaved1F1B", "v"); }),
              "custom_interleaved_1F1B requires pipeline split style 'loop'; use custom_1F1B_V for V-shaped "
              "placement");
}

TEST(Olmo, ThePipelineMayHaveAGroupOfItsOwnForActivationsAndGradients) {
    const auto mesh = [](int rank) { return built({8, fsdp({.tp = 2, .pp = 2})}, rank); };
    EXPECT_FALSE(any.build_p2p_process_group(mesh(0)));
    for (int rank = 0; rank < 8; ++rank)
        EXPECT_EQ(any.build_p2p_process_group(mesh(rank), true, "nccl", {}, 4),
                  laws::list(any.get_pp_mesh(mesh(rank)).mesh()));
    const auto of = [&](bool apart, const char* backend, std::optional<int> least,
                        std::optional<int> most = {}) {
        return error_of([&] { any.build_p2p_process_group(mesh(0), apart, backend, least, most); });
    };
    EXPECT_EQ(of(false, "nccl", 1),
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas require p2p_use_separate_group=True");
    EXPECT_EQ(of(false, "nccl_rma", 0),
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas only apply to p2p_backend='nccl'");
    EXPECT_EQ(of(false, "nccl", 0), "p2p_nccl_min_ctas must be positive, and is 0");
    EXPECT_EQ(of(false, "nccl", {}, -1), "p2p_nccl_max_ctas must be positive, and is -1");
    EXPECT_EQ(of(false, "nccl", 3, 2), "p2p_nccl_min_ctas cannot exceed p2p_nccl_max_ctas, and 3 does 2");
    EXPECT_EQ(of(false, "nccl_device", {}), "p2p_backend='nccl_device' is reserved but not implemented yet");
    EXPECT_EQ(of(false, "mpi", {}), "Invalid pipeline P2P backend 'mpi'");
    EXPECT_EQ(error_of([] {
                  any.build_p2p_process_group(built({8, fsdp()}, 0), true);
              }),
              "could not build PP P2P groups from mesh with dimensions ('dp',)");
    EXPECT_EQ(error_of([] { any.build_p2p_process_group(init_device_mesh({8}, std::nullopt, 0, 8), true); }),
              "could not build PP P2P groups without mesh dimension names");
}

TEST(Olmo, ExpertsOfTheDdpTrainModuleTakeTheirRanksFromDpAndCpOfAStage) {
    for (int rank = 0; rank < 16; ++rank) {
        const auto made = State(rank, 16).build_dense_and_moe_mesh("ddp", {}, 2, 2, 4);
        const auto &dense = made.at(0), &moe = made.at(1);
        EXPECT_EQ(any.get_device_mesh_info(dense), "3D device mesh with shape (pp=2, dp=4, cp=2)");
        EXPECT_EQ(any.get_device_mesh_info(moe), "3D device mesh with shape (pp=2, ep_dp=2, ep_mp=4)");
        EXPECT_EQ(laws::list(dense["pp"].mesh()), laws::list(moe["pp"].mesh()));
        EXPECT_EQ(laws::list(any.get_dp_model_mesh(dense).mesh()),
                  laws::list(moe[{"ep_dp", "ep_mp"}].mesh()));
    }
    const auto first = State(0, 8);
    EXPECT_EQ(first.build_dense_and_moe_mesh("ddp").size(), 1);
    EXPECT_EQ(first.build_dense_and_moe_mesh("ddp", {}, 2, {}, -1).at(1).shape(), (std::vector{1, 8}));
    const auto of = [&](const auto&... given) {
        return error_of([&] { first.build_dense_and_moe_mesh(given...); });
    };
    const auto none = std::optional<int>();
    EXPECT_TRUE(of(std::nullopt, none, 2).starts_with("Data parallel config is required"));
    EXPECT_EQ(
        of("ddp", none, none, 1),
        "PipelineParallelConfig.degree is 1; OLMoDDPTrainModule takes 2 or more that divide the 8 ranks "
        "which are left for it");
    EXPECT_TRUE(of("ddp", none, 3).starts_with("ContextParallelConfig.degree is 3;"));
    EXPECT_TRUE(of("ddp", 0).starts_with("TensorParallelConfig.degree is 0;"));
    EXPECT_TRUE(of("ddp", none, none, 2, 8).starts_with("ExpertParallelConfig.degree is 8;"));
    EXPECT_EQ(laws::text_of<Refusal>([&] { first.build_dense_and_moe_mesh("ddp", 2); }),
              "a mesh of 4 leaves ranks 4..7 of a world of 8 out; its sizes must multiply to the world's");
}

}  // namespace of_olmo
