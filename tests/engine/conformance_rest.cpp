// SPDX-License-Identifier: Apache-2.0
// Communicators that are suspended while they are idle, and what is told of what they hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <numeric>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"
#include "operations.hpp"
#include "support/eventually.hpp"

using namespace rankmesh;
using operations::check_all;

namespace {

int open_descriptors() {
    auto count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
        static_cast<void>(each);
        ++count;
    }
    return count;
}

/// The descriptors of this process once they are `wanted`, as closing may take a moment, or after a while.
int descriptors_once(int wanted) {
    static_cast<void>(
        support::eventually([&] { return open_descriptors() == wanted; }, std::chrono::seconds(2)));
    return open_descriptors();
}

/// The descriptors of this process once those of earlier tests are closed: when their number has not changed
/// for a while.
int settled_descriptors() {
    auto number = open_descriptors();
    auto since = std::chrono::steady_clock::now();
    static_cast<void>(support::eventually(
        [&] {
            const auto now = std::chrono::steady_clock::now();
            if (std::exchange(number, open_descriptors()) != number) since = now;
            return now - since > std::chrono::milliseconds(150);
        },
        std::chrono::seconds(2)));
    return number;
}

std::string refusal(Communicator& on) {
    return text_of([&] { on.barrier(); });
}

/// Reduces one number over the communicator, and sends it around.
void expect_sums(Communicator& on) {
    const auto ranks = on.world_ranks();
    auto sum = on.world_rank(on.rank());
    auto before = sum;
    on.all_reduce(sum);
    EXPECT_EQ(sum, std::accumulate(ranks.begin(), ranks.end(), 0)) << on.label();
    on.shift(before, 1);
    const auto n = on.size();
    EXPECT_EQ(before, ranks[static_cast<std::size_t>((on.rank() + n - 1) % n)]) << on.label();
}

}  // namespace

TEST(Conformance, ASuspendedSetRefusesCallsUntilResumedAndOtherSetsGoOn) {
    on_every_rank([](World& world) {
        for (const auto& mesh : meshes_of(world.size())) {
            auto me = world.join(mesh);
            for (int turn = 0; turn < 2; ++turn)
                for (int a = 0; a < mesh.axis_count(); ++a) {
                    auto on = me.on(AxisId{a});
                    if (turn == 0) check_all<float>(on, world.rank(), 2);
                    me.suspend(AxisId{a});
                    me.suspend(AxisId{a});  // does nothing
                    if (on.size() > 1) {
                        EXPECT_EQ(refusal(on),
                                  detail::cat(on.label(), ", group ", ranks_to_string(on.world_ranks()),
                                              ", is suspended; its ranks call resume first"));
                    } else {
                        on.barrier();
                    }
                    for (int other = 0; other < mesh.axis_count(); ++other)
                        if (auto beside = me.on(AxisId{other}); beside.world_ranks() != on.world_ranks())
                            expect_sums(beside);
                    me.resume(AxisId{a});
                    me.resume(AxisId{a});
                    check_all<float>(on, world.rank(), 3);
                }
        }
    });
}

TEST(Conformance, AllOfAMemberOrOfAMeshAreSuspendedAtOnceAndRunTimeGroupsToo) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        auto me = world.join(
            {{.name = "a",
              .mesh = {{"dp", rest}, {"one", 1}},
              .over = {{"dp", "one"}, Axes("dp").separate("other")}},
             {.name = "b", .mesh = {{"dp", rest}}, .picks = {{.of = "dp", .at = {0}, .as = "first"}}}});
        auto turned = std::vector<int>(static_cast<std::size_t>(n));
        std::iota(turned.rbegin(), turned.rend(), 0);
        auto group = me.group(turned, {.name = "turned"});
        auto dp = me["a"].on("dp");
        auto other = me["a"].on("other");
        auto shared = me["b"].on("dp");
        const auto suspended = [&] {
            auto names = std::vector<std::string>{};
            for (const auto& each : me.usage().communicators)
                if (each.suspended) names.push_back(each.axes);
            return names;
        };
        using Names = std::vector<std::string>;
        const auto some = [n](Names names) { return n > 1 ? names : Names{}; };
        EXPECT_EQ(suspended(), Names{});
        me["b"].suspend();
        EXPECT_EQ(suspended(), some({"dp"}));
        check_all<float>(other, world.rank(), 2);
        check_all<float>(group, world.rank(), 2);
        me.suspend();
        EXPECT_EQ(suspended(), some({"dp", "other", "turned"}));
        for (auto* on : {&dp, &other, &shared, &group}) {
            if (n > 1) {
                EXPECT_NE(refusal(*on).find("is suspended"), std::string::npos);
            }
        }
        me["b"].resume("dp");
        EXPECT_EQ(suspended(), some({"other", "turned"}));
        check_all<float>(shared, world.rank(), 2);
        me.resume(group);
        EXPECT_EQ(suspended(), some({"other"}));
        me["b"].suspend("first");  // of one rank, and not of the others
        me.resume();
        EXPECT_EQ(suspended(), Names{});
        for (auto* on : {&dp, &other, &shared, &group}) check_all<float>(*on, world.rank(), 2);
        // Whoever ends while some are suspended ends well.
        me.suspend(other);
    });
}

TEST(Conformance, WhatIsStartedAndNotCompleteIsNotSuspended) {
    on_every_rank([](World& world) {
        if (world.size() == 1) return;
        auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        auto x = 1;
        auto pending = on.start().all_reduce(x);
        EXPECT_EQ(
            text_of([&] { me.suspend("dp"); }),
            detail::cat("'dp' of mesh dp=", world.size(),
                        " is to be suspended while calls that were started on it are not complete; wait "
                        "for them first"));
        pending.wait();
        EXPECT_EQ(x, world.size());
        me.suspend();
        me.resume();
        on.barrier();
        const auto other = world.join({{"dp", rest}});
        EXPECT_EQ(text_of([&] { other.suspend(on); }),
                  detail::cat("'dp' of mesh dp=", world.size(),
                              " is not of this member, which can suspend, resume and count its own "
                              "communicators only; ask the member that it is of"));
        on.barrier();
    });
}

TEST(Conformance, WhereOneIsNotIdleNoneIsSuspended) {
    on_every_rank([](World& world) {
        if (world.size() == 1) return;
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("a"), Axes("dp").separate("b")}});
        for (const auto* name : {"dp", "a", "b"}) {
            auto x = 1;
            auto busy = me.on(name);
            auto pending = busy.start().all_reduce(x);
            EXPECT_NE(text_of([&] { me.suspend(); }).find("are not complete; wait for them first"),
                      std::string::npos);
            for (const auto& each : me.usage().communicators) EXPECT_FALSE(each.suspended) << each.label;
            for (const auto* other : {"dp", "a", "b"})
                if (other != std::string_view(name)) me.on(other).barrier();
            pending.wait();
            EXPECT_EQ(x, world.size());
        }
        me.suspend();
        for (const auto& each : me.usage().communicators) EXPECT_TRUE(each.suspended) << each.label;
        me.resume();
        me.on("b").barrier();
    });
}

TEST(Conformance, WhatIsHeldAgreesWithTheSystemAndIsGoneWhileSuspended) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        // What compares calls holds as many, and keeps them.
        const auto of_gloo = world.engine() == "gloo" ? 1 : 0;
        const auto kept = is_checked() ? of_gloo : 0;
        auto me = world.join({{"dp", rest}, {"tp", n % 2 == 0 ? 2 : 1}});
        auto all = me.group([&] {
            auto ranks = std::vector<int>(static_cast<std::size_t>(n));
            std::iota(ranks.rbegin(), ranks.rend(), 0);
            return ranks;
        }());
        for (int turn = 0; turn < 3; ++turn) {
            const auto held = me.usage();
            const auto before = world.engine() == "gloo" ? settled_descriptors() : 0;
            EXPECT_EQ(static_cast<int>(held.communicators.size()), me.channel_count());
            auto wanted = 0;
            for (const auto& each : held.communicators) {
                EXPECT_FALSE(each.suspended);
                EXPECT_EQ(each.connections, (of_gloo + kept) * (each.size - 1)) << each.label;
                wanted += each.descriptors;
            }
            EXPECT_EQ(held.descriptors(), wanted);
            me.suspend();
            const auto rest = me.usage();
            for (const auto& each : rest.communicators)
                EXPECT_EQ(each.connections, kept * (each.size - 1)) << each.label;
            const auto after = before - wanted + rest.descriptors();
            EXPECT_EQ(rest.descriptors(), rest.connections());
            if (world.engine() == "gloo") {
                EXPECT_EQ(descriptors_once(after), after);
            }
            me.resume();
            EXPECT_EQ(me.usage().connections(), held.connections());
            if (world.engine() == "gloo") {
                EXPECT_EQ(descriptors_once(before), before);
            }
            check_all<float>(all, world.rank(), 2);
        }
    });
}
