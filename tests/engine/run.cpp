// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/run.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/engine/gloo.hpp>

#include "support/command.hpp"
#include "support/gloo_job.hpp"

using namespace rankmesh;

namespace {

/// The environment of a process that no launcher has started, with these variables; restored afterwards.
class Environment {
public:
    explicit Environment(const std::map<std::string, std::string>& variables) {
        for (const auto* name :
             {"RANKMESH_THREADS", "RANKMESH_ENGINE", "RANKMESH_STORE", "RANKMESH_WORLD_SIZE",
              "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE", "RANK", "MASTER_ADDR",
              "MASTER_PORT"}) {
            if (const auto* value = std::getenv(name)) before_[name] = value;
            unsetenv(name);
            names_.push_back(name);
        }
        for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    }
    Environment(std::initializer_list<std::pair<const char*, const char*>> variables)
        : Environment(std::map<std::string, std::string>(variables.begin(), variables.end())) {}
    ~Environment() {
        for (const auto& name : names_) unsetenv(name.c_str());
        for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    std::vector<std::string> names_;
    std::map<std::string, std::string> before_;
};

/// The size of the world in which `run` runs, every rank of which it has seen once; 0 if it has run nothing.
int size_of_run(const RunOptions& options) {
    auto size = std::atomic(0);
    auto ranks = std::atomic(0);
    const auto code = run(
        0, nullptr,
        [&](World& world) {
            EXPECT_EQ(world.engine(), "threads");
            size = world.size();
            ranks += 1 << world.rank();
        },
        options);
    EXPECT_EQ(ranks, (1 << size) - 1);
    EXPECT_EQ(code, size > 0 ? 0 : 1);
    return size;
}

/// What `run` prints to stderr for a program of three threads that ends with `code`.
std::string printed_by(const std::function<void(World&)>& program, int code) {
    testing::internal::CaptureStderr();
    const auto got = run(0, nullptr, program, {.threads = 3});
    auto text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(got, code) << text;
    return text;
}

std::string refusal(const RunOptions& options) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(size_of_run(options), 0);
    return testing::internal::GetCapturedStderr();
}

}  // namespace

TEST(Run, WithoutALauncherThreadsAreThoseOfProgramElseEnvironment) {
    {
        const auto plain = Environment{};
        EXPECT_EQ(size_of_run({}), 1);
        for (int n : {1, 2, 5}) EXPECT_EQ(size_of_run({.threads = n}), n);
        EXPECT_EQ(size_of_run({.threads = 2, .world = {.engine = "threads"}}), 2);
        EXPECT_EQ(refusal({.threads = 0}),
                  "rankmesh: threads::run was asked for 0 ranks; a world has 1 or more\n");
        EXPECT_EQ(refusal({.world = {.engine = "thread"}}),
                  "rankmesh: no engine is named 'thread'; did you mean 'threads'?; there are 'threads', "
                  "'mpi' and 'gloo'\n");
    }
    {
        const auto asked = Environment{{"RANKMESH_THREADS", "4"}};
        EXPECT_EQ(size_of_run({}), 4);
        EXPECT_EQ(size_of_run({.threads = 2}), 2);
    }
    const auto wrong = Environment{{"RANKMESH_THREADS", "many"}};
    EXPECT_EQ(refusal({}),
              "rankmesh: RANKMESH_THREADS='many' is not a whole number of 1 or more; set it to one, or unset "
              "it\n");
}

TEST(Run, ALauncherIsBelievedAndItsWorldIsNeverMadeOfThreadsUnseen) {
    {
        const auto one = Environment{{"WORLD_SIZE", "1"}, {"RANKMESH_THREADS", "4"}};
        EXPECT_EQ(size_of_run({.threads = 3}), 1);
    }
    const auto several = Environment{{"WORLD_SIZE", "4"}};
    EXPECT_EQ(
        refusal({.threads = 4, .world = {.engine = "threads"}}),
        "rankmesh: the launcher announced 4 processes (WORLD_SIZE), but the engine 'threads' sees a world "
        "of 1; start with the launcher of that engine, choose another with RANKMESH_ENGINE, or set "
        "RANKMESH_WORLD_SIZE=1 if a world of 1 is meant\n");
}

TEST(Run, OneOfSeveralProcessesNeverRunsAloneIfAVariableIsMissing) {
    if (!gloo::is_built()) GTEST_SKIP() << "built without Gloo";
    for (const auto* rank : {"0", "1"}) {
        const auto all = std::vector<std::pair<std::string, std::string>>{
            {"WORLD_SIZE", "2"}, {"RANK", rank}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
        for (unsigned set = 0; set + 1 < 1U << all.size(); ++set) {
            auto given = std::map<std::string, std::string>{};
            for (std::size_t i = 0; i < all.size(); ++i)
                if ((set >> i & 1U) != 0) given.insert(all[i]);
            const auto some = Environment(given);
            if (!given.contains("WORLD_SIZE") && !given.contains("RANK")) {
                EXPECT_EQ(size_of_run({}), 1);
                continue;
            }
            const auto* missing = !given.contains("WORLD_SIZE")    ? "WORLD_SIZE is set"
                                  : !given.contains("RANK")        ? "RANK is set"
                                  : !given.contains("MASTER_ADDR") ? "set MASTER_ADDR"
                                                                   : "MASTER_PORT is not";
            const auto text = refusal({.threads = 4});
            EXPECT_NE(text.find(missing), std::string::npos) << rank << " " << set << ": " << text;
            EXPECT_NE(text.find("the engine 'gloo'"), std::string::npos)
                << rank << " " << set << ": " << text;
        }
    }
    {
        const auto outside = Environment{{"RANK", "1"}, {"WORLD_SIZE", "1"}};
        EXPECT_EQ(refusal({}), "rankmesh: rank 1 (RANK) of a world of 1 (WORLD_SIZE); ranks are 0..0\n");
    }
    for (const auto& given :
         std::vector<std::map<std::string, std::string>>{{{"RANK", "1"}, {"RANKMESH_WORLD_SIZE", "1"}},
                                                         {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
                                                         {{"RANK", "first"}}}) {
        const auto alone = Environment(given);
        EXPECT_EQ(size_of_run({}), 1);
    }
}

TEST(Run, AnExceptionOfOneOfTheThreadsIsPrintedOnceWithItsRank) {
    const auto plain = Environment{};
    for (int failing : {0, 2})
        EXPECT_EQ(printed_by(
                      [&](World& world) {
                          auto dp = world.join({{"dp", rest}}).on("dp");
                          if (world.rank() == failing) throw std::runtime_error("boom");
                          dp.barrier();  // throws PeerLost
                      },
                      1),
                  "rank " + std::to_string(failing) + " of 3: boom\n");
    EXPECT_EQ(printed_by(
                  [&](World& world) {
                      if (world.rank() == 1) throw 5;
                  },
                  1),
              "rank 1 of 3: an exception that is no std::exception\n");
    EXPECT_EQ(printed_by([](World&) {}, 0), "");
}

TEST(Run, TheFirstExitCodeThatIsNotZeroIsThatOfTheThreads) {
    const auto plain = Environment{};
    const auto code = [](std::vector<int> codes) {
        return run(0, nullptr, [&](World& world) { return codes[static_cast<std::size_t>(world.rank())]; },
                   {.threads = static_cast<int>(codes.size())});
    };
    EXPECT_EQ(code({0, 0, 0}), 0);
    EXPECT_EQ(code({0, 3, 2}), 3);
    EXPECT_EQ(code({0, 0, 1}), 1);
}

TEST(Run, OneMainIsThreadsWithoutALauncher) {
    const auto plain = Environment{};
    const auto well = support::run("timeout -k 5 30 " RANKMESH_RUN_PROGRAM);
    EXPECT_EQ(well.exit_code, 0) << well.output;
    for (const auto* line : {"rank 0 of 3 on threads: 3\n", "rank 2 of 3 on threads: 3\n"})
        EXPECT_NE(well.output.find(line), std::string::npos) << well.output;
    const auto thrown = support::run("timeout -k 5 30 " RANKMESH_RUN_PROGRAM " throw");
    EXPECT_EQ(thrown.exit_code, 1) << thrown.output;
    EXPECT_EQ(thrown.output, "rank 1 of 3: boom\n");
    EXPECT_EQ(support::run("timeout -k 5 30 " RANKMESH_RUN_PROGRAM " code").exit_code, 7);
}

TEST(Run, ARankThatReturnsEarlyIsLostOnThreads) {
    const auto plain = Environment{};
    const auto early = support::run("timeout -k 5 30 " RANKMESH_RUN_PROGRAM " early");
    EXPECT_EQ(early.exit_code, 1) << early.output;
    EXPECT_NE(early.output.find("rank 1 has returned, and is missing in barrier, call number 2; "),
              std::string::npos)
        << early.output;
}

#if RANKMESH_HAS_GLOO
TEST(Run, AProcessThatReturnsEarlyIsLostOnGloo) {
    const auto plain = Environment{};
    const auto early = support::gloo_job(RANKMESH_RUN_PROGRAM " early", 4);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(early.exit_codes[rank], rank == 1 ? 0 : 1) << early.all();
        if (rank != 1)
            support::expect_says(early, rank, ", has lost rank 1 [dp=1] and cannot be used any more");
    }
}

TEST(Run, TheSameMainIsProcessesThatMeetByGloo) {
    const auto plain = Environment{};
    const auto well = support::gloo_job(RANKMESH_RUN_PROGRAM, 4);
    const auto thrown = support::gloo_job(RANKMESH_RUN_PROGRAM " throw", 4);
    const auto code = support::gloo_job(RANKMESH_RUN_PROGRAM " code", 4);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const auto who = "rank " + std::to_string(rank) + " of 4";
        EXPECT_EQ(well.outputs[rank], who + " on gloo: 4\n");
        EXPECT_EQ(well.exit_codes[rank], 0);
        support::expect_says(thrown, rank, rank == 1 ? who + ": boom\n" : who + ": ");
        EXPECT_EQ(thrown.exit_codes[rank], 1) << thrown.all();
        EXPECT_EQ(code.exit_codes[rank], rank == 1 ? 7 : 0) << code.all();
    }
}
#endif

#ifdef RANKMESH_MPIRUN
TEST(Run, TheSameMainIsProcessesUnderMpirun) {
    const auto plain = Environment{};
    const auto job = std::string("env " RANKMESH_ENVIRONMENT " timeout -k 5 60 " RANKMESH_MPIRUN
                                 " -n 4 " RANKMESH_RUN_PROGRAM " ");
    const auto well = support::run(job);
    EXPECT_EQ(well.exit_code, 0) << well.output;
    for (const auto* line : {"rank 0 of 4 on mpi: 4\n", "rank 3 of 4 on mpi: 4\n"})
        EXPECT_NE(well.output.find(line), std::string::npos) << well.output;
    const auto thrown = support::run(job + "throw");
    EXPECT_NE(thrown.exit_code, 0) << thrown.output;
    EXPECT_NE(thrown.exit_code, 124) << "the job hung\n" << thrown.output;
    EXPECT_NE(thrown.output.find("rank 1 of 4: boom\n"), std::string::npos) << thrown.output;
    EXPECT_EQ(support::run(job + "code").exit_code, 7);
    const auto early = support::run(job + "early");
    EXPECT_NE(early.exit_code, 0) << early.output;
    EXPECT_NE(early.exit_code, 124) << "the job hung\n" << early.output;
    EXPECT_NE(early.output.find(" in barrier (0 bytes), call number 2 on 'dp' of mesh dp=4"),
              std::string::npos)
        << early.output;
}
#endif
