// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include <rankmesh/engine/mpi.hpp>

#include "cli/rankmesh.hpp"

namespace rankmesh::tests {
namespace {

constexpr auto operations = 17;

support::Outcome under_mpirun(int ranks, const std::string& words) {
    return support::run(clean + "export " RANKMESH_ENVIRONMENT "; timeout -k 5 60 " RANKMESH_MPIRUN " -n " +
                        std::to_string(ranks) + " " RANKMESH_MPIEXEC_FLAGS " " + command + words);
}

}  // namespace

TEST(RunSubcommand, VerifiesEveryOperationOnEveryAxisAndEveryPairOfAxes) {
    for (const auto* text :
         {"dp=1", "dp=3", "dp=2 tp=2", "pp=2 dp=1 tp=3", "dp=2:1 tp=2:2 @1", "a=2 b=2 @[3,1,2,0]"}) {
        const auto json = json_of("run --engine threads --bytes 100 --json '" + std::string(text) + "'");
        EXPECT_EQ(json["ok"], true) << text;
        EXPECT_EQ(json["engine"], "threads");
        auto sets = std::set<std::string>{};
        for (const auto& row : json["rows"]) {
            EXPECT_EQ(row["wrong"], 0);
            sets.insert(row["axes"].get<std::string>());
        }
        EXPECT_EQ(json["rows"].size(), sets.size() * operations) << text;
        const auto axes =
            std::string(text).find("@[") != std::string::npos ? 2 : Mesh::parse(text).axis_count();
        EXPECT_EQ(sets.size(), static_cast<std::size_t>(axes + axes * (axes - 1) / 2)) << text;
    }
}

TEST(RunSubcommand, EndsWithATableAndALineThatSaysAll) {
    const auto outcome = rankmesh("run 'dp=2 tp=2' 2>/dev/null");  // where a slow machine says how far it is
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_TRUE(
        outcome.output.starts_with("dp=2 tp=2 on threads: 4 threads\n\naxes        groups  operation"))
        << outcome.output;
    EXPECT_NE(outcome.output.find("\nall 51 ok in "), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find('\033'), std::string::npos) << "no colour in a pipe";
}

TEST(RunSubcommand, LeavesRanksOfTheWorldOutsideTheMesh) {
    const auto json = json_of("run 'dp=2' --world 5 --json --bytes 8");
    EXPECT_EQ(json["world"], 5);
    EXPECT_EQ(json["ok"], true);
}

TEST(RunSubcommand, ASizeThatNobodyKnowsIsAUsageError) {
    const auto outcome = rankmesh("run 'dp=* tp=2'");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.output.find("neither --world nor a launcher says how many ranks there are"),
              std::string::npos)
        << outcome.output;
    EXPECT_EQ(rankmesh("run 'dp=* tp=2' --world 4 --bytes 8").exit_code, 0);
}

TEST(RunSubcommand, AnEngineThatDoesNotExistIsAUsageError) {
    const auto outcome = rankmesh("run dp=2 --engine thread");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.output,
              "rankmesh: no engine is named 'thread'; did you mean 'threads'?; there are 'threads', 'mpi' "
              "and 'gloo'\n");
}

TEST(RunSubcommand, RunsOnTheProcessesThatMpirunStarted) {
    if (!mpi::is_built()) GTEST_SKIP() << "built without MPI";
    const auto outcome = under_mpirun(4, "run 'dp=* tp=2' --bytes 1024");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    // What takes long is preceded by its progress.
    EXPECT_NE(outcome.output.find("dp=2 tp=2 on mpi: 4 processes\n"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("\nall 51 ok in "), std::string::npos) << outcome.output;
}

TEST(RunSubcommand, AMeshThatDoesNotFitTheJobIsSaidOnce) {
    if (!mpi::is_built()) GTEST_SKIP() << "built without MPI";
    const auto outcome = under_mpirun(2, "run 'dp=2 tp=2'");
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    const auto text = std::string("rankmesh: mesh dp=2 tp=2 ");
    const auto first = outcome.output.find(text);
    ASSERT_NE(first, std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find(text, first + 1), std::string::npos) << outcome.output;
}

}  // namespace rankmesh::tests
