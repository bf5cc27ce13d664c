// SPDX-License-Identifier: Apache-2.0
// An error in C is that of C++: its kind as a number, its text, its ranks; and a NULL is one in words.
#include <rankmesh/rankmesh.h>

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

#include <rankmesh/engine/threads.hpp>

using namespace rankmesh;

namespace {

using Ranks = std::vector<int>;

Ranks named(rankmesh_error_list which) {
    auto count = std::size_t{7};
    const auto* ranks = rankmesh_error_ranks(which, &count);
    return {ranks, ranks + count};
}

template <class Call>
std::string text_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

/// A program of each rank that needs nothing of its surroundings but the world and a place for what it finds.
using Program = int (*)(rankmesh_world*, void*);

rankmesh_communicator* joined(rankmesh_world* world, const char* mesh, double timeout_seconds) {
    const auto plan = rankmesh_declaration{.mesh = mesh, .timeout_seconds = timeout_seconds};
    rankmesh_member* me = nullptr;
    rankmesh_communicator* dp = nullptr;
    EXPECT_EQ(rankmesh_world_join(world, &plan, 1, &me), RANKMESH_OK) << rankmesh_error_text();
    EXPECT_EQ(rankmesh_member_on(me, "dp", &dp), RANKMESH_OK) << rankmesh_error_text();
    rankmesh_member_free(me);
    return dp;
}

TEST(ErrorsInC, HaveTheTextOfCpp) {
    rankmesh_mesh* mesh = nullptr;
    const auto parse = [&](const char* text, int world) {
        EXPECT_EQ(rankmesh_mesh_parse(text, world, &mesh), RANKMESH_USAGE_ERROR);
        EXPECT_EQ(mesh, nullptr);
        return std::string(rankmesh_error_text());
    };
    for (const auto* text : {"", "dp", "dp=0", "dp=2 dp=3", "dp=*", "dp=2 =3", "a=70000 b=70000"})
        EXPECT_EQ(parse(text, 0), text_of([&] { (void)Mesh::parse(text); }));
    EXPECT_EQ(parse("dp=* tp=2", 7), text_of([&] { (void)Mesh::parse("dp=* tp=2", 7); }));
    EXPECT_EQ(parse("dp=* tp=2", -4), text_of([&] { (void)Mesh::parse("dp=* tp=2", -4); }));

    const auto cpp = Mesh::parse("pp=4 dp=8 tp=8");
    ASSERT_EQ(rankmesh_mesh_parse("pp=4 dp=8 tp=8", 0, &mesh), RANKMESH_OK);
    auto out = 0;
    auto needed = std::size_t{};
    const auto says = [](rankmesh_error code, const std::string& text) {
        EXPECT_EQ(code, RANKMESH_USAGE_ERROR);
        EXPECT_EQ(rankmesh_error_text(), text);
    };
    says(rankmesh_mesh_index(mesh, 256, "dp", &out), text_of([&] { (void)cpp.index(256, "dp"); }));
    says(rankmesh_mesh_axis_size(mesh, "dpp", &out), text_of([&] { (void)cpp.size("dpp"); }));
    says(rankmesh_mesh_group(mesh, 0, "dp,cp", nullptr, 0, &needed), text_of([&] { (void)cpp.axis("cp"); }));
    says(rankmesh_mesh_group(mesh, 0, "dp,", nullptr, 0, &needed), text_of([&] { (void)cpp.axis(""); }));
    says(rankmesh_mesh_axis_name(mesh, 3, nullptr, 0, &needed), text_of([&] { (void)cpp.name(AxisId{3}); }));
    const int indices[] = {1, 2};
    says(rankmesh_mesh_rank(mesh, indices, 2, &out), text_of([&] { (void)cpp.rank_at(indices); }));
    says(rankmesh_mesh_group_member(mesh, 0, "tp", 8, &out),
         "group rank 8 of {0..7} was asked for; there are 0..7");
    says(rankmesh_mesh_partition_first(mesh, "tp", -1, &out),
         "group -1 of 'tp' of mesh pp=4 dp=8 tp=8 was asked for; there are 0..31");
    rankmesh_mesh_free(mesh);
}

TEST(ErrorsInC, AnAnswerIsNeverCutShort) {
    rankmesh_mesh* mesh = nullptr;
    ASSERT_EQ(rankmesh_mesh_parse("pp=4 dp=8", 0, &mesh), RANKMESH_OK);
    char text[] = "untouched";
    auto needed = std::size_t{};
    EXPECT_EQ(rankmesh_mesh_text(mesh, text, 9, &needed), RANKMESH_USAGE_ERROR);
    EXPECT_STREQ(
        rankmesh_error_text(),
        "rankmesh_mesh_text has an answer of 10 bytes, and was given room for 9; with NULL and a size of "
        "0 it says how many there are");
    EXPECT_EQ(needed, 10U);
    EXPECT_STREQ(text, "untouched");
    EXPECT_EQ(rankmesh_mesh_text(mesh, text, 10, nullptr), RANKMESH_OK);
    EXPECT_STREQ(text, "pp=4 dp=8");
    EXPECT_EQ(rankmesh_mesh_group(mesh, 0, "dp", nullptr, 8, &needed), RANKMESH_USAGE_ERROR);
    EXPECT_STREQ(
        rankmesh_error_text(),
        "rankmesh_mesh_group was given NULL for an answer of up to 8 numbers; with a size of 0 it says "
        "how many there are");
    EXPECT_EQ(rankmesh_mesh_group(mesh, 0, "dp", nullptr, 0, nullptr), RANKMESH_USAGE_ERROR);
    EXPECT_STREQ(rankmesh_error_text(),
                 "rankmesh_mesh_group was given NULL both for the answer and for 'needed'; it needs one");
    rankmesh_mesh_free(mesh);
}

TEST(ErrorsInC, StayUntilTheNextOfTheirThread) {
    EXPECT_EQ(rankmesh_mesh_parse("dp=0", 0, nullptr), RANKMESH_USAGE_ERROR);
    const auto text = std::string(rankmesh_error_text());
    EXPECT_EQ(text, "rankmesh_mesh_parse was given NULL as 'mesh', which it needs");
    rankmesh_mesh* mesh = nullptr;
    EXPECT_EQ(rankmesh_mesh_parse("dp=2", 0, &mesh), RANKMESH_OK);
    std::thread([] {
        EXPECT_STREQ(rankmesh_error_text(), "");
        EXPECT_EQ(rankmesh_mesh_parse("dp=0", 0, nullptr), RANKMESH_USAGE_ERROR);
    }).join();
    rankmesh_mesh_free(mesh);
    EXPECT_EQ(rankmesh_error_text(), text);
    EXPECT_EQ(rankmesh_error_ranks(RANKMESH_RANKS_LOST, nullptr), nullptr);
    EXPECT_EQ(named(-1), Ranks{});
    EXPECT_EQ(named(4), Ranks{});
}

/// Calls a function with NULL for everything that is a pointer, and 0 and 1 for the rest.
template <class... Arguments>
rankmesh_error with_nulls(rankmesh_error (*function)(Arguments...)) {
    const auto nothing = []<class T>(T*) {
        if constexpr (std::is_pointer_v<T>)
            return T{nullptr};
        else
            return T{1};
    };
    return function(nothing(static_cast<Arguments*>(nullptr))...);
}

#define EXPECT_REFUSES_NULL(function)                                                             \
    EXPECT_EQ(with_nulls(function), RANKMESH_USAGE_ERROR);                                        \
    EXPECT_TRUE(std::string(rankmesh_error_text()).starts_with(#function " was given NULL as '")) \
        << rankmesh_error_text()

TEST(ErrorsInC, ANullIsAnErrorInWords) {
    EXPECT_REFUSES_NULL(rankmesh_mesh_parse);
    EXPECT_REFUSES_NULL(rankmesh_mesh_text);
    EXPECT_REFUSES_NULL(rankmesh_mesh_size);
    EXPECT_REFUSES_NULL(rankmesh_mesh_offset);
    EXPECT_REFUSES_NULL(rankmesh_mesh_extent);
    EXPECT_REFUSES_NULL(rankmesh_mesh_axis_count);
    EXPECT_REFUSES_NULL(rankmesh_mesh_axis_name);
    EXPECT_REFUSES_NULL(rankmesh_mesh_axis_number);
    EXPECT_REFUSES_NULL(rankmesh_mesh_axis_size);
    EXPECT_REFUSES_NULL(rankmesh_mesh_contains);
    EXPECT_REFUSES_NULL(rankmesh_mesh_coord);
    EXPECT_REFUSES_NULL(rankmesh_mesh_rank);
    EXPECT_REFUSES_NULL(rankmesh_mesh_index);
    EXPECT_REFUSES_NULL(rankmesh_mesh_neighbor);
    EXPECT_REFUSES_NULL(rankmesh_mesh_group);
    EXPECT_REFUSES_NULL(rankmesh_mesh_group_size);
    EXPECT_REFUSES_NULL(rankmesh_mesh_group_member);
    EXPECT_REFUSES_NULL(rankmesh_mesh_group_rank);
    EXPECT_REFUSES_NULL(rankmesh_mesh_partition);
    EXPECT_REFUSES_NULL(rankmesh_mesh_partition_size);
    EXPECT_REFUSES_NULL(rankmesh_mesh_partition_first);
    EXPECT_REFUSES_NULL(rankmesh_world_from_environment);
    EXPECT_REFUSES_NULL(rankmesh_threads_run);
    EXPECT_REFUSES_NULL(rankmesh_world_nccl);
    EXPECT_REFUSES_NULL(rankmesh_world_sub);
    EXPECT_REFUSES_NULL(rankmesh_world_survivors);
    EXPECT_REFUSES_NULL(rankmesh_world_grow);
    EXPECT_REFUSES_NULL(rankmesh_world_rejoin);
    EXPECT_REFUSES_NULL(rankmesh_world_rank);
    EXPECT_REFUSES_NULL(rankmesh_world_size);
    EXPECT_REFUSES_NULL(rankmesh_world_engine);
    EXPECT_REFUSES_NULL(rankmesh_world_host);
    EXPECT_REFUSES_NULL(rankmesh_world_local_rank);
    EXPECT_REFUSES_NULL(rankmesh_world_local_size);
    EXPECT_REFUSES_NULL(rankmesh_world_join);
    EXPECT_REFUSES_NULL(rankmesh_member_in);
    EXPECT_REFUSES_NULL(rankmesh_member_mesh);
    EXPECT_REFUSES_NULL(rankmesh_member_inside);
    EXPECT_REFUSES_NULL(rankmesh_member_coord);
    EXPECT_REFUSES_NULL(rankmesh_member_at);
    EXPECT_REFUSES_NULL(rankmesh_member_neighbor);
    EXPECT_REFUSES_NULL(rankmesh_member_rank_at);
    EXPECT_REFUSES_NULL(rankmesh_member_prefix);
    EXPECT_REFUSES_NULL(rankmesh_member_on);
    EXPECT_REFUSES_NULL(rankmesh_member_find);
    EXPECT_REFUSES_NULL(rankmesh_member_prepare);
    EXPECT_REFUSES_NULL(rankmesh_member_group);
    EXPECT_REFUSES_NULL(rankmesh_member_split);
    EXPECT_REFUSES_NULL(rankmesh_member_suspend);
    EXPECT_REFUSES_NULL(rankmesh_member_resume);
    EXPECT_REFUSES_NULL(rankmesh_member_usage);
    EXPECT_REFUSES_NULL(rankmesh_member_usage_of);
    EXPECT_REFUSES_NULL(rankmesh_communicator_rank);
    EXPECT_REFUSES_NULL(rankmesh_communicator_size);
    EXPECT_REFUSES_NULL(rankmesh_communicator_world_rank);
    EXPECT_REFUSES_NULL(rankmesh_communicator_world_ranks);
    EXPECT_REFUSES_NULL(rankmesh_communicator_group_rank);
    EXPECT_REFUSES_NULL(rankmesh_communicator_label);
    EXPECT_REFUSES_NULL(rankmesh_communicator_within);
    EXPECT_REFUSES_NULL(rankmesh_communicator_is_on_device);
    EXPECT_REFUSES_NULL(rankmesh_communicator_host);
    EXPECT_REFUSES_NULL(rankmesh_communicator_on_stream);
    EXPECT_REFUSES_NULL(rankmesh_communicator_strided);
    EXPECT_REFUSES_NULL(rankmesh_pending_wait);
    EXPECT_REFUSES_NULL(rankmesh_pending_synchronize);
    EXPECT_REFUSES_NULL(rankmesh_pending_sender);
    EXPECT_REFUSES_NULL(rankmesh_pending_done);
    EXPECT_REFUSES_NULL(rankmesh_pending_wait_any);
    EXPECT_REFUSES_NULL(rankmesh_all_reduce);
    EXPECT_REFUSES_NULL(rankmesh_reduce);
    EXPECT_REFUSES_NULL(rankmesh_scan);
    EXPECT_REFUSES_NULL(rankmesh_exclusive_scan);
    EXPECT_REFUSES_NULL(rankmesh_reproducible_sum);
    EXPECT_REFUSES_NULL(rankmesh_reproducible_dot);
    EXPECT_REFUSES_NULL(rankmesh_reduce_scatter);
    EXPECT_REFUSES_NULL(rankmesh_broadcast);
    EXPECT_REFUSES_NULL(rankmesh_all_gather);
    EXPECT_REFUSES_NULL(rankmesh_all_gather_v);
    EXPECT_REFUSES_NULL(rankmesh_gather);
    EXPECT_REFUSES_NULL(rankmesh_scatter);
    EXPECT_REFUSES_NULL(rankmesh_gather_v);
    EXPECT_REFUSES_NULL(rankmesh_scatter_v);
    EXPECT_REFUSES_NULL(rankmesh_all_to_all);
    EXPECT_REFUSES_NULL(rankmesh_all_to_all_v);
    EXPECT_REFUSES_NULL(rankmesh_shift);
    EXPECT_REFUSES_NULL(rankmesh_barrier);
    EXPECT_REFUSES_NULL(rankmesh_monitored_barrier);
    EXPECT_REFUSES_NULL(rankmesh_send);
    EXPECT_REFUSES_NULL(rankmesh_recv);
    EXPECT_REFUSES_NULL(rankmesh_probe);
    EXPECT_REFUSES_NULL(rankmesh_try_probe);
    EXPECT_REFUSES_NULL(rankmesh_send_recv);
    EXPECT_REFUSES_NULL(rankmesh_batch);
    EXPECT_REFUSES_NULL(rankmesh_sparse_all_to_all);
    EXPECT_REFUSES_NULL(rankmesh_received_count);
    EXPECT_REFUSES_NULL(rankmesh_received_message);
    rankmesh_mesh_free(nullptr);
    rankmesh_world_free(nullptr);
    rankmesh_world_abandon(nullptr);
    rankmesh_member_free(nullptr);
    rankmesh_communicator_free(nullptr);
    rankmesh_pending_free(nullptr);
    rankmesh_received_free(nullptr);
    rankmesh_pending_abandon(nullptr);
}

TEST(ErrorsInC, TheAnswerMayNotBeNullEither) {
    rankmesh_mesh* mesh = nullptr;
    ASSERT_EQ(rankmesh_mesh_parse("dp=2", 0, &mesh), RANKMESH_OK);
    EXPECT_EQ(rankmesh_mesh_size(mesh, nullptr), RANKMESH_USAGE_ERROR);
    EXPECT_STREQ(rankmesh_error_text(), "rankmesh_mesh_size was given NULL as 'size', which it needs");
    EXPECT_EQ(rankmesh_mesh_neighbor(mesh, 0, "dp", 1, RANKMESH_OPEN, nullptr), RANKMESH_USAGE_ERROR);
    EXPECT_STREQ(rankmesh_error_text(),
                 "rankmesh_mesh_neighbor was given NULL as 'neighbor', which it needs");
    rankmesh_mesh_free(mesh);
}

TEST(ErrorsInC, APlanSaysWhatItLacks) {
    const Program program = [](rankmesh_world* world, void*) {
        rankmesh_member* me = nullptr;
        const auto says = [&](const rankmesh_declaration& plan, const std::string& text) {
            EXPECT_EQ(rankmesh_world_join(world, &plan, 1, &me), RANKMESH_USAGE_ERROR);
            EXPECT_EQ(rankmesh_error_text(), text);
            EXPECT_EQ(me, nullptr);
        };
        says({}, "rankmesh_world_join was given NULL as 'plan.mesh', which it needs");
        says({.mesh = "dp=1", .over_count = 1},
             "rankmesh_world_join was given NULL as 'plan.over', which it needs");
        const auto nameless = rankmesh_axes{};
        says({.mesh = "dp=1", .over = &nameless, .over_count = 1},
             "rankmesh_world_join was given NULL as 'over.axes', which it needs");
        const auto picks_what = rankmesh_pick{.of = "dp"};
        says({.mesh = "dp=1", .picks = &picks_what, .pick_count = 1},
             "rankmesh_world_join was given NULL as 'picks.as', which it needs");
        says({.mesh = "dp=1", .timeout_seconds = -0.5},
             "rankmesh_world_join was given a time of -0.500000 seconds; it must be positive");
        auto plan = rankmesh_declaration{.mesh = "dp=1 tp=1"};
        EXPECT_EQ(rankmesh_world_join(world, &plan, 1, &me), RANKMESH_OK);
        rankmesh_communicator* on = nullptr;
        EXPECT_EQ(rankmesh_member_on(me, "tp,dp", &on), RANKMESH_USAGE_ERROR);
        EXPECT_STREQ(rankmesh_error_text(),
                     "'tp,dp' of mesh dp=1 tp=1 was not declared; add .over = {{\"tp\", \"dp\"}} to the "
                     "declaration");
        rankmesh_member_free(me);
        return 0;
    };
    EXPECT_EQ(rankmesh_threads_run(1, program, nullptr, nullptr), RANKMESH_OK) << rankmesh_error_text();
}

TEST(ErrorsInC, NameTheRanksThatAreMissingInATimeout) {
    const Program program = [](rankmesh_world* world, void* waiting) {
        auto* dp = joined(world, "dp=3", 0.2);
        auto rank = 0;
        EXPECT_EQ(rankmesh_world_rank(world, &rank), RANKMESH_OK);
        auto& others = *static_cast<std::latch*>(waiting);
        const auto code = rank == 1 ? 0 : rankmesh_monitored_barrier(dp, nullptr);
        if (rank == 1)
            others.wait();  // a rank that has returned would be lost at once
        else
            others.count_down();
        if (rank == 0) {
            EXPECT_EQ(code, RANKMESH_TIMEOUT);
            EXPECT_EQ(named(RANKMESH_RANKS_MISSING), Ranks{1});
            EXPECT_EQ(named(RANKMESH_RANKS_ARRIVED), (Ranks{0, 2}));
            EXPECT_EQ(named(RANKMESH_RANKS_LOST), Ranks{});
        }
        rankmesh_communicator_free(dp);
        return 0;
    };
    auto waiting = std::latch(2);
    EXPECT_EQ(rankmesh_threads_run(3, program, &waiting, nullptr), RANKMESH_OK) << rankmesh_error_text();
}

TEST(ErrorsInC, ARankThatReturnsAnotherNumberIsLostToItsPeers) {
    const Program program = [](rankmesh_world* world, void* own_number) {
        auto* dp = joined(world, "dp=3", 20);
        auto rank = 0;
        EXPECT_EQ(rankmesh_world_rank(world, &rank), RANKMESH_OK);
        auto code = rank == 1 ? *static_cast<int*>(own_number) : rankmesh_barrier(dp, nullptr);
        if (rank != 1) {
            EXPECT_EQ(code, RANKMESH_LOST);
            EXPECT_EQ(named(RANKMESH_RANKS_LOST), Ranks{1});
        }
        rankmesh_communicator_free(dp);
        return code;
    };
    auto number = 42;
    EXPECT_EQ(rankmesh_threads_run(3, program, &number, nullptr), RANKMESH_OTHER_FAILURE);
    EXPECT_STREQ(rankmesh_error_text(), "the program of rank 1 returned 42, not 0");
}

TEST(ErrorsInC, TheErrorThatARankReturnsIsThatOfTheRun) {
    const Program program = [](rankmesh_world* world, void*) {
        const char* meshes[] = {"dp=3", "dp=3", "dp=1 tp=3"};
        auto rank = 0;
        EXPECT_EQ(rankmesh_world_rank(world, &rank), RANKMESH_OK);
        const auto plan = rankmesh_declaration{.mesh = meshes[rank]};
        rankmesh_member* me = nullptr;
        const auto code = rankmesh_world_join(world, &plan, 1, &me);
        if (code != RANKMESH_LOST) {  // as one is that hears of another's leaving first
            EXPECT_EQ(code, RANKMESH_DISAGREEMENT);
            EXPECT_EQ(named(RANKMESH_RANKS_DIFFERING), Ranks{2});
        }
        return code;
    };
    EXPECT_EQ(rankmesh_threads_run(3, program, nullptr, nullptr), RANKMESH_DISAGREEMENT);
    EXPECT_EQ(named(RANKMESH_RANKS_DIFFERING), Ranks{2});
    EXPECT_EQ(rankmesh_error_text(), text_of([] {
                  threads::run(3, [](World& world) {
                      (void)world.join(MeshSpec::parse(world.rank() < 2 ? "dp=3" : "dp=1 tp=3"));
                  });
              }));
}

TEST(ErrorsInC, AnAbandonedPendingGivesItsBuffersBackAndWaitsForNobody) {
    const Program program = [](rankmesh_world* world, void*) {
        auto* dp = joined(world, "dp=2", 20);
        auto rank = 0;
        EXPECT_EQ(rankmesh_world_rank(world, &rank), RANKMESH_OK);
        auto value = 1.0f;
        auto code = 9;
        if (rank == 0) {
            rankmesh_pending* pending = nullptr;
            EXPECT_EQ(rankmesh_all_reduce(dp, &value, &value, 1, RANKMESH_F32, RANKMESH_SUM, &pending),
                      RANKMESH_OK);
            rankmesh_pending_abandon(pending);
        } else {
            code = rankmesh_recv(dp, &value, 1, RANKMESH_F32, 0, 0, nullptr, nullptr);  // nobody sends
            EXPECT_EQ(code, RANKMESH_LOST);
            EXPECT_EQ(named(RANKMESH_RANKS_LOST), Ranks{0});
        }
        rankmesh_communicator_free(dp);
        return code;
    };
    EXPECT_EQ(rankmesh_threads_run(2, program, nullptr, nullptr), RANKMESH_OTHER_FAILURE);
    EXPECT_STREQ(rankmesh_error_text(), "the program of rank 0 returned 9, not 0");
}

TEST(ErrorsInC, AWorldSaysWhichEngineThereIsNot) {
    const auto options = rankmesh_world_options{.engine = "mpii"};
    rankmesh_world* world = nullptr;
    EXPECT_EQ(rankmesh_world_from_environment(&options, &world), RANKMESH_USAGE_ERROR);
    EXPECT_EQ(world, nullptr);
    EXPECT_EQ(rankmesh_error_text(), text_of([] { (void)World::from_environment({.engine = "mpii"}); }));
}

TEST(ErrorsInC, AWorldTellsWhatHappensToIt) {
    auto lines = std::vector<std::string>{};
    auto options = rankmesh_world_options{.engine = "threads"};
    options.log = [](const char* line, void* user) {
        static_cast<std::vector<std::string>*>(user)->emplace_back(line);
    };
    options.log_user = &lines;
    rankmesh_world* world = nullptr;
    ASSERT_EQ(rankmesh_world_from_environment(&options, &world), RANKMESH_OK) << rankmesh_error_text();
    rankmesh_communicator_free(joined(world, "dp=1", 1));
    rankmesh_world_free(world);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_TRUE(lines[0].starts_with("[rank 0] of 1 on threads")) << lines[0];
    EXPECT_TRUE(lines[1].starts_with("[dp=0] joined dp=1")) << lines[1];
}

}  // namespace
