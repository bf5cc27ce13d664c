// SPDX-License-Identifier: Apache-2.0
// Communicators of NCCL that are suspended while they are idle, by NCCL or, where it cannot, by making them
// again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include <rankmesh/interop/nccl.hpp>

#include "nccl_ranks.hpp"
#include "support/device_array.hpp"

using namespace rankmesh;
using support::DeviceArray;

namespace {

/// True if the fake NCCL has what headers of 2.28 lack.
#ifdef NCCL_SUSPEND_MEM
constexpr auto suspends = true;
#else
constexpr auto suspends = false;
#endif

void expect_sum(Communicator& on, int rank) {
    const auto ranks = on.world_ranks();
    const auto x = DeviceArray<float>(3, static_cast<float>(rank));
    auto sum = DeviceArray<float>(3, -1.0f);
    on.start().all_reduce(*x, *sum).synchronize();
    EXPECT_EQ(sum.values(),
              std::vector<float>(3, static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0))));
}

/// Suspends and resumes a set and a group, and compares the handles of NCCL's communicators; `fails`: NCCL
/// refuses on a rank.
void check_rest(bool fails, bool checked) {
    on_devices(4,
               [&](nccl::World& world) {
                   auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
                   auto group = me.group({3, 1, 0, 2});
                   auto sets = std::vector<Communicator>{};
                   sets.push_back(me.on("dp"));
                   sets.push_back(me.on("tp"));
                   sets.push_back(me.on("dp", "tp"));
                   sets.push_back(std::move(group));
                   for (int turn = 0; turn < 3; ++turn) {
                       for (auto& on : sets) expect_sum(on, world.rank());
                       auto before = std::vector<ncclComm_t>{};
                       for (auto& on : sets) before.push_back(nccl::native(on));
                       const auto held = me.usage();
                       me.suspend();
                       const auto rest = me.usage();
                       ASSERT_EQ(rest.communicators.size(), 4U);
                       for (std::size_t i = 0; i < sets.size(); ++i) {
                           EXPECT_TRUE(rest.communicators[i].suspended);
                           EXPECT_NE(text_of([&] {
                                         expect_sum(sets[i], 0);
                                     }).find("is suspended; its ranks call resume first"),
                                     std::string::npos);
                           const auto by_nccl = suspends && !fails;
                           EXPECT_EQ(nccl::native(sets[i]), by_nccl ? before[i] : nullptr);
                           if (suspends) {
                               EXPECT_EQ(held.communicators[i].device_bytes, std::size_t{4} << 20);
                           }
                           if (by_nccl) {
                               EXPECT_EQ(rest.communicators[i].device_bytes, std::size_t{1} << 20);
                           } else {
                               EXPECT_EQ(rest.communicators[i].device_bytes, std::nullopt);
                           }
                       }
                       me.resume();
                       for (auto& on : sets) EXPECT_NE(nccl::native(on), nullptr);
                   }
                   for (auto& on : sets) expect_sum(on, world.rank());
                   me.suspend();  // and ends so
               },
               {.timeout = std::chrono::seconds(20), .checked = checked});
}

}  // namespace

TEST(NcclRest, MemoryIsReleasedAndTheSameCommunicatorGoesOn) {
    for (auto checked : {false, true}) check_rest(false, checked);
}

TEST(NcclRest, WhereNcclCannotSuspendACommunicatorIsMadeAgain) {
    setenv("FAKE_FAIL", "ncclCommSuspend", 1);
    for (auto checked : {false, true}) check_rest(true, checked);
    unsetenv("FAKE_FAIL");
}

TEST(NcclRest, WhenNcclFailsOnOneRankTheOthersWaitAtMostTheTimeout) {
    for (const auto* call : {"ncclCommSuspend@1", "ncclCommResume@1"}) {
        if (!suspends) continue;
        setenv("FAKE_FAIL", call, 1);
        on_devices(2,
                   [&](nccl::World& world) {
                       auto me = world.join({{"dp", rest}});
                       auto on = me.on("dp");
                       expect_sum(on, world.rank());
                       me.suspend();
                       me.resume();
                       expect_sum(on, world.rank());
                   },
                   {.timeout = std::chrono::seconds(2)});
        unsetenv("FAKE_FAIL");
    }
}

TEST(NcclRest, AGroupThatNcclCannotMakeLeavesSuspendAndResumeAsTheyWere) {
    on_devices(4, [&](nccl::World& world) {
        auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
        auto all = me.on("dp", "tp");
        const auto labels = [&] {
            auto listed = std::vector<std::string>{};
            for (const auto& each : me.usage().communicators) listed.push_back(each.label);
            return listed;
        };
        expect_sum(all, world.rank());
        const auto before = labels();
        all.host().barrier();
        if (world.rank() == 0) setenv("FAKE_FAIL", "ncclCommInitRankConfig", 1);
        all.host().barrier();
        EXPECT_THROW(me.group({3, 1, 0, 2}), Error);
        all.host().barrier();
        if (world.rank() == 0) unsetenv("FAKE_FAIL");
        all.host().barrier();
        EXPECT_EQ(labels(), before);
        me.suspend();
        for (const auto& each : me.usage().communicators) EXPECT_TRUE(each.suspended) << each.label;
        me.resume();
        for (const auto& each : me.usage().communicators) EXPECT_FALSE(each.suspended) << each.label;
        expect_sum(all, world.rank());
        auto group = me.group({3, 1, 0, 2});
        expect_sum(group, world.rank());
        EXPECT_EQ(labels().size(), before.size() + 1);
        EXPECT_EQ(me.usage(group).communicators.size(), 1U);
        me.suspend(group);
        EXPECT_TRUE(me.usage(group).communicators.front().suspended);
        EXPECT_FALSE(me.usage(all).communicators.front().suspended);
    });
}
