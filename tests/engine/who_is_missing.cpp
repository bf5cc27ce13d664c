// SPDX-License-Identifier: Apache-2.0
// What the error of an expired timeout says of the ranks that are missing, on threads.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <latch>
#include <regex>

#include <rankmesh/engine/threads.hpp>

#include "support/is_seen.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using support::is_seen;

namespace {

/// Runs a program whose errors are those that its ranks are to meet.
void run(int size, const std::function<void(World&)>& program, const WorldOptions& options) {
    try {
        threads::run(size, program, options);
    } catch (const Error&) {
    }
}

}  // namespace

TEST(WhoIsMissing, AnErrorSaysWhatEachMissingRankWasLastSeenDoing) {
    auto said = std::string{};
    auto expired = std::latch(1);
    run(5,
        [&](World& world) {
            auto me = world.join({{"dp", rest}},
                                 {.over = {Axes("dp").separate("other"), Axes("dp").separate("third")}});
            auto on = me.on("dp");
            auto x = std::vector<float>(4);
            if (world.rank() == 1) return expired.wait();
            if (world.rank() == 2) me.on("other").all_reduce(x);
            if (world.rank() == 3) {
                me.on("third").start().shift(x, 1).wait();
            }
            if (world.rank() == 4) {
                auto pending = me.on("third").start().broadcast(x, 2);
                expired.wait();
                throw EngineFailure("over");
            }
            EXPECT_TRUE(is_seen(world, 1, "outside any call"));
            EXPECT_TRUE(is_seen(world, 2, "in all_reduce"));
            EXPECT_TRUE(is_seen(world, 3, "in shift"));
            EXPECT_TRUE(is_seen(world, 4, "has started broadcast"));
            said = text_of<Timeout>([&] { on.within(200ms).barrier(); });
            expired.count_down();
            throw EngineFailure("over");
        },
        {.timeout = 20s});
    const auto wanted = std::regex(
        ".* cannot be used any more; rank 1 \\[dp=1\\] is outside any call[^;]*; rank 2 \\[dp=2\\] is "
        "in "
        "all_reduce of 4 f32 by sum, call number 1 on 'other' of mesh dp=5, for [01]\\.\\d s, waiting for "
        "ranks \\{0, 1, 3, 4\\}; rank 3 "
        "\\[dp=3\\] is "
        "in shift of 4 f32 by 1, call number 1 on 'third' of mesh dp=5, for [01]\\.\\d s, waiting for ranks "
        "\\{0..2\\}; rank 4 \\[dp=4\\] "
        "is "
        "outside any call for [01]\\.\\d s, has started broadcast of 4 f32 from 2, call number 1 on 'third' "
        "of "
        "mesh dp=5 and not waited for it");
    EXPECT_TRUE(std::regex_match(said, wanted)) << said;
}

TEST(WhoIsMissing, AnErrorFollowsWhoWaitsForWhomToTheRankThatComesNowhere) {
    auto said = std::string{};
    auto expired = std::latch(1);
    run(4,
        [&](World& world) {
            auto me = world.join({{"dp", 2}, {"tp", 2}});
            if (world.rank() == 2) return expired.wait();
            if (world.rank() == 3) me.on("tp").barrier();  // throws, as that of rank 1
            if (world.rank() == 1) me.on("dp").barrier();
            for (auto waits : {1, 3}) EXPECT_TRUE(is_seen(world, waits, "in barrier"));
            EXPECT_TRUE(is_seen(world, 2, "outside any call"));
            said = text_of<Timeout>([&] { me.on("tp").within(200ms).barrier(); });
            expired.count_down();
        },
        {.timeout = 20s});
    const auto wanted = std::regex(
        ".* cannot be used any more; rank 1 \\[dp=0 tp=1\\] is in barrier, [^;]* s, waiting for rank 3; rank "
        "3 "
        "\\[dp=1 tp=1\\] is in barrier, [^;]* s, waiting for rank 2; rank 2 \\[dp=1 tp=0\\] is outside any "
        "call.*");
    EXPECT_TRUE(std::regex_match(said, wanted)) << said;
}

TEST(WhoIsMissing, ARankIsSeenInItsJoinOrOutsideWithItsLastCall) {
    auto said = std::array<std::string, 2>{};
    auto expired = std::latch(1);
    run(3,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            on.barrier();
            if (world.rank() == 0) {
                EXPECT_TRUE(is_seen(world, 1, "in join"));
                EXPECT_TRUE(is_seen(world, 2, "last completed barrier"));
                said[0] = text_of<Timeout>([&] { on.within(100ms).barrier(); });
            }
            if (world.rank() == 1) {
                said[1] = text_of<Timeout>([&] { world.join({{"dp", rest}}); });
                expired.count_down();
            }
            expired.wait();
        },
        {.timeout = 800ms});
    EXPECT_NE(said[0].find("; rank 1 [dp=1] is in join for "), std::string::npos) << said[0];
    EXPECT_TRUE(
        std::regex_search(said[0], std::regex("; rank 2 \\[dp=2\\] is outside any call for 0\\.\\d s, last "
                                              "completed barrier, call number 1 on 'dp' of mesh dp=3$")))
        << said[0];
    EXPECT_NE(said[1].find("expired in join on rank 1: arrived rank 1, missing ranks {0, 2}"),
              std::string::npos)
        << said[1];
    EXPECT_NE(said[1].find("; rank 2 is outside any call for "), std::string::npos) << said[1];
}

TEST(WhoIsMissing, ARankWhoseCallFailedIsSeenOutsideSinceThen) {
    auto text = std::string{};
    auto expired = std::latch(1);
    run(3,
        [&](World& world) {
            auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
            me.on("dp").barrier();
            if (world.rank() == 0) {
                EXPECT_TRUE(is_seen(world, 1, "last failed in barrier"));
                text = text_of<Timeout>([&] { me.on("dp").within(100ms).barrier(); });
                expired.count_down();
            }
            if (world.rank() == 1) {
                EXPECT_TRUE(is_seen(world, 2, "last completed barrier"));
                EXPECT_THROW(me.on("other").within(400ms).barrier(), Timeout);
            }
            if (world.rank() > 0) expired.wait();
        },
        {.timeout = 20s});
    const auto wanted = std::regex(
        "; rank 1 \\[dp=1\\] is outside any call for (0\\.\\d) s, last failed in barrier, call number 1 "
        "on "
        "'other' of "
        "mesh dp=3; rank 2 \\[dp=2\\] is outside any call for ([01]\\.\\d) s, last completed barrier");
    auto found = std::smatch{};
    ASSERT_TRUE(std::regex_search(text, found, wanted)) << text;
    EXPECT_GE(std::stod(found[2]) - std::stod(found[1]), 0.25) << "the call lasted 0.4 s: " << text;
}

TEST(WhoIsMissing, OfManyMissingRanksTheFirstFewAreDescribed) {
    auto text = std::string{};
    auto expired = std::latch(1);
    run(9,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            if (world.rank() > 0) return expired.wait();
            text = text_of<Timeout>([&] { on.within(100ms).barrier(); });
            expired.count_down();
        },
        {.timeout = 20s});
    EXPECT_EQ(text.substr(text.size() - 12), "; and 4 more") << text;
}
