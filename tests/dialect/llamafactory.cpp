// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/llamafactory/interface.hpp>

#include <atomic>
#include <stdexcept>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"

namespace of_llamafactory {

using namespace rankmesh;
using namespace rankmesh::llamafactory;

namespace {

constexpr auto dims = {Dim::mp_replicate, Dim::mp_shard, Dim::dp, Dim::cp};

struct Sized {
    int world;
    Config config;
};
const auto many =
    std::vector<Sized>{{1, {}},
                       {6, {.mp_replicate_size = 2, .cp_size = 3}},
                       {8, {.mp_replicate_size = 2, .mp_shard_size = 4, .dp_size = 4, .cp_size = 2}},
                       {5, {.cp_size = 5}}};

}  // namespace

TEST(LlamaFactory, EveryRankHasItsPlaceAlongEveryDimension) {
    for (const auto& [world, config] : many)
        for (auto dim : dims) {
            auto groups = std::vector<std::vector<int>>{};
            for (int rank = 0; rank < world; ++rank) {
                const auto info = RankInfo(config, {.rank = rank, .world_size = world});
                const auto group = *info.get_group(dim);
                EXPECT_EQ(group[info.get_rank(dim)], rank);
                EXPECT_EQ(group.size(), info.get_world_size(dim));
                EXPECT_EQ(info.get_device_mesh(dim)->ranks(), group);
                if (info.get_rank(dim) == 0) groups.push_back(laws::list(group));
            }
            laws::expect_partition(groups, world, std::string(to_string(dim)));
        }
}

TEST(LlamaFactory, EveryGroupIsLiveAndDataComesBackInTheFormThatItWasGiven) {
    for (const auto& each : many)
        threads::run(each.world, [&](World& world) {
            auto me = world.join(plan(each.config, each.world));
            const auto interface = DistributedInterface(me, each.config);
            for (auto dim : dims)
                laws::expect_live(interface.group(dim), laws::list(*interface.get_group(dim)), me.rank(),
                                  std::string(to_string(dim)));
            laws::expect_live(interface.group(), interface.group().world_ranks(), me.rank(), "world");

            const auto n = interface.get_world_size(Dim::dp);
            const auto group = *interface.get_group(Dim::dp);
            const auto sum = std::accumulate(group.begin(), group.end(), 0);
            EXPECT_EQ(interface.all_reduce(me.rank()), static_cast<double>(sum) / n)
                << "the mean unless said";
            EXPECT_EQ(interface.all_reduce(me.rank(), ReduceOp::sum), sum);
            EXPECT_EQ(interface.all_reduce(me.rank(), ReduceOp::max), group.back());
            EXPECT_EQ(interface.all_reduce(std::vector<double>{1, 2}, ReduceOp::sum),
                      (std::vector<double>{1.0 * n, 2.0 * n}));
            auto tensor = std::vector<float>{1, 2};
            interface.all_reduce(std::span(tensor), ReduceOp::min);
            EXPECT_EQ(tensor, (std::vector<float>{1, 2}));
            EXPECT_EQ(interface.all_gather(7.0).size(), static_cast<std::size_t>(n))
                << "by the group, not the world";
            EXPECT_EQ(interface.broadcast(static_cast<double>(me.rank()), group[0]), group[0]);
            EXPECT_EQ(
                interface.broadcast(me.rank() == 0 ? std::string("a longer text") : "", 0, std::nullopt),
                "a longer text");
            interface.sync();
            interface.barrier();
        });
}

TEST(LlamaFactory, ASourceOutsideTheGroupIsRefusedAndTheLegalOnesAreNamed) {
    threads::run(4, [](World& world) {
        const auto config = Config{.cp_size = 2};
        auto me = world.join(plan(config, 4));
        const auto interface = DistributedInterface(me, config);
        if (me.rank() % 2 == 1) {
            EXPECT_EQ(laws::text_of<dialect::Error>([&] { interface.broadcast(1.0); }),
                      detail::cat("broadcast from global rank 0 along dp, but the group of rank ", me.rank(),
                                  " is {1, 3}; src must be one of these"));
        }
    });
}

TEST(LlamaFactory, TheFirstProcessGoesFirstAlsoWhenItThrows) {
    auto first_is_done = std::atomic<bool>{false};
    threads::run(3, [&](World& world) {
        auto me = world.join(plan({}, 3));
        const auto interface = DistributedInterface(me, {});
        for (auto local : {true, false}) {
            interface.barrier();
            first_is_done = false;
            interface.barrier();
            interface.main_process_first(
                [&] {
                    EXPECT_EQ(first_is_done, me.rank() != 0);
                    first_is_done = true;
                },
                local);
        }
        try {
            interface.main_process_first([&] {
                if (me.rank() == 0) throw std::runtime_error("no cache");
            });
        } catch (const std::runtime_error&) {
            EXPECT_EQ(me.rank(), 0);
        }
        interface.barrier();
    });
}

TEST(LlamaFactory, AloneDataPassesThroughAndThereIsNoGroup) {
    const auto alone = DistributedInterface({.mp_shard_size = 7, .dp_size = 9});
    EXPECT_EQ(alone.all_reduce(3), 3.0);
    EXPECT_EQ(alone.all_gather(std::vector<double>{1, 2}), (std::vector<double>{1, 2}));
    EXPECT_FALSE(alone.get_group(Dim::dp));
    auto ran = false;
    alone.main_process_first([&] { ran = true; });
    EXPECT_TRUE(ran);
    EXPECT_EQ(laws::text_of<dialect::Error>([&] { alone.group(Dim::dp); }),
              "nothing is distributed, so there is no group");
}

TEST(LlamaFactory, SizesThatDoNotFitAreRefusedAndConstructionCanBeRetried) {
    EXPECT_EQ(laws::text_of<dialect::Refusal>([] { plan({.mp_replicate_size = 3}, 8); }),
              "world_size (8) must be divisible by mp_replicate_size (3).");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { plan({.mp_replicate_size = 2, .mp_shard_size = 2}, 8); }),
              "mp_replicate_size * mp_shard_size must equal to world_size, got 2 * 2 != 8.");
    EXPECT_EQ(laws::text_of<dialect::Error>([] { plan({.dp_size = 2, .cp_size = 3}, 8); }),
              "dp_size * cp_size must equal to world_size, got 2 * 3 != 8.");
    auto instance = Instance{};
    EXPECT_THROW(instance([]() -> DistributedInterface { throw std::runtime_error("no device"); }),
                 std::runtime_error);
    auto& made = instance([] { return DistributedInterface({.cp_size = 2}); });
    EXPECT_EQ(&instance([] { return DistributedInterface(); }), &made);
    EXPECT_EQ(made.strategy().cp_size, 2);
}

TEST(LlamaFactory, TheEnvironmentIsWholeNumbersOrTheirDefaults) {
    const auto names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    for (const auto* name : names) unsetenv(name);
    const auto unset = Environment::from_environment();
    EXPECT_EQ(unset.rank, std::nullopt);
    EXPECT_EQ(std::tuple(unset.world_size, unset.local_rank, unset.local_world_size), std::tuple(1, 0, 1));
    auto value = 2;
    for (const auto* name : names) setenv(name, std::to_string(value++).c_str(), 1);
    const auto set = Environment::from_environment();
    EXPECT_EQ(std::tuple(set.rank.value(), set.world_size, set.local_rank, set.local_world_size),
              std::tuple(2, 3, 4, 5));
    for (const auto* name : names) {
        for (const auto* text : {"", "two", "2x", " 2", "99999999999"}) {
            setenv(name, text, 1);
            EXPECT_EQ(laws::text_of<dialect::Error>([] { Environment::from_environment(); }),
                      detail::cat(name, "='", text, "' is no whole number"));
        }
        setenv(name, "1", 1);
    }
    for (const auto* name : names) unsetenv(name);
}

TEST(LlamaFactory, ADestroyedInterfaceSaysSo) {
    threads::run(2, [](World& world) {
        auto me = world.join(plan({}, 2));
        auto interface = DistributedInterface(me, {});
        interface.barrier();
        interface.destroy();
        EXPECT_EQ(laws::text_of<dialect::Error>([&] { interface.barrier(); }), "the interface was destroyed");
    });
}

}  // namespace of_llamafactory
