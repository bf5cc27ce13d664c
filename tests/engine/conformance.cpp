// SPDX-License-Identifier: Apache-2.0
// What every engine must do, linked once per engine.
#include "conformance.hpp"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <set>
#include <span>

#include <rankmesh/core/text.hpp>

#include "operations.hpp"

using namespace rankmesh;

TEST(Conformance, EveryOperationGivesWhatTheMeshSaysOnEveryAxisAndPairOfAxes) {
    on_every_rank([](World& world) {
        auto seen = std::set<std::vector<int>>{};
        for (const auto& mesh : meshes_of(world.size())) {
            auto options = Declaration{};
            for (int a = 0; a < mesh.axis_count(); ++a)
                for (int b = 0; b < a; ++b)
                    options.over.push_back(Axes(mesh.name(AxisId{a}), mesh.name(AxisId{b})));
            auto me = world.join(mesh, options);
            EXPECT_EQ(me.coord(), mesh.coord(world.rank()));
            for (int a = 0; a < mesh.axis_count(); ++a)
                for (int b = 0; b <= a; ++b) {
                    auto on = me.on(AxisId{a}, AxisId{b});
                    const auto group = mesh.group(world.rank(), AxisId{a}, AxisId{b});
                    ASSERT_EQ(on.world_ranks(), std::vector<int>(group.begin(), group.end()));
                    operations::check_all<float>(on, world.rank(), 13);
                    if (!seen.insert(on.world_ranks()).second) continue;
                    operations::check_all<std::int32_t>(on, world.rank(), 0);
                    operations::check_all<std::int32_t>(on, world.rank(), 1);
                    // More than MPI sends without asking the receiver.
                    if (on.size() == world.size()) operations::check_all<float>(on, world.rank(), 1500);
                }
        }
    });
}

TEST(Conformance, ScalarsArraysAndSpansAreBuffers) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        auto scalar = 1.0f;
        on.all_reduce(scalar);
        EXPECT_EQ(scalar, static_cast<float>(world.size()));
        auto array = std::array<int, 3>{1, 2, 3};
        on.all_reduce(array, rankmesh::max);
        on.all_reduce(std::span(array).subspan(1), rankmesh::sum);
        EXPECT_EQ(array, (std::array<int, 3>{1, 2 * world.size(), 3 * world.size()}));
        const auto rank = static_cast<std::int64_t>(world.rank());
        auto all = std::vector<std::int64_t>(static_cast<std::size_t>(world.size()));
        on.all_gather(rank, all);
        for (int r = 0; r < world.size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], r);
    });
}

TEST(Conformance, AWrongLengthIsRefusedBeforeAnythingIsSent) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        const auto n = world.size();
        auto three = std::vector<float>(3);
        auto many = std::vector<float>(static_cast<std::size_t>(3 * n + 1));
        const auto where = detail::cat("'dp' of mesh dp=", n, " (", n, " ranks)");
        EXPECT_EQ(text_of<UsageError>([&] { on.all_gather(three, many); }),
                  detail::cat("all_gather on ", where, " was given 3 elements in and ", 3 * n + 1,
                              " out; out must hold ", 3 * n));
        EXPECT_EQ(text_of<UsageError>([&] { on.reduce_scatter(many, three); }),
                  detail::cat("reduce_scatter on ", where, " was given ", 3 * n + 1,
                              " elements in and 3 out; in must hold ", 3 * n));
        EXPECT_EQ(text_of<UsageError>([&] { on.shift(three, many); }),
                  detail::cat("shift on ", where, " was given 3 elements in and ", 3 * n + 1,
                              " out; both must be equal"));
        if (n > 1) {
            // Bytes and numbers could be divided by the ranks, structs and complex numbers not.
            auto tokens = std::vector<operations::Token>(static_cast<std::size_t>(n + 1));
            auto phases = std::vector<std::complex<double>>(static_cast<std::size_t>(2 * n - 1));
            EXPECT_EQ(text_of<UsageError>([&] { on.all_to_all(tokens); }),
                      detail::cat("all_to_all on ", where, " was given ", n + 1, " elements in and ", n + 1,
                                  " out; both must be equal, and a multiple of ", n));
            EXPECT_EQ(text_of<UsageError>([&] { on.all_gather(tokens); }),
                      detail::cat("all_gather on 'dp' of mesh dp=", n, " in place was given ", n + 1,
                                  " elements; it takes a multiple of ", n));
            EXPECT_EQ(text_of<UsageError>([&] { on.reduce_scatter(phases); }),
                      detail::cat("reduce_scatter on 'dp' of mesh dp=", n, " in place was given ", 2 * n - 1,
                                  " elements; it takes a multiple of ", n));
        }
        EXPECT_EQ(text_of<UsageError>([&] { on.broadcast(three, n); }),
                  detail::cat("broadcast on 'dp' of mesh dp=", n, " from group rank ", n,
                              "; group ranks are 0..", n - 1));
        EXPECT_EQ(text_of<UsageError>(
                      [&] { on.all_reduce(std::span(many).first(2), std::span(many).subspan(1, 2)); }),
                  detail::cat("all_reduce on 'dp' of mesh dp=", n,
                              " was given buffers that overlap; use two, or one in place"));
        operations::check_all<float>(on, world.rank(), 3);  // and all is well afterwards
    });
}

TEST(Conformance, AMovedFromCommunicatorSaysSo) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        auto first = me.on("dp");
        auto second = std::move(first);
        EXPECT_EQ(text_of<UsageError>([&] { first.barrier(); }),
                  "this communicator was moved from; ask the member for another with on(...)");
        second.barrier();
    });
}

TEST(Conformance, AnInvalidPlanIsAUsageErrorOnEveryRankAndTheWorldGoesOn) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"dp", n + 1}});
                  }),
                  detail::cat("mesh dp=", n + 1, " needs ", n + 1, " ranks; the world has ", n));
        if (n > 1) {
            EXPECT_EQ(text_of<UsageError>([&] {
                          world.join({{"dp", n - 1}});
                      }),
                      detail::cat("mesh dp=", n - 1, " covers ", n - 1, " of the world's ", n,
                                  " ranks; make a size rankmesh::rest (in text '*'), or set .partial = true "
                                  "to leave ranks out"));
        }
        EXPECT_EQ(text_of<UsageError>([&] { world.join(Plan{}); }),
                  "a plan without meshes; declare at least one");
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"dp", rest}}, {.picks = {{.of = "dp", .at = {n}, .as = "last"}}});
                  }),
                  detail::cat("pick 'last' asks for index ", n, " of axis 'dp'; it has ", -n, "..", n - 1));
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join({{"dp", rest}}, {.over = {{"dpp"}}});
                  }),
                  detail::cat("mesh dp=", n, " has no axis 'dpp'; did you mean 'dp'?"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      world.join(Mesh{{"dp", n}}.shifted(1));
                  }),
                  detail::cat("mesh dp=", n, " @1 reaches rank ", n, "; the world has ranks 0..", n - 1));
        world.join({{"dp", rest}}).on("dp").barrier();
    });
}

TEST(Conformance, RanksThatJoinDifferentPlansAllHearWhoDiffersAndInWhat) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        if (n == 1) return;
        const auto odd = world.rank() == n - 1;
        const auto rests = detail::cat("{0..", n - 2, "}");
        const auto mode = is_checked() ? ", in checked mode" : "";
        const auto most = n == 2 ? "rank 0" : n == 3 ? "ranks {0, 1}" : "ranks " + rests;
        try {
            world.join(MeshSpec{{odd ? "tp" : "dp", rest}});
            ADD_FAILURE() << "different plans were joined";
        } catch (const Disagreement& error) {
            EXPECT_EQ(error.what(),
                      detail::cat("the ranks join different plans; every rank must declare the same:\n  ",
                                  most, ": dp=", n, ", over dp", mode, "\n  rank ", n - 1, ": tp=", n,
                                  ", over tp", mode));
            EXPECT_EQ(error.ranks, std::vector<int>{n - 1});
        }
        world.join({{"dp", rest}}).on("dp").barrier();
    });
}

TEST(Conformance, ManyDifferentPlansAreAllReportedInBoundedText) {
    on_every_rank([](World& world) {
        if (world.size() == 1) return;
        try {
            const auto name = detail::cat("axis", world.rank());
            world.join(MeshSpec{{name, rest}});
            ADD_FAILURE() << "different plans were joined";
        } catch (const Disagreement& error) {
            for (int r = 0; r < world.size(); ++r)
                EXPECT_NE(std::string(error.what()).find(detail::cat("axis", r, "=")), std::string::npos)
                    << error.what();
            EXPECT_EQ(error.ranks.size(), static_cast<std::size_t>(world.size() - 1));
        }
    });
}

TEST(Conformance, TheOrderOfDeclarationsAndOfNamesDoesNotMatter) {
    on_every_rank([](World& world) {
        auto plan = Plan{{.name = "a", .mesh = {{"x", rest}, {"y", 1}}, .over = {{"x", "y"}}},
                         {.name = "b", .mesh = {{"z", rest}}}};
        if (world.rank() % 2 == 1) {
            std::swap(plan[0], plan[1]);
            plan[1].over = {{"y", "x"}, {"x"}, {"y", "x"}};
        }
        auto me = world.join(plan);
        for (auto* names : {"x", "y"}) EXPECT_TRUE(me["a"].find(names));
        auto both = me["a"].on("y", "x");
        operations::check_all<float>(both, world.rank(), 4);
        auto z = me["b"].on("z");
        operations::check_all<float>(z, world.rank(), 4);
    });
}

TEST(Conformance, EqualGroupsShareOneChannelAndSeparateOnesDoNot) {
    on_every_rank([](World& world) {
        auto me = world.join({{.name = "a",
                               .mesh = {{"x", rest}, {"y", 1}},
                               .over = {{"x", "y"}, Axes("x").separate("gather")},
                               .picks = {{.of = "x", .at = {0, -1}, .as = "ends"}}},
                              {.name = "b", .mesh = {{"z", rest}}}});
        const auto n = world.size();
        const auto at_an_end = world.rank() == 0 || world.rank() == n - 1;
        // x, (x,y) and z are one channel, gather its own; the ends are another unless they are all.
        EXPECT_EQ(me.channel_count(), n == 1 ? 0 : 2 + (at_an_end && n > 2 ? 1 : 0));
        auto gather = me["a"].on("gather");
        operations::check_all<float>(gather, world.rank(), 4);
        EXPECT_EQ(me["a"].find("ends").has_value(), at_an_end);
        if (auto ends = me["a"].find("ends")) operations::check_all<float>(*ends, world.rank(), 4);
        if (!at_an_end) {
            EXPECT_EQ(text_of<UsageError>([&] { me["a"].on("ends"); }),
                      detail::cat("rank ", world.rank(), " is not in pick 'ends', which is {0, ", n - 1,
                                  "} here; use find(\"ends\")"));
        }
    });
}

TEST(Conformance, RanksOutsideAMeshJoinAndAreNotInside) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        if (n < 2) return;
        auto me = world.join({{.name = "most", .mesh = {{"dp", n - 1}}, .partial = true},
                              {.name = "last", .mesh = Mesh{{"tp", 1}}.shifted(n - 1), .partial = true}});
        const auto last = world.rank() == n - 1;
        EXPECT_EQ(me["most"].inside(), !last);
        EXPECT_EQ(me["last"].inside(), last);
        if (last) {
            EXPECT_FALSE(me["most"].find("dp"));
            EXPECT_EQ(text_of<UsageError>([&] { me["most"].on("dp"); }),
                      detail::cat("rank ", n - 1, " is outside mesh dp=", n - 1, "; ask inside() first"));
            return;
        }
        auto on = me["most"].on("dp");
        operations::check_all<double>(on, world.rank(), 4);
    });
}

TEST(Conformance, APlacementDecidesWhoStandsWhere) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        auto reversed = std::vector<int>{};
        for (int r = n - 1; r >= 0; --r) reversed.push_back(r);
        auto me = world.join({{"pp", rest}}, {.placed = reversed});
        EXPECT_EQ(me.at("pp"), n - 1 - world.rank());
        EXPECT_EQ(me.is_first("pp"), world.rank() == n - 1);
        EXPECT_EQ(me.neighbor("pp", 1), world.rank() == 0 ? std::nullopt : std::optional(world.rank() - 1));
        auto on = me.on("pp");
        EXPECT_EQ(on.world_ranks(), reversed);
        operations::check_all<float>(on, world.rank(), 4);
        EXPECT_EQ(
            text_of<UsageError>([&] {
                world.join({{"pp", rest}}, {.placed = std::vector<int>(static_cast<std::size_t>(n), n)});
            }).substr(0, 18),
            n == 1 ? "the placement of m" : "a placement lists ");
    });
}

TEST(Conformance, ALazyMeshConnectsAtPrepareAndSaysSoBefore) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}}, {.lazy = true});
        EXPECT_EQ(me.channel_count(), 0);
        if (world.size() > 1) {
            EXPECT_EQ(text_of<UsageError>([&] { me.on("dp"); }),
                      detail::cat(
                          "'dp' of mesh dp=", world.size(),
                          " is lazy and not connected; every rank of the mesh calls prepare(\"dp\") first"));
        }
        me.prepare("dp");
        me.prepare("dp");
        EXPECT_EQ(me.channel_count(), world.size() > 1 ? 1 : 0);
        auto on = me.on("dp");
        operations::check_all<float>(on, world.rank(), 4);
    });
}

TEST(Conformance, WhatWasNotDeclaredIsAnErrorThatNamesTheDeclaration) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}, {"tp", 1}}, {.axes = std::vector<std::string>{"dp"}});
        const auto mesh = detail::cat("mesh dp=", world.size(), " tp=1");
        EXPECT_EQ(text_of<UsageError>([&] { me.on("tp", "dp"); }),
                  detail::cat("'tp,dp' of ", mesh,
                              R"( was not declared; add .over = {{"tp", "dp"}} to the declaration)"));
        EXPECT_EQ(
            text_of<UsageError>([&] { me.on("tp"); }),
            detail::cat("axis 'tp' of ", mesh, " was left out of .axes; add it there, or leave .axes away"));
        EXPECT_FALSE(me.find("tp", "dp"));
        EXPECT_EQ(text_of<UsageError>([&] { me.on("ttp"); }),
                  detail::cat(mesh,
                              " has no axis, pick, separate communicator or set of local ranks named 'ttp'; "
                              "did you mean 'tp'?"));
        for (const auto call : {0, 1})
            EXPECT_EQ(
                text_of<UsageError>(
                    [&] { call == 0 ? static_cast<void>(me.on("")) : static_cast<void>(me.find("")); }),
                detail::cat(mesh,
                            " has no axis, pick, separate communicator or set of local ranks named ''; it "
                            "has dp, tp"));
        EXPECT_EQ(text_of<UsageError>([&] { me["moe"]; }),
                  "the plan has no mesh 'moe'; its one mesh has no name");
    });
}

TEST(Conformance, WhatAnotherMeshOfThePlanHasIsAnErrorThatNamesThatMesh) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        auto me = world.join({{.name = "dense",
                               .mesh = {{"dp", rest}},
                               .picks = {{.of = "dp", .at = {0}, .as = "first"}},
                               .local = "node"},
                              {.name = "expert", .mesh = {{"edp", 1}, {"ep", rest}}}});
        const auto dense = me["dense"];
        const auto expert = me["expert"];
        const auto refused = [&](std::string_view name, std::string_view call) {
            return detail::cat("mesh 'dense' (dp=", n, ") has no axis '", name, "'; mesh 'expert' has it",
                               call.empty() ? "" : detail::cat(": member[\"expert\"].", call));
        };
        EXPECT_EQ(text_of<UsageError>([&] { dense.on("ep"); }), refused("ep", R"(on("ep"))"));
        EXPECT_EQ(text_of<UsageError>([&] { dense.on("ep", "edp"); }), refused("ep", R"(on("ep", "edp"))"));
        EXPECT_EQ(text_of<UsageError>([&] { dense.on("dp", "ep"); }), refused("ep", ""));
        EXPECT_EQ(text_of<UsageError>([&] { dense.find("ep"); }), refused("ep", R"(find("ep"))"));
        EXPECT_EQ(text_of<UsageError>([&] { dense.prepare("ep"); }), refused("ep", R"(prepare("ep"))"));
        EXPECT_EQ(text_of<UsageError>([&] { dense.at("ep"); }), refused("ep", R"(at("ep"))"));
        EXPECT_EQ(text_of<UsageError>([&] { dense.is_last("ep"); }), refused("ep", R"(is_last("ep"))"));
        EXPECT_EQ(text_of<UsageError>([&] { dense.neighbor("ep", 1); }),
                  refused("ep", R"(neighbor("ep", ...))"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      dense.rank_at({{"edp", 0}, {"ep", 0}});
                  }),
                  refused("edp", "rank_at(...)"));
        const auto elsewhere =
            detail::cat("mesh 'expert' (edp=1 ep=", n,
                        ") has no pick, separate communicator or set of local ranks named '");
        EXPECT_EQ(text_of<UsageError>([&] { expert.on("first"); }),
                  detail::cat(elsewhere, R"(first'; mesh 'dense' has it: member["dense"].on("first"))"));
        EXPECT_EQ(text_of<UsageError>([&] { expert.at("node"); }),
                  detail::cat(elsewhere, R"(node'; mesh 'dense' has it: member["dense"].at("node"))"));
        // What no mesh has is the mesh's own to say, and a plan is asked which of its meshes is meant.
        EXPECT_EQ(text_of<UsageError>([&] { dense.at("eep"); }),
                  detail::cat("mesh dp=", n, " has no axis 'eep'"));
        EXPECT_EQ(
            text_of<UsageError>([&] { dense.on("eep"); }),
            detail::cat("mesh dp=", n,
                        " has no axis, pick, separate communicator or set of local ranks named 'eep'; it "
                        "has dp, first, node"));
        const auto which = std::string("the plan has 2 meshes ('dense', 'expert'); say which, as in member[");
        EXPECT_EQ(text_of<UsageError>([&] { me.on("ep"); }), which + R"("expert"].on("ep"))");
        EXPECT_EQ(text_of<UsageError>([&] { me.at("eep"); }), which + R"("dense"])");
        EXPECT_EQ(text_of<UsageError>([&] { me.coord(); }), which + R"("dense"])");
    });
}

TEST(Conformance, CommunicatorsOutliveTheirMemberAndTheirWorldHandle) {
    on_every_rank([](World& world) {
        auto kept = [&] { return world.join({{"dp", rest}}).on("dp"); }();
        operations::check_all<float>(kept, world.rank(), 4);
    });
}

TEST(Conformance, APendingThatIsDroppedIsWaitedFor) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<float>(100, 1.0f);
        { const auto dropped = on.start().all_reduce(x); }
        EXPECT_EQ(x, std::vector<float>(100, static_cast<float>(world.size())));
        auto first = on.start().all_reduce(x);
        auto moved = std::move(first);
        first.wait();  // nothing is pending there any more
        while (!moved.done()) on.size();
        moved.wait();
        moved.wait();
        EXPECT_TRUE(moved.done());
    });
}
