// SPDX-License-Identifier: Apache-2.0
// Groups that are made at run time, on threads: what is said when ranks do not come, differ or leave.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <numeric>
#include <random>
#include <regex>
#include <thread>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/threads.hpp>

#include "engine/access.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

const auto square = MeshSpec{{"dp", 2}, {"tp", 2}};

/// The kind of error that `body` throws, and its text; "" if it throws none.
template <class Body>
std::string error_of(Body&& body) {
    try {
        body();
    } catch (const Disagreement& error) {
        return detail::cat("Disagreement ", ranks_to_string(error.ranks), ": ", error.what());
    } catch (const Timeout& error) {
        return detail::cat("Timeout ", ranks_to_string(error.missing), ": ", error.what());
    } catch (const PeerLost& error) {
        return detail::cat("PeerLost ", ranks_to_string(error.ranks), ": ", error.what());
    }
    return {};
}

}  // namespace

TEST(Groups, AbsentRanksAreMissingWithCoordinatesAndTheirCurrentCall) {
    auto said = std::array<std::string, 4>{};
    auto expired = std::latch(2);
    threads::run(4,
                 [&](World& world) {
                     auto me = world.join(square);
                     const auto r = static_cast<std::size_t>(world.rank());
                     if (r % 2 == 0) {
                         try {
                             me.group({0, 1, 2, 3}, {.name = "team"});
                         } catch (const Timeout& error) {
                             said[r] = detail::cat(error.what(), "; ", error.seen);
                         }
                         expired.count_down();
                     }
                     expired.wait();
                 },
                 {.timeout = 300ms});
    for (auto r : {0, 2}) {
        const auto wanted = std::regex(detail::cat(
            "the timeout of 300 ms expired in making 'team' of mesh dp=2 tp=2, group \\{0..3\\}, on rank ", r,
            ": arrived ranks \\{0, 2\\}, missing ranks 1 \\[dp=0 tp=1\\], 3 \\[dp=1 tp=1\\]; rank 1 \\[dp=0 "
            "tp=1\\] is "
            "outside any call.*; rank 3 \\[dp=1 tp=1\\] is outside any call.*"));
        EXPECT_TRUE(std::regex_match(said[static_cast<std::size_t>(r)], wanted))
            << said[static_cast<std::size_t>(r)];
    }
}

TEST(Groups, OverlappingListsInDifferentOrdersEndInWords) {
    auto said = std::array<std::string, 3>{};
    auto expired = std::latch(3);
    threads::run(3,
                 [&](World& world) {
                     auto me = world.join({{"dp", rest}});
                     const auto r = world.rank();
                     const auto pairs = std::vector<std::vector<int>>{{0, 1}, {1, 2}, {0, 2}};
                     said[static_cast<std::size_t>(r)] =
                         error_of([&] { me.group(pairs[static_cast<std::size_t>(r)]); });
                     expired.arrive_and_wait();
                 },
                 {.timeout = 300ms});
    EXPECT_TRUE(said[0].starts_with("Timeout {1}: ")) << said[0];
    EXPECT_TRUE(said[1].starts_with("Timeout {2}: ")) << said[1];
    EXPECT_TRUE(said[2].starts_with("Timeout {0}: ")) << said[2];
}

TEST(Groups, ListsThatDifferRaiseDisagreementAlsoIfARankIsAbsent) {
    auto said = std::array<std::string, 4>{};
    auto over = std::latch(3);
    const auto begin = std::chrono::steady_clock::now();
    threads::run(4,
                 [&](World& world) {
                     auto me = world.join(square);
                     const auto r = world.rank();
                     if (r < 3) {
                         said[static_cast<std::size_t>(r)] = error_of([&] {
                             me.group(r == 1 ? std::vector{0, 1, 3} : std::vector{0, 1, 2});
                         });
                         over.count_down();
                     }
                     over.wait();
                 },
                 {.timeout = 1min});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 50s);
    for (int r = 0; r < 3; ++r) {
        const auto& text = said[static_cast<std::size_t>(r)];
        EXPECT_TRUE(
            text.starts_with("Disagreement {1}: the ranks ask for different groups, and {3} has not "
                             "come yet; all ranks of a group must list the same ranks"))
            << text;
        EXPECT_TRUE(text.ends_with("\n  ranks {0, 2}: {0..2}\n  rank 1: {0, 1, 3}")) << text;
    }
}

TEST(Groups, EntriesOfAFailedGroupAreNotTakenForThoseOfTheNext) {
    auto first = std::array<std::string, 4>{};
    auto late = std::latch(3);
    auto next = std::latch(4);
    threads::run(
        4,
        [&](World& world) {
            auto me = world.join({{"dp", rest}});
            const auto r = world.rank();
            auto& said = first[static_cast<std::size_t>(r)];
            if (r == 3) late.wait();
            // Rank 3 comes after the others have given it up.
            said = error_of([&] { me.group(r == 1 ? std::vector{0, 2, 1, 3} : std::vector{0, 1, 2, 3}); });
            if (r < 3) late.count_down();
            next.arrive_and_wait();
            auto sum = r;
            me.group({3, 1, 0, 2}).all_reduce(sum);
            EXPECT_EQ(sum, 6);
            if (r == 3 || r == 0) me.group({0, 3}).barrier();
        },
        {.timeout = 20s});
    for (const auto& said : first) EXPECT_TRUE(said.starts_with("Disagreement {1}: ")) << said;
}

TEST(Groups, ARankThatReturnedOrLeftIsLostToThoseThatWaitForItInAGroup) {
    for (auto throws : {false, true}) {
        auto said = std::string{};
        try {
            threads::run(2,
                         [&](World& world) {
                             auto me = world.join({{"dp", rest}});
                             if (world.rank() == 1) {
                                 if (throws) throw std::runtime_error("over");
                                 return;
                             }
                             said = error_of([&] { me.group({1, 0}); });
                         },
                         {.timeout = 20s});
        } catch (const std::runtime_error&) {
        }
        EXPECT_EQ(said, detail::cat("PeerLost {1}: rank 1 ", throws ? "failed: over" : "has returned",
                                    "; making '{1, 0}' of mesh dp=2, group {1, 0}, cannot be completed"));
    }
}

TEST(Groups, ARankThatComesOnlyAtTheSecondTryMakesTheGroupWithTheOthers) {
    auto tried = std::latch(2);
    threads::run(3,
                 [&](World& world) {
                     auto me = world.join({{"dp", rest}});
                     const auto make = [&] { return me.group({0, 1, 2}, {.name = "late"}); };
                     if (world.rank() == 2) tried.wait();
                     if (world.rank() != 2) {
                         EXPECT_TRUE(error_of(make).starts_with("Timeout {2}: "));
                         tried.arrive_and_wait();
                     }
                     auto sum = 1;
                     make().all_reduce(sum);
                     EXPECT_EQ(sum, 3);
                     me.group({0, 2, 1}).all_reduce(sum);
                     EXPECT_EQ(sum, 9);
                 },
                 {.timeout = 500ms});
}

TEST(Groups, CallsThatDifferAreNamedByTheGroupInCheckedModeAndWithout) {
    for (auto checked : {false, true})
        threads::run(3,
                     [&](World& world) {
                         auto me = world.join({{"dp", rest}});
                         if (world.rank() == 0) return;
                         auto on = me.group({2, 1}, {.name = "pair"});
                         auto x = std::vector<float>(world.rank() == 1 ? 4U : 5U);
                         const auto text = text_of<Disagreement>([&] { on.all_reduce(x); });
                         EXPECT_NE(text.find("'pair' of mesh dp=3"), std::string::npos) << text;
                     },
                     {.timeout = 20s, .checked = checked});
}

TEST(Groups, APlacedMeshHasRanksOfTheWorldAndCoordinatesOfTheMesh) {
    auto said = std::string{};
    auto over = std::latch(1);
    threads::run(4,
                 [&](World& world) {
                     auto me = world.join({{.name = "a", .mesh = square, .placed = {3, 2, 1, 0}},
                                           {.name = "b", .mesh = {{"x", 2}}, .partial = true}});
                     if (world.rank() == 0) {
                         said = error_of([&] { me["a"].group({0, 3}); });
                         over.count_down();
                     }
                     over.wait();
                     // What rank 0 said of a group that it gave up is void at once, not when it comes to the
                     // next: it comes later than the 100 ms after which the others would take it to differ.
                     if (world.rank() == 0) std::this_thread::sleep_for(250ms);
                     // Ranks outside a mesh make groups as well.
                     auto on = me["b"].group({3, 0, 2, 1});
                     EXPECT_EQ(on.world_ranks(), (std::vector{3, 0, 2, 1}));
                     on.barrier();
                 },
                 {.timeout = 500ms});
    EXPECT_TRUE(
        said.starts_with("Timeout {3}: the timeout of 500 ms expired in making '{0, 3}' of mesh 'a', group "
                         "{0, 3}, on rank 0: arrived rank 0, missing rank 3 [dp=0 tp=0]"))
        << said;
}

TEST(Groups, Split_WhenARankDoesNotCome_NamesItOnAllOthers) {
    for (int absent = 0; absent < 4; ++absent) {
        auto heard = std::latch(3);
        threads::run(4,
                     [&](World& world) {
                         auto me = world.join(square);
                         if (world.rank() == absent) return heard.wait();
                         const auto error = error_of([&] { me.split(0); });
                         EXPECT_TRUE(error.starts_with(
                             detail::cat("Timeout {", absent,
                                         "}: the timeout of 300 ms expired in split, of all ranks of "
                                         "the world, on rank ")))
                             << error;
                         EXPECT_NE(error.find(detail::cat(", missing rank ", absent, ";")), std::string::npos)
                             << error;
                         heard.count_down();
                     },
                     {.timeout = 300ms});
    }
}

TEST(Groups, TheRanksOfALongListAreNamedInShort) {
    threads::run(30,
                 [](World& world) {
                     auto me = world.join({{"dp", rest}});
                     auto ranks = std::vector<int>{};
                     for (int i = 0; i < 30; ++i) ranks.push_back(i * 7 % 30);
                     auto on = me.group(ranks);
                     EXPECT_EQ(on.world_ranks(), ranks);
                     if (world.rank() == 0) {
                         EXPECT_EQ(on.label(), "'30 ranks from 0' of mesh dp=30");
                     }
                     on.barrier();
                 },
                 {.timeout = 20s});
}

TEST(Groups, OnlyTheRanksOfAListTakePart) {
    // The others are in no call at all until the group has been used.
    auto done = std::latch(3);
    threads::run(6,
                 [&](World& world) {
                     auto me = world.join({{"dp", rest}});
                     if (world.rank() % 2 == 0) {
                         auto sum = world.rank();
                         me.group({4, 0, 2}).all_reduce(sum);
                         EXPECT_EQ(sum, 6);
                         done.count_down();
                     } else {
                         done.wait();
                     }
                 },
                 {.timeout = 20s});
}

TEST(Groups, TheChannelOfAGroupIsRecordedUnderItsName) {
    threads::run(2,
                 [](World& world) {
                     auto me = world.join({{"dp", 1}, {"tp", 2}});
                     auto on = me.group({1, 0}, {.name = "turned"});
                     on.barrier();
                     const auto& state = detail::Access::state(on);
                     ASSERT_TRUE(state.ring);
                     EXPECT_EQ(state.channel->ring().get(), state.ring);
                 },
                 {.timeout = 20s});
}
