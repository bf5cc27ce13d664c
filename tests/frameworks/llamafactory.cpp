// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/llamafactory.hpp>

#include "frameworks/laws.hpp"

namespace of_llamafactory {

using namespace rankmesh;
using llamafactory::DistributedInterface;
using llamafactory::plan;
using llamafactory::Settings;
using llamafactory::State;

namespace {

constexpr auto dims = {"mp_replicate", "mp_shard", "dp", "cp"};

struct Sized {
    int world;
    Settings settings;
};
const auto many =
    std::vector<Sized>{{1, {}},
                       {6, {.mp_replicate_size = 2, .cp_size = 3}},
                       {8, {.mp_replicate_size = 2, .mp_shard_size = 4, .dp_size = 4, .cp_size = 2}},
                       {5, {.cp_size = 5}}};

}  // namespace

TEST(LlamaFactory, EveryRankHasItsPlaceAlongEveryDimension) {
    for (const auto& [world, settings] : many)
        for (const auto* dim : dims) {
            auto groups = std::vector<std::vector<int>>{};
            for (int rank = 0; rank < world; ++rank) {
                const auto state = State(settings, rank, world);
                const auto group = state.get_group(dim);
                EXPECT_EQ(group[state.get_rank(dim)], rank);
                EXPECT_EQ(group.size(), state.get_world_size(dim));
                const auto mesh = state.get_device_mesh(dim);
                EXPECT_EQ(laws::list(mesh.mesh()), laws::list(group));
                EXPECT_EQ(mesh.get_local_rank(), state.get_rank(dim));
                EXPECT_EQ(state.get_group().size(), world);
                const auto whole =
                    std::string(dim).starts_with("mp") ? state.model_device_mesh() : state.data_device_mesh();
                EXPECT_EQ(mesh, whole[dim]) << "parts of one mesh are equal";
                EXPECT_EQ(mesh, State(state).get_device_mesh(dim));
                if (state.get_rank(dim) == 0) groups.push_back(laws::list(group));
            }
            laws::expect_partition(groups, world, dim);
        }
}

TEST(LlamaFactory, EveryGroupIsLive) {
    for (const auto& each : many)
        threads::run(each.world, [&](World& world) {
            auto me = world.join(plan(each.settings, each.world));
            auto interface = DistributedInterface(me, each.settings);
            const State& pure = interface;
            for (const auto* dim : dims)
                laws::expect_live(interface.get_group(dim), laws::list(pure.get_group(dim)), me.rank(), dim);
            laws::expect_live(interface.get_group(), laws::list(pure.get_group()), me.rank(), "world");
        });
}

TEST(LlamaFactory, WhatCannotBeIsRefused) {
    const auto text = [](const Settings& settings) {
        return laws::text_of<frameworks::Error>([&] { plan(settings, 8); });
    };
    EXPECT_EQ(text({.mp_replicate_size = 3}), "world_size (8) must be divisible by mp_replicate_size (3).");
    EXPECT_THROW(plan({.mp_replicate_size = 3}, 8), frameworks::Refusal);
    EXPECT_EQ(text({.cp_size = 3}), "world_size (8) must be divisible by cp_size (3).");
    EXPECT_EQ(text({.cp_size = 0}), "cp_size is 0; sizes are 1 or more");
    EXPECT_EQ(text({.mp_replicate_size = 2, .mp_shard_size = 2}),
              "mp_replicate_size * mp_shard_size must equal to world_size, got 2 * 2 != 8.");
    EXPECT_EQ(text({.dp_size = 2, .cp_size = 3}),
              "dp_size * cp_size must equal to world_size, got 2 * 3 != 8.");
    const auto state = State({}, 0, 8);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { state.get_device_mesh(); }), "dim must be specified.");
    EXPECT_EQ(laws::text_of<UsageError>([&] { state.get_rank("tp"); }),
              "dim is 'tp'; it must be mp_replicate or mp_shard or dp or cp");
}

TEST(LlamaFactory, AProcessThatIsNotDistributedIsAlone) {
    const auto alone = frameworks::State("llamafactory");
    EXPECT_EQ(alone.ask("get_rank", {{"dim", "dp"}}), frameworks::Value(0));
    EXPECT_EQ(alone.ask("get_world_size"), frameworks::Value(1));
    EXPECT_EQ(alone.ask("get_device_mesh", {{"dim", "dp"}}), frameworks::Value());
    EXPECT_EQ(alone.ask("model_device_mesh"), frameworks::Value());
    const auto text = std::get<std::string>(alone.ask("__str__"));
    EXPECT_TRUE(
        text.ends_with(", is_distributed=False, current_accelerator=cpu, rank=0, world_size=1, "
                       "model_device_mesh=None, data_device_mesh=None"))
        << text;
}

TEST(LlamaFactory, TheHostIsThatOfTheLauncher) {
    const auto one = State({}, 0, 1), four = State({}, 2, 4);
    for (const auto* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) unsetenv(name);
    EXPECT_EQ(std::pair(one.get_local_rank(), one.get_local_world_size()), std::pair(0, 1));
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { four.get_local_rank(); }),
              "LOCAL_RANK is not set; start with torchrun, or ask Member::local_rank");
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { four.get_local_world_size(); }),
              "LOCAL_WORLD_SIZE is not set; start with torchrun, or ask Member::local_size");
    setenv("LOCAL_RANK", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    EXPECT_EQ(std::pair(four.get_local_rank(), four.get_local_world_size()), std::pair(2, 4));
    setenv("LOCAL_RANK", "two", 1);
    EXPECT_EQ(laws::text_of<frameworks::Error>([&] { four.get_local_rank(); }),
              "LOCAL_RANK is 'two', which is no number");
    for (const auto* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) unsetenv(name);
}

}  // namespace of_llamafactory
