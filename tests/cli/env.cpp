// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

TEST(EnvSubcommand, PrintsLinesThatAShellTakes) {
    EXPECT_EQ(rankmesh("env 'pp=4 data-parallel=2' --rank 3").output,
              "export RANKMESH_RANK=3\nexport RANKMESH_INSIDE=1\nexport RANKMESH_PP=1\nexport "
              "RANKMESH_PP_SIZE=4\nexport RANKMESH_DATA_PARALLEL=1\n"
              "export RANKMESH_DATA_PARALLEL_SIZE=2\n");
    EXPECT_EQ(support::run(clean + "eval \"$(" + command +
                           "env 'pp=4 tp=2' --rank 5)\"; sh -c 'echo $RANKMESH_PP of " +
                           "$RANKMESH_PP_SIZE, $RANKMESH_TP of $RANKMESH_TP_SIZE'")
                  .output,
              "2 of 4, 1 of 2\n")
        << "the programs that the script starts see them";
}

TEST(EnvSubcommand, TakesTheRankOfTheInnermostLauncher) {
    const auto order =
        std::vector<std::pair<std::string, std::string>>{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                         {"PMI_RANK", "PMI_SIZE"},
                                                         {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                                         {"RANK", "WORLD_SIZE"}};
    auto environment = std::string{};
    for (auto i = order.size(); i-- > 0;) {
        environment += "export " + order[i].first + "=" + std::to_string(i) + " " + order[i].second + "=" +
                       std::to_string(8 + 2 * i) + ";";
        const auto json = json_of("env 'dp=* tp=2' --json", environment);
        EXPECT_EQ(json["rank"], i);
        EXPECT_EQ(json["variables"]["RANKMESH_DP_SIZE"], 4 + i);
        EXPECT_EQ(json["variables"]["RANKMESH_TP"], i % 2);
    }
}

TEST(EnvSubcommand, UnderTorchrunInAnotherLauncher_TakesItsRank) {
    for (const auto* outer : {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", "PMI_RANK=0 PMI_SIZE=1",
                              "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1"}) {
        const auto json =
            json_of("env 'dp=* tp=2' --json",
                    std::string("export TORCHELASTIC_RUN_ID=none RANK=3 WORLD_SIZE=4 ") + outer + ";");
        EXPECT_EQ(json["rank"], 3);
        EXPECT_EQ(json["variables"]["RANKMESH_DP_SIZE"], 2);
    }
}

TEST(EnvSubcommand, SaysNoForARankOfTheWorldOutsideTheMesh) {
    const auto outside = rankmesh("env 'dp=4'", "export RANK=5 WORLD_SIZE=8;");
    EXPECT_EQ(outside.output,
              "export RANKMESH_RANK=5\nexport RANKMESH_INSIDE=0\nexport RANKMESH_DP_SIZE=4\n");
    EXPECT_EQ(outside.exit_code, 1);
    EXPECT_EQ(rankmesh("env 'dp=4'", "export RANK=3 WORLD_SIZE=8;").exit_code, 0);
}

TEST(EnvSubcommand, RefusesWhatItCannotKnow) {
    const auto refusal = [](const std::string& words, const std::string& environment = "") {
        const auto outcome = rankmesh(words, environment);
        EXPECT_EQ(outcome.exit_code, 2);
        return outcome.output;
    };
    EXPECT_EQ(
        refusal("env dp=4"),
        "rankmesh: the rank is unknown: none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and RANK is "
        "set; run "
        "this under a launcher such as mpirun, or add --rank R\n");
    EXPECT_EQ(refusal("env dp=4 --rank 4"),
              "rankmesh: rank 4 is outside mesh dp=4, which covers ranks 0..3\n");
    EXPECT_EQ(refusal("env dp=4", "export RANK=8 WORLD_SIZE=8;"),
              "rankmesh: RANK says rank 8, but WORLD_SIZE says 8 ranks\n");
    EXPECT_EQ(refusal("env dp=16", "export RANK=3 WORLD_SIZE=8;"),
              "rankmesh: mesh dp=16 reaches rank 15, but WORLD_SIZE says 8 ranks\n");
    EXPECT_EQ(refusal("env 'a=2 a_size=3' --rank 0"),
              "rankmesh: axis 'a' and axis 'a_size' would both set RANKMESH_A_SIZE; rename the axis\n");
    EXPECT_EQ(refusal("env 'x-y=2 X.y=3' --rank 0"),
              "rankmesh: axis 'x-y' and axis 'X.y' would both set RANKMESH_X_Y; rename the axis\n");
    EXPECT_EQ(refusal("env 'world=2' --rank 0"),
              "rankmesh: the size of the world and axis 'world' would both set RANKMESH_WORLD_SIZE; rename "
              "the axis\n");
    EXPECT_NE(refusal("env dp=4", "export RANK=x;").find("RANK"), std::string::npos);
}

}  // namespace
}  // namespace rankmesh::tests
