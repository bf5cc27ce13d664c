// SPDX-License-Identifier: Apache-2.0
// Worlds of some ranks, meshes of some ranks, the ranks of one host, and timeouts of their own.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"
#include "operations.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using operations::check_all;

namespace {

std::vector<int> first_ranks(int n) {
    auto ranks = std::vector<int>(static_cast<std::size_t>(n));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

/// The ranks of `outer` that are in `inner`, as its members report.
std::vector<int> members_of(World& inner, int outer_rank) {
    auto all = std::vector<int>(static_cast<std::size_t>(inner.size()));
    inner.join({{"all", rest}}).on("all").all_gather(outer_rank, all);
    return all;
}

}  // namespace

TEST(Conformance, EvenAndOddRanksMakeWorldsOfTheirOwnAtTheSameTime) {
    on_every_rank([](World& world) {
        auto mine = std::vector<int>{};
        for (int r = world.rank() % 2; r < world.size(); r += 2) mine.push_back(r);
        auto half = world.sub(mine);
        EXPECT_EQ(half.size(), static_cast<int>(mine.size()));
        EXPECT_EQ(half.rank(), world.rank() / 2);
        EXPECT_EQ(half.engine(), world.engine());
        EXPECT_EQ(half.host(), world.host());
        EXPECT_EQ(members_of(half, world.rank()), mine);
        // Both worlds have calls in flight at once, over meshes with the same names.
        auto outer = world.join({{"dp", rest}});
        auto inner = half.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto wide = outer.on("dp");
        auto narrow = inner.on("dp");
        auto total = 1;
        auto pending = wide.start().all_reduce(total);
        check_all<float>(narrow, half.rank(), 5);
        pending.wait();
        EXPECT_EQ(total, world.size());
        check_all<std::int32_t>(wide, world.rank(), 5);
        // Half of the half.
        if (half.size() > 1) {
            const auto upper = half.rank() >= half.size() / 2;
            auto quarter = std::vector<int>{};
            for (int r = 0; r < half.size(); ++r)
                if ((r >= half.size() / 2) == upper) quarter.push_back(r);
            auto part = half.sub(quarter);
            auto on = part.join({{"tp", rest}}).on("tp");
            check_all<float>(on, part.rank(), 3);
        }
        check_all<float>(narrow, half.rank(), 2);
    });
}

TEST(Conformance, AWorldOfSomeRanksNumbersThemInTheOrderThatIsAskedFor) {
    on_every_rank([](World& world) {
        auto reversed = first_ranks(world.size());
        std::ranges::reverse(reversed);
        // The same list twice makes two worlds.
        for (int turn = 0; turn < 2; ++turn) {
            auto other = world.sub(reversed);
            EXPECT_EQ(other.rank(), world.size() - 1 - world.rank());
            EXPECT_EQ(members_of(other, world.rank()), reversed);
        }
        auto alone = world.sub({world.rank()});
        EXPECT_EQ(alone.rank(), 0);
        EXPECT_EQ(alone.size(), 1);
        auto on = alone.join({{"dp", rest}}).on("dp");
        check_all<float>(on, 0, 3);
    });
}

TEST(Conformance, AWorldOfSomeRanksOutlivesTheOneItCameFrom) {
    on_every_rank([](World& world) {
        auto on = [&] {
            auto taken = world.sub(first_ranks(world.size()));
            auto half = taken.sub(first_ranks(taken.size()));
            return half.join({{"dp", rest}}).on("dp");
        }();
        check_all<float>(on, world.rank(), 3);
    });
}

TEST(Conformance, AWorldOfRanksThatCannotBeIsRefused) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        const auto r = world.rank();
        EXPECT_EQ(text_of<UsageError>([&] { world.sub({}); }),
                  "a world of no ranks was asked for; list at least this one");
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.sub({r, n});
                  }),
                  detail::cat("a world of the ranks {", r, ", ", n,
                              "} was asked for; the world has ranks 0..", n - 1));
        EXPECT_EQ(text_of<UsageError>([&] { world.sub({-1}); }),
                  detail::cat("a world of the ranks {-1} was asked for; the world has ranks 0..", n - 1));
        EXPECT_EQ(
            text_of<UsageError>([&] {
                world.sub({r, r});
            }),
            detail::cat("a world of the ranks {", r, ", ", r, "} was asked for, which lists ", r, " twice"));
        const auto other = (r + 1) % n;
        if (n > 1) {
            EXPECT_EQ(text_of<UsageError>([&] { world.sub({other}); }),
                      detail::cat("a world of the ranks {", other, "} was asked for by rank ", r,
                                  ", which is not one of them; only they call sub"));
        }
        world.sub(first_ranks(n)).join({{"dp", rest}}).on("dp").barrier();
    });
}

TEST(Conformance, TheSurvivorsOfAWholeWorldAreAllItsRanksOrItIsSaidWhatWorks) {
    on_every_rank([](World& all) {
        auto world = all.sub(first_ranks(all.size()));  // survivors ends it, and other tests go on with `all`
        all.join({{"dp", rest}}).on("dp").barrier();    // every rank has made it
        try {
            auto survivors = world.survivors(20s);
            EXPECT_EQ(survivors.engine(), world.engine());
            EXPECT_EQ(survivors.rank(), world.rank());
            EXPECT_EQ(survivors.local_size(), world.local_size());
            EXPECT_EQ(members_of(survivors, world.rank()), first_ranks(world.size()));
        } catch (const UsageError& error) {
            EXPECT_NE(std::string(error.what()).find("jobs go on without a rank on the engine 'gloo'"),
                      std::string::npos)
                << error.what();
        }
        EXPECT_EQ(text_of<UsageError>([&] { world.survivors(0s); }),
                  "survivors of a grace of 0 s were asked for; it must be positive");
    });
}

TEST(Conformance, AWorldThatNobodyWaitsToEnterIsAsItWasOrItIsSaidWhatGrows) {
    on_every_rank([](World& world) {
        try {
            world.grow(1, 500ms);  // in which all ranks arrive
            ADD_FAILURE() << "somebody has entered";
        } catch (const Timeout& error) {
            EXPECT_NE(std::string(error.what()).find("the world of "), std::string::npos) << error.what();
            EXPECT_EQ(error.arrived, first_ranks(world.size()));
            EXPECT_EQ(error.missing, std::vector<int>{});
        } catch (const UsageError& error) {
            EXPECT_NE(std::string(error.what()).find("worlds grow on the engine 'gloo'"), std::string::npos)
                << error.what();
        }
        EXPECT_EQ(members_of(world, world.rank()), first_ranks(world.size()));
    });
}

TEST(Conformance, TheRanksOfAHostAreFoundLikeThoseOfAnAxis) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        // All ranks of a test are on one host.
        ASSERT_EQ(world.local_size(), n);
        EXPECT_EQ(world.local_rank(), world.rank());
        for (const auto& mesh : meshes_of(n)) {
            auto me = world.join(mesh, {.local = "node"});
            auto node = me.on("node");
            EXPECT_EQ(node.world_ranks(), first_ranks(n));
            EXPECT_EQ(node.label(), detail::cat("'node' of mesh ", to_string(mesh)));
            EXPECT_EQ(me.at("node"), world.rank());
            EXPECT_EQ(me.is_first("node"), world.rank() == 0);
            EXPECT_EQ(me.is_last("node"), world.rank() == n - 1);
            EXPECT_EQ(me.neighbor("node", 1),
                      world.rank() == n - 1 ? std::nullopt : std::optional(world.rank() + 1));
            EXPECT_EQ(me.neighbor("node", -1, Edge::wrap), (world.rank() + n - 1) % n);
            EXPECT_TRUE(me.find("node"));
            check_all<float>(node, world.rank(), 3);
        }
    });
}

TEST(Conformance, TheRanksOfAHostShareTheChannelOfAnEqualAxis) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}, {"tp", 1}}, {.over = {{"dp", "tp"}}, .local = "node"});
        EXPECT_EQ(me.channel_count(), world.size() > 1 ? 1 : 0);
        // One channel: a send on one of them is received on the other.
        auto node = me.on("node");
        auto dp = me.on("dp");
        const auto next = (dp.rank() + 1) % dp.size();
        const auto before = (dp.rank() + dp.size() - 1) % dp.size();
        const auto own = world.rank();
        auto got = -1;
        if (dp.size() > 1) {
            auto sending = node.start().send(own, next);
            dp.recv(got, before);
            sending.wait();
            EXPECT_EQ(got, before);
        }
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"dp", rest}}, {.local = "dp"});
                  }),
                  detail::cat("the name 'dp' is an axis of mesh dp=", world.size(), "; choose another name"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"dp", rest}}, {.over = {Axes("dp").separate("x")}, .local = "x"});
                  }),
                  "the name 'x' is declared twice; choose another name");
    });
}

TEST(Conformance, TheRanksOfAHostStandInTheOrderOfTheirPositions) {
    on_every_rank([](World& world) {
        auto reversed = first_ranks(world.size());
        std::ranges::reverse(reversed);
        auto me = world.join({{"pp", rest}}, {.local = "node", .placed = reversed});
        auto node = me.on("node");
        EXPECT_EQ(node.world_ranks(), reversed);
        EXPECT_EQ(me.at("node"), world.size() - 1 - world.rank());
        EXPECT_EQ(me.neighbor("node", 1), world.rank() == 0 ? std::nullopt : std::optional(world.rank() - 1));
        EXPECT_EQ(me.channel_count(), world.size() > 1 ? 1 : 0);
        check_all<float>(node, world.rank(), 3);
    });
}

TEST(Conformance, TwoMeshesOfOneWorldSendToEachOtherByTheirCoordinates) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        if (n < 2) return;
        const auto trainers = n / 2;
        const auto players = n - trainers;
        for (auto backwards : {false, true}) {
            // Players are numbered from the last rank down, if the declaration places them so.
            auto placed = std::vector<int>{};
            for (int p = 0; p < players && backwards; ++p) placed.push_back(n - 1 - p);
            auto me = world.join(
                {{.name = "all"},
                 {.name = "trainer", .mesh = {{"dp", trainers}}, .partial = true},
                 {.name = "rollout",
                  .mesh = backwards ? MeshSpec{{"tp", players}} : MeshSpec{{"tp", rest}}.shifted(trainers),
                  .placed = placed,
                  .partial = true}});
            EXPECT_EQ(me.meshes(), (std::vector<std::string>{"all", "trainer", "rollout"}));
            const auto trains = world.rank() < trainers;
            EXPECT_EQ(me["trainer"].inside(), trains);
            EXPECT_EQ(me["rollout"].inside(), !trains);
            EXPECT_EQ(me["all"].prefix(), detail::cat("[world=", world.rank(), "]"));
            EXPECT_EQ(me["trainer"].prefix(), trains ? detail::cat("[dp=", world.rank(), "]")
                                                     : detail::cat("[rank ", world.rank(), "]"));
            EXPECT_EQ(me.prefix(), detail::cat("[world=", world.rank(), "]"));
            // Each works by itself meanwhile.
            auto own = trains ? me["trainer"].on("dp") : me["rollout"].on("tp");
            check_all<float>(own, world.rank(), 3);
            // Every player is told by one trainer, and answers.
            auto all = me["all"].on("world");
            const auto weights = [](int from, int to) { return std::vector<int>{from, to, 100 * from + to}; };
            if (trains) {
                for (int p = world.rank(); p < players; p += trainers) {
                    const auto to = me["rollout"].rank_at({{"tp", p}});
                    EXPECT_EQ(to, backwards ? n - 1 - p : trainers + p);
                    const auto sent = weights(world.rank(), to);
                    all.send(sent, *all.group_rank_of(to));
                    auto answer = std::vector<int>(3);
                    all.recv(answer, *all.group_rank_of(to));
                    EXPECT_EQ(answer, weights(to, world.rank()));
                }
            } else {
                const auto from = me["trainer"].rank_at({{"dp", me["rollout"].at("tp") % trainers}});
                auto got = std::vector<int>(3);
                all.recv(got, *all.group_rank_of(from));
                EXPECT_EQ(got, weights(from, world.rank()));
                const auto answer = weights(world.rank(), from);
                all.send(answer, *all.group_rank_of(from));
            }
            EXPECT_EQ(own.group_rank_of(trains ? n - 1 : 0), std::nullopt);
        }
    });
}

TEST(Conformance, TheRestFromAnOffsetOnIsWhatTheRanksBeforeItLeave) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        for (int offset = 0; offset < n; ++offset) {
            const auto left = n - offset;
            const auto tp = left % 2 == 0 ? 2 : 1;
            const auto spec = MeshSpec{{"dp", rest}, {"tp", tp}}.shifted(offset);
            auto me = world.join(spec, {.partial = true});
            EXPECT_EQ(me.mesh(), (Mesh{{"dp", left / tp}, {"tp", tp}}.shifted(offset)));
            EXPECT_EQ(me.inside(), world.rank() >= offset);
            if (me.inside()) {
                EXPECT_EQ(me.at("dp"), (world.rank() - offset) / tp);
                auto dp = me.on("dp");
                EXPECT_EQ(dp.world_ranks().back(), n - tp + me.at("tp"));
                check_all<float>(dp, world.rank(), 3);
            }
            if (offset > 0) {
                EXPECT_EQ(
                    text_of<UsageError>([&] { world.join(spec); }),
                    detail::cat("mesh ", to_string(spec.resolve(n)), " covers ", left, " of the world's ", n,
                                " ranks; set .partial = true to leave ranks out"));
            }
        }
        const auto beyond = MeshSpec{{"dp", rest}}.shifted(n);
        EXPECT_EQ(text_of<UsageError>([&] { world.join(beyond, {.partial = true}); }),
                  detail::cat("mesh dp=* @", n, " does not fit a world of ", n, ": no rank is left from ", n,
                              " on"));
    });
}

TEST(Conformance, ATimeoutCanBeSetForASetOfAxes) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        auto me = world.join({{"pp", rest}, {"dp", 1}},
                             {.over = {Axes("pp").within(3min), Axes("dp", "pp").within(2min),
                                       Axes("dp", "pp"), Axes("pp").separate("own")},
                              .timeout = 1min});
        for (const auto* name : {"pp", "own"}) {
            auto on = me.on(name);
            check_all<float>(on, world.rank(), 3);
        }
        auto both = me.on("dp", "pp");
        check_all<float>(both, world.rank(), 3);
        EXPECT_EQ(me.channel_count(), n > 1 ? 2 : 0) << "a timeout makes no channel";
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"pp", rest}}, {.over = {Axes("pp").within(1s), Axes("pp").within(2s)}});
                  }),
                  detail::cat("'pp' of mesh pp=", n, " was given two timeouts, 1 s and 2 s"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"pp", rest}}, {.over = {Axes("pp").within(-3ms)}});
                  }),
                  "a timeout of -3 ms; it must be positive");
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"pp", rest}}, {.over = {Axes("pp")}, .timeout = 0s});
                  }),
                  "a timeout of 0 s; it must be positive");
        world.join({{"pp", rest}}, {.over = {Axes("pp").within(1s), Axes("pp").within(1s)}});
    });
}

TEST(Conformance, ALineOfThisRanksLogBeginsWithWhereItStands) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        auto me = world.join({{"pp", 1}, {"dp", rest}});
        EXPECT_EQ(me.prefix(), detail::cat("[pp=0 dp=", world.rank(), "]"));
        EXPECT_EQ(me.host(), world.host());
        EXPECT_EQ(me.local_rank(), world.local_rank());
        EXPECT_EQ(me.size(), world.size());
        EXPECT_EQ(me.local_size(), world.local_size());
        if (n == 1) return;
        auto some = world.join({{"dp", n - 1}}, {.partial = true});
        EXPECT_EQ(some.prefix(), world.rank() == n - 1 ? detail::cat("[rank ", n - 1, "]")
                                                       : detail::cat("[dp=", world.rank(), "]"));
    });
}
