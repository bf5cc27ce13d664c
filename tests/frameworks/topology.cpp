// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/topology.hpp>

#include "laws.hpp"

namespace of_topology {

using namespace rankmesh;
using namespace rankmesh::deepspeed;
using frameworks::Refusal;

namespace {

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

}  // namespace

TEST(Topology, ATopologyAnswersAsAWalkOverAllCoordinatesDoes) {
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

TEST(Topology, TopologiesAreEqualBySizesWhateverTheirAxesAreCalled) {
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

TEST(Topology, ATopologySaysWhatIsWrong) {
    const auto topo = PipeDataParallelTopology(2, 2);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  topo.get_rank({{"pipe", 0}});
              }),
              "get_rank() does not support slices. Use filter_match())");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  topo.get_rank({{"pipe", 2}, {"data", 0}});
              }),
              "key {'pipe': 2, 'data': 0} invalid, mapping: pipe=2 data=2");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  topo.get_rank({{"pipe", 0}, {"model", 0}});
              }),
              "ProcessCoord.__new__() got an unexpected keyword argument 'model'");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { topo.get_coord(4); }), "rank 4 not found in topology.");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { topo.get_axis_list("jeff", 0); }),
              "'jeff' is not in list");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] {
                  topo.filter_match({{"jeff", 0}});
              }),
              "'ProcessCoord' object has no attribute 'jeff'");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { ProcessTopology({"_x"}, {2}); }),
              "Field names cannot start with an underscore: '_x'");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] {
                  ProcessTopology({"a", "a"}, {2, 2});
              }),
              "Encountered duplicate field name: 'a'");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { ProcessTopology({"class"}, {2}); }),
              "Type names and field names cannot be a keyword: 'class'");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { ProcessTopology({"1a"}, {2}); }),
              "Type names and field names must be valid identifiers: '1a'");
    EXPECT_EQ(laws::text_of<frameworks::Error>([] {
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
    EXPECT_EQ(laws::text_of<frameworks::Error>([] { _prime_factors(0); }),
              "Values must be strictly positive.");
}

TEST(Topology, PrimeFactorsRiseAndMultiplyToTheNumber) {
    for (int n = 1; n <= 1000; ++n) {
        const auto primes = _prime_factors(n);
        EXPECT_TRUE(std::ranges::is_sorted(primes));
        EXPECT_EQ(std::accumulate(primes.begin(), primes.end(), 1, std::multiplies<>()), n);
        for (auto prime : primes) EXPECT_EQ(_prime_factors(prime), std::vector{prime});
        EXPECT_EQ(default_topology(n).world_size(), n);
    }
    EXPECT_EQ(_prime_factors(2147483647), std::vector{2147483647});
}

}  // namespace of_topology
