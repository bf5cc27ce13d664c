// SPDX-License-Identifier: Apache-2.0
// What is started in checked mode goes on by itself, and its timeouts, failures and settings are those of
// every world.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <string>
#include <thread>

#include <rankmesh/engine/threads.hpp>

#include "checked.hpp"
#include "conformance.hpp"
#include "engine/threads/world.hpp"
#include "support/fake_device.hpp"
#include "support/is_seen.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using support::is_seen;

TEST(Checked, StartedCallsThatDifferAreHeardInTheirOwnWait) {
    auto heard = std::atomic<int>{0};
    threads::run(
        4,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            auto buffers = std::vector<std::vector<float>>{};
            auto pending = std::vector<Pending>{};
            for (std::size_t i = 0; i < 6; ++i)
                buffers.push_back(ones<float>(i == 2 && world.rank() == 3 ? 9 : i + 1));
            for (auto& buffer : buffers) pending.push_back(on.start().all_reduce(buffer));
            // Each waits in an order of its own.
            for (std::size_t i = 0; i < 6; ++i) {
                const auto which = (i * 5 + static_cast<std::size_t>(world.rank())) % 6;
                while (world.rank() == 1 && !pending[which].done()) std::this_thread::yield();
                try {
                    pending[which].wait();
                    EXPECT_EQ(buffers[which], std::vector<float>(which + 1, 4));
                } catch (const Disagreement& error) {
                    EXPECT_EQ(which, 2U);
                    EXPECT_EQ(error.ranks, std::vector{3});
                    EXPECT_EQ(buffers[which], ones<float>(buffers[which].size()));
                    ++heard;
                }
            }
            expect_works(on);
        },
        checked);
    EXPECT_EQ(heard, 4);
}

TEST(Checked, MemoryThatAPendingCallUsesIsRefusedAndTheGroupsGoOn) {
    threads::run(
        2,
        [](World& world) {
            auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
            auto on = me.on("dp");
            auto other = me.on("other");
            auto sub = world.sub({0, 1}).join({{"tp", rest}}).on("tp");
            auto x = ones<float>(8);
            auto read = ones<float>(8);
            auto pending = on.start().all_reduce(std::span(x).first(5));
            auto all = std::vector<float>(16);
            auto reading = on.start().all_gather(read, all);
            auto again = std::vector<float>(16);
            other.all_gather(read, again);  // which only reads what the other does
            if (world.rank() == 0) {        // the other rank makes no such call: it is none
                for (auto* refusing : {&on, &other, &sub}) try {
                        refusing->all_reduce(std::span(x).last(4));
                        ADD_FAILURE();
                    } catch (const UsageError& error) {
                        EXPECT_NE(std::string(error.what())
                                      .find("would write memory that a pending all_reduce of 5 f32 by sum on "
                                            "'dp' of mesh dp=2 writes"),
                                  std::string::npos)
                            << error.what();
                    }
                EXPECT_THROW(static_cast<void>(other.start().send(all, 1)), UsageError);
            }
            on.all_reduce(std::span(x).last(3));
            pending.wait();
            reading.wait();
            for (auto* works : {&on, &other, &sub}) works->all_reduce(std::span(x).last(4));
        },
        checked);
}

// Either order would hang if starting waited for the others, or if what was started did not go on in other
// calls.
TEST(Checked, WhatWasStartedGoesOnWhileOtherGroupsAreWaitedFor) {
    for (auto first : {0, 1})
        threads::run(
            4,
            [&](World& world) {
                auto me = world.join({{"pp", 2}, {"dp", 2}}, {.over = {{"pp", "dp"}}});
                auto dp = me.on("dp");
                auto all = me.on("pp", "dp");
                auto x = ones<float>(5);
                auto entry = ones<int>(2);
                if (world.rank() == first) {
                    auto pending = all.start().all_reduce(x);
                    dp.recv(entry, 1 - first);
                    pending.wait();
                } else if (world.rank() == 1 - first) {
                    auto pending = all.start().all_reduce(x);
                    pending.wait();
                    dp.send(entry, first);
                    // And where the message comes before the start of the other.
                } else {
                    all.all_reduce(x);
                }
                EXPECT_EQ(x, std::vector<float>(5, 4));
                if (world.rank() == first) {
                    auto pending = all.start().all_reduce(x);
                    dp.recv(entry, 1 - first);
                    pending.wait();
                } else {
                    if (world.rank() == 1 - first) dp.send(entry, first);
                    all.all_reduce(x);
                }
                EXPECT_EQ(x, std::vector<float>(5, 16));
            },
            checked);
}

TEST(Checked, AMessageOfABatchArrivesWhileAnotherOfItIsStillToCome) {
    threads::run(
        3,
        [](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            auto a = std::vector{7, 7};
            auto b = std::vector{7, 7, 7};
            auto c = std::vector{7};
            if (world.rank() == 0) {
                auto both = on.start().batch([&] { on.recv(b, 2), on.recv(a, 1); });
                on.recv(c, 1);  // comes after the batch's from there, and before the one from 2
                on.send(c, 2);
                both.wait();
            } else if (world.rank() == 1) {
                a = {1, 2};
                on.send(a, 0);
                c = {3};
                on.send(c, 0);
            } else {
                on.recv(c, 0);
                b = {4, 5, 6};
                on.send(b, 0);
            }
            if (world.rank() == 0) {
                EXPECT_EQ(a, (std::vector{1, 2}));
                EXPECT_EQ(b, (std::vector{4, 5, 6}));
                EXPECT_EQ(c, std::vector{3});
            }
        },
        checked);
}

TEST(Checked, AnExpiredTimeoutNamesTheCallAndWhoHasNotCome) {
    auto heard = std::atomic<int>{0};
    auto expired = std::latch(2);
    threads::run(
        3,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp").within(200ms);
            auto x = ones<float>(5);
            on.all_reduce(x);
            if (world.rank() == 1) return expired.wait();
            const auto text = text_of<Timeout>([&] { on.all_reduce(x); });
            EXPECT_NE(
                text.find(
                    " in all_reduce of 5 f32 by sum, call number 2 on 'dp' of mesh dp=3, group {0..2}: "
                    "arrived ranks {0, 2}, missing rank 1 [dp=1]; 'dp' of mesh dp=3 cannot be used any more"),
                std::string::npos)
                << text;
            EXPECT_THROW(on.barrier(), Timeout) << "a channel stays unusable";
            ++heard;
            expired.count_down();
        },
        checked);
    EXPECT_EQ(heard, 2);
}

TEST(Checked, ARankThatLeavesIsLostToThoseThatCompare) {
    for (const auto* how : {"first", "first, with a pending call", "later"}) {
        const auto first = *how == 'f';
        const auto pending = std::string(how).ends_with("call");
        auto lost = std::atomic<int>{0};
        auto left = std::latch(1);
        threads::run(
            3,
            [&](World& world) {
                auto x = ones<float>(5);
                try {
                    auto me = world.join({{"dp", rest}});
                    auto on = me.on("dp");
                    if (world.rank() == 1) {
                        auto y = ones<float>(5);
                        auto unfinished = pending ? on.start().all_reduce(y) : Pending();
                        for (auto other : {0, 2})
                            EXPECT_TRUE(first || is_seen(world, other, "in all_reduce"));
                        throw std::runtime_error("boom");
                    }
                    if (first) left.wait();
                    on.all_reduce(x);
                } catch (const PeerLost& error) {
                    EXPECT_EQ(error.ranks, std::vector{1});
                    ++lost;
                } catch (const std::runtime_error&) {
                    left.count_down();
                }
                world.join({{"dp", rest}}).on("dp").barrier();
            },
            checked);
        EXPECT_EQ(lost, 2) << how;
    }
}

TEST(Checked, OnADeviceCallsAreComparedBeforeTheyAreOnTheirStream) {
    auto heard = std::atomic<int>{0};
    threads::run(
        3,
        [&](World& host) {
            auto world = fake::World(host);
            auto on = world.join({{"dp", rest}}).on("dp");
            const auto x = fake::Array<int>(3, 1);
            const auto y = fake::Array<int>(4, 1);
            const auto z = fake::Array<int>(3);
            const auto hears = [&](const std::function<void()>& call, std::vector<int> ranks) {
                try {
                    call();
                    ADD_FAILURE() << "calls that differ were made";
                } catch (const Disagreement& error) {
                    EXPECT_EQ(error.ranks, ranks);
                    ++heard;
                }
            };
            const auto odd = world.rank() == 1;
            hears([&] { on.all_reduce(odd ? *y : *x); }, {1});
            hears([&] { on.start().all_reduce(odd ? *y : *x).synchronize(); }, {1});
            if (world.rank() < 2)
                hears([&] { on.batch([&] { odd ? on.recv(*y, 0) : on.send(*x, 1); }); }, {0, 1});
            on.all_reduce(*x);
            on.start().send_recv(*x, (world.rank() + 1) % 3, *z, (world.rank() + 2) % 3).synchronize();
            world.queue().synchronize();
            EXPECT_EQ(x.values(), std::vector<int>(3, 3));
            EXPECT_EQ(y.values(), std::vector<int>(4, 1));
            auto beside = on.host();
            expect_works(beside);
        },
        checked);
    EXPECT_EQ(heard, 8);
    EXPECT_EQ(fake::take_faults(), std::vector<std::string>{});
}

TEST(Checked, RanksOfDifferentModesHearItWhenTheyJoin) {
    class RankWorld : public World {
    public:
        explicit RankWorld(std::shared_ptr<detail::WorldState> state) : World(std::move(state)) {}
    };
    const auto job = std::make_shared<detail::Job>(3);
    const auto store = std::make_shared<detail::JobStore>();
    const auto join = [&](int rank) {
        auto world = RankWorld(std::make_shared<detail::ThreadsWorld>(
            job, store, rank, WorldOptions{.timeout = 20s, .checked = rank == 1}));
        return text_of<Disagreement>([&] { world.join({{"dp", rest}}); });
    };
    auto texts = std::vector<std::future<std::string>>{};
    for (int rank = 0; rank < 3; ++rank) texts.push_back(std::async(std::launch::async, join, rank));
    for (auto& text : texts)
        EXPECT_EQ(
            text.get(),
            "the ranks join different plans; every rank must declare the same:\n  ranks {0, 2}: dp=3, over "
            "dp\n  rank 1: dp=3, over dp, in checked mode");
}

TEST(Checked, TheEnvironmentTurnsItOnAndWhatIsNoModeIsRefused) {
    const auto mode = [](const char* given, WorldOptions options) {
        setenv("RANKMESH_CHECK", given, 1);
        auto text = std::string{};
        try {
            threads::run(
                2,
                [](World& world) {
                    auto x = ones<int>(world.rank() == 0 ? 1 : 2);
                    world.join({{"dp", rest}}).on("dp").all_reduce(x);
                },
                options);
        } catch (const Error& error) {
            text = error.what();
        }
        unsetenv("RANKMESH_CHECK");
        EXPECT_NE(text.find("is not the same on all its ranks"), text.npos) << text;
        return text.find("; nothing was sent") != text.npos;
    };
    EXPECT_TRUE(mode("1", {}));
    EXPECT_FALSE(mode("0", {}));
    EXPECT_TRUE(mode("0", {.checked = true}));
    EXPECT_FALSE(mode("1", {.checked = false}));
    setenv("RANKMESH_CHECK", "yes", 1);
    EXPECT_EQ(text_of<UsageError>([] { threads::run(1, [](World&) {}); }),
              "RANKMESH_CHECK='yes' is neither 0 nor 1; set it to 1 to compare calls, or unset it");
    unsetenv("RANKMESH_CHECK");
}

TEST(Environment, RankmeshTimeoutIsTheDefaultInSeconds) {
    const auto timeout = [](const char* seconds) {
        if (seconds) setenv("RANKMESH_TIMEOUT", seconds, 1);
        auto found = std::chrono::nanoseconds{};
        const auto error = text_of<UsageError>([&] {
            found = WorldOptions{}.timeout;
            threads::run(1, [](World&) {}, {.timeout = 2s});  // does not read the variable
            threads::run(1, [](World&) {});
        });
        unsetenv("RANKMESH_TIMEOUT");
        return std::pair(found, error);
    };
    EXPECT_EQ(timeout(nullptr).first, 30min);
    EXPECT_EQ(timeout("90").first, 90s);
    setenv("RANKMESH_TIMEOUT", "90", 1);  // which is right; the program's is not
    EXPECT_EQ(text_of<UsageError>([] { threads::run(1, [](World&) {}, {.timeout = 0s}); }),
              "a timeout of 0 s; it must be positive");
    unsetenv("RANKMESH_TIMEOUT");
    for (const auto* wrong : {"0", "-1", "2.5", "5min", ""})
        EXPECT_EQ(timeout(wrong).second,
                  detail::cat("RANKMESH_TIMEOUT='", wrong,
                              "' is not a whole number of seconds, 1 or more; set it to "
                              "such a number, or unset it"));
}
