// SPDX-License-Identifier: Apache-2.0
// What a plan says of the communicators of its sets arrives at NCCL and CUDA, here the fake ones.
#include <mutex>

#include <rankmesh/interop/nccl.hpp>

#include "fake/seen.hpp"
#include "nccl_ranks.hpp"
#include "support/device_array.hpp"

using namespace rankmesh;
using support::DeviceArray;

namespace {

/// The settings that NCCL got for the communicator of a handle; "" for defaults.
std::string told(const Communicator& on) {
    const auto config = fake::config(nccl::native(on));
    auto text = std::string(config.commName);
    const auto add = [&](const char* name, int value) {
        if (value != NCCL_CONFIG_UNDEF_INT) text += detail::cat(" ", name, "=", value);
    };
    add("minCTAs", config.minCTAs);
    add("maxCTAs", config.maxCTAs);
    add("trafficClass", config.trafficClass);
    return text;
}

/// Expects that the ranks of a group reach one another.
void expect_works(Communicator on) {
    const auto x = DeviceArray<int>(1, 1);
    on.start().all_reduce(*x).synchronize();
    EXPECT_EQ(x.values(), std::vector{on.size()}) << on.label();
}

}  // namespace

TEST(NcclSettings, EachCommunicatorIsMadeWithThoseOfItsSet) {
    on_devices(4, [](nccl::World& world) {
        auto me = world.join(
            {{.name = "all",
              .mesh = {{"dp", 2}, {"tp", 2}},
              .over = {Axes("tp").tuned({.min_ctas = 2, .max_ctas = 8, .traffic_class = 3, .name = "tensor"}),
                       Axes("dp").separate("grads").tuned({.min_ctas = 4}), Axes("dp", "tp")}},
             {.name = "flat",
              .mesh = {{"x", rest}},
              .picks = {{.of = "x", .at = {0, 1, 3}, .as = "three", .tuned = {.max_ctas = 1}}},
              .axes = std::vector<std::string>{}},
             {.name = "late",
              .mesh = {{"a", 2}, {"b", 2}},
              .over = {Axes("b").tuned({.traffic_class = 0, .name = "later"}), Axes("a").tuned({})},
              .lazy = true}});
        me["late"].prepare("a");
        me["late"].prepare("b");
        const auto expect = [](Communicator on, const std::string& text) {
            EXPECT_EQ(told(on), text);
            expect_works(std::move(on));
        };
        expect(me["all"].on("dp"), "rankmesh 'dp' of mesh 'all'");
        expect(me["all"].on("dp", "tp"), "rankmesh 'dp,tp' of mesh 'all'");
        expect(me["all"].on("tp"), "tensor minCTAs=2 maxCTAs=8 trafficClass=3");
        // NCCL takes the first by itself for more than the second.
        expect(me["all"].on("grads"), "rankmesh 'grads' of mesh 'all' minCTAs=4 maxCTAs=64");
        if (auto three = me["flat"].find("three"))
            expect(*std::move(three), "rankmesh 'three' of mesh 'flat' maxCTAs=1");
        expect(me["late"].on("b"), "later trafficClass=0");
        EXPECT_EQ(nccl::native(me["late"].on("a")), nccl::native(me["all"].on("dp")));
        EXPECT_NE(nccl::native(me["late"].on("b")), nccl::native(me["all"].on("tp"))) << "equal groups";
    });
}

TEST(NcclSettings, WhatIsStartedHasTheirPriorityAndNothingElse) {
    on_devices(2, [](nccl::World& world) {
        auto me = world.join(
            {{"dp", rest}}, {.over = {Axes("dp").separate("usual"), Axes("dp").tuned({.high_priority = true}),
                                      Axes("dp").separate("low").tuned({.max_ctas = 4})}});
        const auto has = [&] { return fake::priorities(world.device()); };
        auto greatest = 0;
        support::check(cudaDeviceGetStreamPriorityRange(nullptr, &greatest));
        ASSERT_LT(greatest, 0);
        const auto x = DeviceArray<int>(1, 1);
        me.on("dp").all_reduce(*x);
        EXPECT_EQ(has(), std::vector<int>{}) << "a blocking call is on the caller's stream";
        expect_works(me.on("dp"));
        EXPECT_EQ(has(), std::vector{greatest});
        expect_works(me.on("usual"));
        expect_works(me.on("low"));
        EXPECT_EQ(has(), (std::vector{greatest, 0, 0}));
    });
}

TEST(NcclSettings, AreAgreedUponBeforeAnythingIsMade) {
    auto made = std::vector<std::string>{};
    auto mutex = std::mutex{};
    const auto log = [&](std::string_view line) {
        const auto lock = std::lock_guard(mutex);
        if (line.find("joined") != line.npos) made.emplace_back(line);
    };
    on_devices(3,
               [](nccl::World& world) {
                   const auto most = world.rank() == 1 ? 4 : 8;
                   const auto plan = [&](DeviceSettings settings) {
                       return Plan{{.mesh = {{"dp", rest}}, .over = {Axes("dp").tuned(settings)}}};
                   };
                   EXPECT_EQ(text_of<Disagreement>([&] { world.join(plan({.max_ctas = most})); }),
                             "the ranks join different plans; every rank must declare the same:\n"
                             "  ranks {0, 2}: dp=3, over dp tuned to max_ctas=8\n"
                             "  rank 1: dp=3, over dp tuned to max_ctas=4");
                   EXPECT_EQ(
                       text_of<UsageError>([&] { world.join(plan({.min_ctas = 9, .max_ctas = 8})); }),
                       "'dp' of mesh dp=3 is tuned to min_ctas=9 max_ctas=8; the fewest CTAs are at most "
                       "as many as the most");
                   expect_works(world.join(plan({.max_ctas = 8})).on("dp"));
               },
               {.timeout = std::chrono::seconds(20), .log = log});
    ASSERT_EQ(made.size(), 3U);
    for (const auto& line : made) EXPECT_NE(line.find("; 2 NCCL communicators, "), line.npos) << line;
}

TEST(NcclSettings, HoldWhereResourcesAreSharedButForTheTrafficClass) {
    threads::run(4, [](World& host) {
        auto world = nccl::World(host, {.split_share = true});
        auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {Axes("tp").tuned({.max_ctas = 8})}});
        EXPECT_EQ(told(me.on("tp")), "rankmesh 'tp' of mesh dp=2 tp=2 maxCTAs=8");
        EXPECT_TRUE(fake::share(nccl::native(me.on("dp")), nccl::native(me.on("tp"))));
        expect_works(me.on("tp"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"dp", 2}, {"tp", 2}}, {.over = {Axes("tp").tuned({.traffic_class = 3})}});
                  }),
                  "'tp' of mesh dp=2 tp=2 is tuned to traffic_class=3; communicators that share resources "
                  "(split_share) "
                  "have no traffic class of their own, so leave out one or the other");
        expect_works(me.on("tp"));
    });
}
