// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include <rankmesh/dialect/deepspeed/groups.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/topology.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"
#include "support/fewer.hpp"

namespace of_deepspeed {

using namespace rankmesh;
using namespace rankmesh::deepspeed;
using dialect::Refusal;

namespace {

static_assert(sizeof(dialect::GroupPart) <= 1024, "a rank's group is no table, however large it is");

using Groupings = std::vector<std::vector<int>>;

const auto many_topologies = std::vector<ProcessTopology>{{{"pipe", "data"}, {1, 1}},
                                                          {{"pipe", "data", "model"}, {2, 2, 2}},
                                                          {{"data", "pipe", "model"}, {3, 2, 1}},
                                                          {{"pipe", "data"}, {3, 4}},
                                                          {{"data", "pipe"}, {2, 5}},
                                                          {{"pipe", "data", "expert", "model"}, {2, 3, 1, 2}},
                                                          default_topology(6)};

Groupings listed(const auto& partition) {
    auto groups = Groupings{};
    for (const auto& group : partition) groups.push_back(laws::list(group));
    return groups;
}

std::vector<int> sorted(const auto& group) {
    auto ranks = laws::list(group);
    std::ranges::sort(ranks);
    return ranks;
}

/// Every way of making expert groups that the sizes allow.
std::vector<ExpertGroups> all_expert_groups(int world) {
    auto made = std::vector<ExpertGroups>{};
    for (int expert = 1; expert <= world; ++expert)
        for (int lanes = 1; lanes <= world; ++lanes)
            for (int stages = 1; stages <= world; ++stages)
                for (auto data_first : {false, true}) {
                    const auto divides = world % (lanes * stages) == 0;
                    if (divides && world / lanes / stages % expert == 0)
                        made.push_back(_get_expert_parallel_ranks(world, lanes, expert, stages, data_first));
                    if (!divides || world / stages % expert != 0 || (data_first && lanes > 1)) continue;
                    made.push_back(
                        _create_expert_and_data_parallel(world, expert, lanes, stages, "tp", data_first));
                    made.push_back(
                        _create_expert_and_data_parallel(world, expert, lanes, stages, "sp", data_first));
                }
    return made;
}

}  // namespace

TEST(DeepSpeed, ATopologyAnswersAsAWalkOverAllCoordinatesDoes) {
    for (const auto& topo : many_topologies) {
        SCOPED_TRACE(to_string(topo.mesh()));
        for (int rank = 0; rank < topo.world_size(); ++rank) {
            const auto coord = topo.get_coord(rank);
            EXPECT_EQ(topo.get_rank(coord), rank);
            auto filter = Coordinate({});
            for (const auto& axis : topo.axes()) {
                filter.push_back(axis, coord[axis]);
                auto matching = std::vector<int>{};
                for (int other = 0; other < topo.world_size(); ++other) {
                    auto matches = true;
                    for (int i = 0; i < filter.size(); ++i)
                        matches = matches && topo.get_coord(other)[filter.name(i)] == filter[AxisId{i}];
                    if (matches) matching.push_back(other);
                }
                EXPECT_EQ(laws::list(*topo.filter_match(filter)), matching);
                EXPECT_EQ(topo.get_axis_list(axis, coord[axis]), topo.filter_match({{axis, coord[axis]}}));
            }
        }
        for (const auto& axis : topo.axes())
            laws::expect_partition(listed(*topo.get_axis_comm_lists(axis)), topo.world_size(), axis);
        EXPECT_EQ(topo.get_dim("jeff"), 0);
        EXPECT_FALSE(topo.get_axis_comm_lists("jeff"));
        EXPECT_FALSE(topo.filter_match({{"data", -1}}));
    }
}

TEST(DeepSpeed, TopologiesAreEqualBySizesWhateverTheirAxesAreCalled) {
    EXPECT_EQ(PipeDataParallelTopology(2, 3), ProcessTopology({"x", "y"}, {2, 3}));
    EXPECT_NE(PipeDataParallelTopology(2, 3), PipeDataParallelTopology(3, 2));
    EXPECT_NE(PipeDataParallelTopology(2, 3), PipeModelDataParallelTopology(2, 1, 3));
    EXPECT_NE(PipeDataParallelTopology(2, 3), ProcessTopology({"x"}, {2}));
    EXPECT_NE(ProcessTopology({"x"}, {2}), PipeDataParallelTopology(2, 3));
    EXPECT_EQ(PipeModelDataParallelTopology(2, 3, 4).dims(), (std::vector{2, 4, 3}));
    EXPECT_EQ(PipeDataParallelTopology(1, 2).str(),
              "{ProcessCoord(pipe=0, data=0): 0, ProcessCoord(pipe=0, data=1): 1}");
    // A dim of 1 too many changes nothing, and no axes at all are one rank.
    EXPECT_EQ(ProcessTopology({"x", "y"}, {2, 3, 1}), ProcessTopology({"x", "y"}, {2, 3}));
    const auto alone = ProcessTopology({}, {});
    EXPECT_EQ(alone.get_rank({}), 0);
    EXPECT_EQ(alone.get_coord(0).size(), 0);
    EXPECT_EQ(laws::list(*alone.filter_match({})), std::vector{0});
    EXPECT_EQ(alone.get_rank_repr(0), "");
    EXPECT_EQ(alone.str(), "{ProcessCoord(): 0}");
}

TEST(DeepSpeed, ATopologySaysWhatIsWrong) {
    const auto topo = PipeDataParallelTopology(2, 2);
    EXPECT_EQ(laws::text_of<dialect::Error>([&] {
                  topo.get_rank({{"pipe", 0}});
              }),
              "get_rank() does not support slices. Use filter_match())");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] {
                  topo.get_rank({{"pipe", 2}, {"data", 0}});
              }),
              "key {'pipe': 2, 'data': 0} invalid, mapping: pipe=2 data=2");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] {
                  topo.get_rank({{"pipe", 0}, {"model", 0}});
              }),
              "ProcessCoord.__new__() got an unexpected keyword argument 'model'");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { topo.get_coord(4); }), "rank 4 not found in topology.");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { topo.get_axis_list("jeff", 0); }), "'jeff' is not in list");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] {
                  topo.filter_match({{"jeff", 0}});
              }),
              "'ProcessCoord' object has no attribute 'jeff'");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { ProcessTopology({"_x"}, {2}); }),
              "Field names cannot start with an underscore: '_x'");
    EXPECT_EQ(laws::text_of<dialect::Error>([] {
                  ProcessTopology({"a", "a"}, {2, 2});
              }),
              "Encountered duplicate field name: 'a'");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { ProcessTopology({"class"}, {2}); }),
              "Type names and field names cannot be a keyword: 'class'");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { ProcessTopology({"1a"}, {2}); }),
              "Type names and field names must be valid identifiers: '1a'");
    EXPECT_EQ(laws::text_of<dialect::Error>([] {
                  ProcessTopology({"a", "b"}, {2});
              }),
              "1 dims for 2 axes; give each axis one");
    EXPECT_EQ(laws::text_of<Refusal>([] { ProcessTopology({"a"}, {0}); }),
              "a dim of 0 makes a topology without ranks; every dim is 1 or more");
    EXPECT_EQ(
        laws::text_of<Refusal>([] {
            ProcessTopology({"a"}, {2, 3});
        }),
        "2 dims for 1 axes put 3 ranks on each coordinate, of which the last would overwrite the others; "
        "give each axis one");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { _prime_factors(0); }), "Values must be strictly positive.");
}

TEST(DeepSpeed, PrimeFactorsRiseAndMultiplyToTheNumber) {
    for (int n = 1; n <= 1000; ++n) {
        const auto primes = _prime_factors(n);
        EXPECT_TRUE(std::ranges::is_sorted(primes));
        EXPECT_EQ(std::accumulate(primes.begin(), primes.end(), 1, std::multiplies<>()), n);
        for (auto prime : primes) EXPECT_EQ(_prime_factors(prime), std::vector{prime});
        EXPECT_EQ(default_topology(n).world_size(), n);
    }
    EXPECT_EQ(_prime_factors(2147483647), std::vector{2147483647});
}

TEST(DeepSpeed, GroupsOfNothingSaidAreThoseOfOneRank) {
    threads::run(1, [](World& world) {
        const auto me = world.join(plan(GroupSizes()));
        EXPECT_EQ(me.channel_count(), 0) << "a group of one costs nothing";
    });
}

TEST(DeepSpeed, ExpertGroupsPartitionTheWorldAndMeetInOneRankOrNone) {
    for (int world : {1, 4, 6, 12, 16, 24, 30})
        for (const auto& groups : all_expert_groups(world)) {
            auto expert = listed(groups.expert_parallel());
            const auto data = listed(groups.expert_data_parallel());
            for (const auto& made : groups.new_groups()) laws::expect_written(made, groups.group_name());
            laws::expect_partition(expert, world, groups.group_name());
            laws::expect_partition(data, world, groups.group_name() + " data");
            for (int rank = 0; rank < world; ++rank) {
                const auto mine = laws::list(groups.expert_parallel_of(rank));
                const auto replicas = laws::list(groups.expert_data_parallel_of(rank));
                EXPECT_EQ(std::ranges::count(mine, rank), 1);
                EXPECT_EQ(std::ranges::count(replicas, rank), 1);
                EXPECT_EQ(std::ranges::count(expert, mine), 1);
                EXPECT_EQ(std::ranges::count(data, replicas), 1);
                for (auto peer : mine) EXPECT_EQ(std::ranges::count(replicas, peer), peer == rank ? 1 : 0);
            }
            auto all = Groupings{};
            for (const auto& made : groups.new_groups())
                for (const auto& group : made) all.push_back(laws::list(group));
            EXPECT_EQ(all.size(), expert.size() + data.size());
            std::ranges::sort(all);
            expert.insert(expert.end(), data.begin(), data.end());
            std::ranges::sort(expert);
            EXPECT_EQ(all, expert) << "every group is made once";
        }
}

TEST(DeepSpeed, EveryGroupOfGroupsPyIsLive) {
    auto many = std::vector<GroupSizes>{
        {.world_size = 8,
         .tensor_parallel_size = 2,
         .sequence_parallel_size = 4,
         .zero_hpz_partition_size = 2,
         .device_per_node = 4,
         .expert = {_create_expert_and_data_parallel(8, 2), _get_expert_parallel_ranks(8, 2, 4)}},
        {.world_size = 6, .zero_hpz_partition_size = 100, .device_per_node = 8},
        {.world_size = 12, .tensor_parallel_size = 3, .device_per_node = 12}};
    for (int world : {4, 6, 12})
        for (const auto& expert : support::fewer_if_sanitized(all_expert_groups(world)))
            many.push_back({.world_size = world, .expert = {expert}});
    for (const auto& sizes : many)
        threads::run(sizes.world_size, [&](World& world) {
            auto me = world.join(plan(sizes));
            auto groups = Groups(me, sizes);
            const auto rank = me.rank();
            const auto tensor = _init_tp_mesh_device(sizes.world_size, sizes.tensor_parallel_size);
            laws::expect_live(groups.get_tensor_model_parallel_group(),
                              laws::list(tensor.group(rank, "tensor_parallel")), rank, "tensor");
            laws::expect_live(groups.get_data_parallel_group(),
                              laws::list(tensor.group(rank, "data_parallel")), rank, "data");
            EXPECT_EQ(groups.get_tensor_model_parallel_group().rank(),
                      groups.get_tensor_model_parallel_rank());
            EXPECT_EQ(groups.get_tensor_model_parallel_group().world_rank(0),
                      groups.get_tensor_model_parallel_src_rank());
            const auto sequence = sequence_parallel_mesh(sizes.world_size, sizes.sequence_parallel_size);
            laws::expect_live(groups._get_sequence_parallel_group(),
                              laws::list(sequence.group(rank, "sequence_parallel")), rank, "sequence");
            laws::expect_live(groups._get_sequence_data_parallel_group(),
                              laws::list(sequence.group(rank, "data_parallel")), rank, "sequence data");
            laws::expect_live(groups._clone_world_group(), laws::list(sequence.ranks()), rank, "world");
            laws::expect_live(groups._get_zero_param_intra_parallel_group(),
                              laws::list(groups._get_zero_param_intra_parallel_group_ranks()), rank, "hpZ");
            const auto nodes = _get_local_all_to_all_group(sizes.world_size, sizes.device_per_node);
            for (auto& [name, on] : groups._get_local_all_to_all_group()) {
                const auto axis = name.starts_with("local") ? "local" : "global";
                laws::expect_live(on, laws::list(nodes.group(rank, axis)), rank, name);
                EXPECT_EQ(std::ranges::count(all_to_all_names(nodes), name), 1);
            }
            for (const auto& expert : sizes.expert) {
                const auto name = expert.group_name();
                laws::expect_live(groups._get_expert_parallel_group(name),
                                  sorted(groups._get_expert_parallel_group_ranks(name)), rank, name);
                laws::expect_live(groups._get_expert_data_parallel_group(name),
                                  sorted(groups._get_expert_data_parallel_group_ranks(name)), rank, name);
                EXPECT_EQ(groups._get_expert_parallel_group(name).rank(),
                          groups._get_expert_parallel_rank(name));
                EXPECT_EQ(groups._get_expert_data_parallel_group(name).rank(),
                          groups._get_expert_data_parallel_rank(name));
                EXPECT_EQ(groups._get_expert_data_parallel_group(name).world_rank(0),
                          groups._get_expert_broadcast_src_rank(name));
            }
            EXPECT_EQ(laws::list(groups._get_data_parallel_group_ranks()),
                      groups._get_data_parallel_group().world_ranks());
            if (!sizes.expert.empty()) {
                EXPECT_EQ(groups._get_max_expert_parallel_group().size(), groups._get_max_expert_size());
            }
        });
}

TEST(DeepSpeed, GroupsPyKeepsWhatIsSetUntilNothingIs) {
    auto info = GroupsRankInfo({.world_size = 8, .tensor_parallel_size = 2}, 7);
    EXPECT_EQ(info.get_model_parallel_world_size(), 2);
    EXPECT_EQ(info.get_tensor_model_parallel_src_rank(), 6);
    info.set_tensor_model_parallel_world_size(4);
    info.set_tensor_model_parallel_rank(9);
    EXPECT_EQ(info.get_model_parallel_world_size(), 4);
    EXPECT_EQ(info.get_model_parallel_rank(), 9);
    EXPECT_EQ(info.get_tensor_model_parallel_src_rank(), 4);
    EXPECT_EQ(laws::text_of<Refusal>([&] { info.set_tensor_model_parallel_world_size(0); }),
              "a size of 0 was given; every size is 1 or more");
    info.set_tensor_model_parallel_world_size({});
    info.set_tensor_model_parallel_rank({});
    EXPECT_EQ(info.get_tensor_model_parallel_src_rank(), 6);
    EXPECT_EQ(info.get_tensor_model_parallel_rank(), 1);
    EXPECT_EQ(info._get_max_expert_size(), std::nullopt);
    EXPECT_EQ(info._get_max_expert_size_name(), "ep_size_None");
}

TEST(DeepSpeed, TheTensorRanksOfExpertsAreThoseOfTheLastMpu) {
    const auto of = [](std::vector<ExpertGroups> expert) {
        return GroupsRankInfo({.world_size = 8, .expert = std::move(expert)}, 0)
            ._get_expert_model_parallel_world_size();
    };
    const auto plain = _create_expert_and_data_parallel(8, 4, 2);
    const auto with_mpu = _create_expert_data_and_model_parallel(8, 2, 2);
    EXPECT_EQ(of({}), 1);
    EXPECT_EQ(of({plain}), 1);
    EXPECT_EQ(of({with_mpu, plain}), 2);
    EXPECT_EQ(of({plain, with_mpu, _create_expert_data_and_model_parallel(8, 1, 4)}), 4);
}

TEST(DeepSpeed, GroupsPySaysWhatIsWrong) {
    const auto info = GroupsRankInfo({.world_size = 8}, 0);
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { info._get_expert_parallel_rank("ep_size_4"); }),
              "expert parallel group is not initialized");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { info._get_expert_data_parallel_rank("ep_size_4"); }),
              "expert data parallel group is not initialized");
    EXPECT_EQ(laws::text_of<Refusal>([] { _init_tp_mesh_device(8, 3); }),
              "a tensor_model_parallel_size of 3 leaves ranks of a world of 8 out; the size must divide the "
              "world's");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { _init_tp_mesh_device(8, 9); }), "8 is not divisible by 9");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { _create_model_parallel(8, 3); }), "8 is not divisible by 3");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { initialize_sequence_parallel(8, 9); }),
              "world_size (8) is less than sequence_parallel_size 9");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { initialize_sequence_parallel(8, 1); }),
              "sequence_parallel_size must be greater than 1, got 1");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { initialize_sequence_parallel(8, 3); }),
              "world_size (8) is not divisible by sequence_parallel_size 3)");
    EXPECT_EQ(initialize_sequence_parallel(8, 4), sequence_parallel_mesh(8, 4));
    EXPECT_EQ(laws::text_of<dialect::Error>([] { _init_tp_mesh_device(8, 0); }),
              "8 was to be divided by a size of 0; every size is 1 or more");
    EXPECT_EQ(laws::text_of<Refusal>([] { _init_tp_mesh_device(8, -2); }),
              "a size of -2 was given; every size is 1 or more");
    EXPECT_EQ(laws::text_of<Refusal>([] { _init_tp_mesh_device(8, 2, 2); }),
              "data_parallel_size 2 times tensor_model_parallel_size 2 is not the world's 8");
    EXPECT_EQ(_create_model_parallel(8, 100), _create_model_parallel(8, 8));
    EXPECT_EQ(laws::text_of<dialect::Error>([] { _get_local_all_to_all_group(12, 8); }),
              "num_gpus not equal to device per node, cannot initialize All-To-All");
    EXPECT_EQ(laws::text_of<Refusal>([] { _get_local_all_to_all_group(20, 8); }),
              "nodes of 8 devices leave ranks 16..19 out; the size must divide the world's 20");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { _get_expert_parallel_ranks(16, 4, 8); }),
              "4 is not divisible by 8");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { _create_expert_and_data_parallel(8, 2, 2, 1, "tp", true); }),
              "use_data_before_expert_parallel_ is not supported with mp_size > 1");
    EXPECT_EQ(laws::text_of<Refusal>([] { _create_expert_and_data_parallel(8, 2, 1, 3); }),
              "3 pipeline stages of a world of 8 leave ranks out; the size must divide the world's");
    EXPECT_EQ(laws::text_of<Refusal>([] { _create_expert_and_data_parallel(6, 2, 4); }),
              "4 tensor lanes of a stage of 6 leave ranks out; mp_size must divide the stage's");
    const auto twice = _create_expert_and_data_parallel(8, 2);
    EXPECT_EQ(laws::text_of<dialect::Error>([&] {
                  GroupsRankInfo({.world_size = 8, .expert = {twice, twice}}, 0);
              }),
              "ep_size_2 is there twice; every expert size is made once");
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { GroupsRankInfo({.world_size = 4, .expert = {twice}}, 0); }),
              "expert groups of a world of 8 were given for a world of 4");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { GroupsRankInfo({.world_size = 8}, 8); }),
              "rank 8 of a world of 8; ranks are 0..7");
}

TEST(DeepSpeed, NoSizeIsBelowOneWhateverIsMadeOfIt) {
    using Sizes = std::vector<int>;
    const auto makers = std::vector<std::pair<int, std::function<void(const Sizes&)>>>{
        {4, [](const Sizes& s) { _get_expert_parallel_ranks(s[0], s[1], s[2], s[3]); }},
        {4, [](const Sizes& s) { _create_expert_data_and_model_parallel(s[0], s[1], s[2], s[3]); }},
        {4, [](const Sizes& s) { _create_expert_and_data_parallel(s[0], s[1], s[2], s[3]); }},
        {2, [](const Sizes& s) { _init_tp_mesh_device(s[0], s[1]); }},
        {2, [](const Sizes& s) { _create_model_parallel(s[0], s[1]); }},
        {2, [](const Sizes& s) { sequence_parallel_mesh(s[0], s[1]); }},
        {2, [](const Sizes& s) { _create_zero_param_parallel_group(s[0], s[1]); }},
        {2, [](const Sizes& s) { _get_local_all_to_all_group(s[0], s[1]); }}};
    for (std::size_t maker = 0; maker < makers.size(); ++maker) {
        const auto& [count, make] = makers[maker];
        auto sizes = Sizes(static_cast<std::size_t>(count), 2);
        sizes[0] = 8;
        make(sizes);
        for (auto& size : sizes)
            for (const auto wrong : {0, -size}) {
                const auto right = std::exchange(size, wrong);
                const auto text = laws::text_of<dialect::Error>([&] { make(sizes); });
                EXPECT_TRUE(text.ends_with("; every size is 1 or more"))
                    << "maker " << maker << " of " << testing::PrintToString(sizes) << ": " << text;
                size = right;
            }
    }
}

TEST(DeepSpeed, MembersThatLackAGroupAreRefused) {
    threads::run(4, [](World& world) {
        auto sizes = GroupSizes{.world_size = 4};
        auto some = world.join(plan(sizes));
        sizes.expert = {_create_expert_and_data_parallel(4, 2)};
        EXPECT_EQ(laws::text_of<UsageError>([&] { Groups(some, sizes); }),
                  "the plan has no mesh 'ep_size_2'; it has tensor, sequence, zero, all_to_all");
    });
    threads::run(6, [](World& world) {
        // Expert groups that run from lane to lane follow no strides: only the ranks themselves tell them
        // apart.
        const auto sizes = GroupSizes{.world_size = 6, .expert = {_create_expert_and_data_parallel(6, 2, 2)}};
        auto other = plan(sizes);
        for (auto& declaration : other) declaration.placed = {};
        auto wrong = world.join(other);
        const auto text = laws::text_of<UsageError>([&] { Groups(wrong, sizes); });
        if (world.rank() == 1) {
            EXPECT_EQ(text,
                      "'expert' of mesh 'ep_size_2' is over {0, 1}, not {1, 4}; join with "
                      "deepspeed::plan(sizes)");
        }
        EXPECT_NE(text, "nothing was thrown");
    });
}

}  // namespace of_deepspeed
