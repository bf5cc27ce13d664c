// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/mpi.hpp>
#include <rankmesh/engine/nccl.hpp>

#include "cli/devices.hpp"
#include "cli/rankmesh.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

constexpr auto operations = 22;
constexpr auto operations_of_devices = 20;  // NCCL has no receive from any rank, and so no sparse exchange

support::Outcome under_mpirun(int ranks, const std::string& words, const std::string& environment = "") {
    return support::run(clean + environment +
                        "export " RANKMESH_ENVIRONMENT "; timeout -k 5 60 " RANKMESH_MPIRUN " -n " +
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
    EXPECT_NE(outcome.output.find("\nall 66 ok in "), std::string::npos) << outcome.output;
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
    EXPECT_NE(outcome.output.find("neither --world nor a launcher gives the number of ranks"),
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

TEST(RunSubcommand, AProcessThatIsOneOfSeveralDoesNotRunAllRanksAsThreads) {
    if (!gloo::is_built()) GTEST_SKIP() << "built without Gloo";
    const auto outcome = rankmesh("run dp=2", "export RANK=1;");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(
        outcome.output.starts_with("rankmesh: the engine 'gloo' does not know how many processes there are: "
                                   "none of RANKMESH_WORLD_SIZE, "))
        << outcome.output;
    EXPECT_EQ(rankmesh("run dp=2 --bytes 8", "export RANK=1 RANKMESH_ENGINE=threads;").exit_code, 0);
}

TEST(RunSubcommand, RunsOnTheProcessesThatMpirunStarted) {
    if (!mpi::is_built()) GTEST_SKIP() << "built without MPI";
    const auto outcome = under_mpirun(4, "run 'dp=* tp=2' --bytes 1024");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    // What takes long is preceded by its progress.
    EXPECT_NE(outcome.output.find("dp=2 tp=2 on mpi: 4 processes\n"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("\nall 66 ok in "), std::string::npos) << outcome.output;
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

namespace {

void expect_all_ok_with_devices(const nlohmann::json& json, const std::string& engine) {
    EXPECT_EQ(json["ok"], true);
    EXPECT_EQ(json["engine"], engine);
    EXPECT_EQ(json["device"], "nccl");
    EXPECT_EQ(json["rows"].size() % operations_of_devices, 0u);
    EXPECT_GT(json["rows"].size(), 0u);
    for (const auto& row : json["rows"]) EXPECT_EQ(row["wrong"], 0) << row.dump();
}

}  // namespace

TEST(RunSubcommand, VerifiesEveryOperationOnDevices) {
    if (!nccl::is_built()) GTEST_SKIP() << "built without NCCL";
    for (const auto* text :
         {"dp=1", "dp=3", "dp=2 tp=2 pp=1", "pp=2 dp=1 tp=3", "a=2 b=2 @[3,1,2,0]", "dp=2 cp=1 tp=4"}) {
        SCOPED_TRACE(text);
        const auto words = "run --json --bytes 100 '" + std::string(text) + "'";
        expect_all_ok_with_devices(json_of(words + " --device nccl", with_devices(8)), "threads");
    }
    const auto words = "run --json --bytes 8 dp=2";
    expect_all_ok_with_devices(json_of(words, with_devices(8) + "export RANKMESH_DEVICE=nccl;"), "threads");
    EXPECT_EQ(json_of(words, with_devices(8))["device"], nullptr);
    const auto outcome = rankmesh("run 'dp=2 tp=2' --device nccl --bytes 64 2>/dev/null", with_devices(8));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_TRUE(outcome.output.starts_with("dp=2 tp=2 on threads with nccl: 4 threads\n")) << outcome.output;
}

// There, cudaMalloc and cudaFree wait for the kernels of the other ranks.
TEST(RunSubcommand, VerifiesOnDevicesThatReachEachOthersMemoryInOneProcess) {
    if (!nccl::is_built()) GTEST_SKIP() << "built without NCCL";
    const auto devices = with_devices(4) + "export FAKE_PEERS=1 FAKE_PATIENCE=20000;";
    for (const auto* text : {"dp=4", "dp=2 tp=2"})
        expect_all_ok_with_devices(
            json_of("run --json --bytes 100 '" + std::string(text) + "' --device nccl", devices), "threads");
}

TEST(RunSubcommand, TheOperationsOnDevicesAreThoseOfNccl) {
    if (!nccl::is_built()) GTEST_SKIP() << "built without NCCL";
    for (const auto* call :
         {"ncclAllReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather", "ncclSend"}) {
        const auto outcome =
            rankmesh("run dp=2 --device nccl --bytes 64", with_devices(2) + "export FAKE_FAIL=" + call + ";");
        EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
        EXPECT_NE(outcome.output.find("rankmesh: "), std::string::npos) << outcome.output;
        EXPECT_NE(outcome.output.find(call), std::string::npos) << outcome.output;
    }
}

TEST(RunSubcommand, VerifiesOnDevicesBesideEveryEngineOfProcesses) {
    if (!nccl::is_built() || !mpi::is_built()) GTEST_SKIP() << "built without NCCL, or without MPI";
    auto engines = std::vector<std::string>{"mpi"};
    if (gloo::is_built()) engines.push_back("gloo");
    for (const auto& engine : engines) {
        SCOPED_TRACE(engine);
        const auto folder = support::Folder();
        const auto store =
            engine == "gloo" ? "export RANKMESH_STORE=" + folder.path() + "/store;" : std::string{};
        const auto outcome =
            under_mpirun(8, "run 'dp=2 cp=1 tp=4' --bytes 64 --json --device nccl --engine " + engine,
                         with_devices(8) + store);
        ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
        expect_all_ok_with_devices(nlohmann::json::parse(outcome.output.substr(outcome.output.find('{'))),
                                   engine);
    }
}

TEST(RunSubcommand, ADeviceThatIsNotThereIsSaidOnceInWords) {
    auto outcome = rankmesh("run dp=2 --device ncll");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(
        outcome.output,
        "rankmesh: unknown device engine 'ncll'; did you mean 'nccl'?; the only device engine is 'nccl'\n");
    if (!nccl::is_built()) {
        outcome = rankmesh("run dp=2 --device nccl");
        EXPECT_EQ(outcome.exit_code, 1);
        EXPECT_TRUE(outcome.output.starts_with(
            "rankmesh: this program's rankmesh has no NCCL; link rankmesh::rankmesh"))
            << outcome.output;
        return;
    }
    const auto words = std::string("run dp=2 --bytes 8 --device nccl");
    struct Case {
        std::string environment;
        std::string text;
    };
    for (const auto& [environment, text] :
         {Case{with_devices(0),
               "no NVIDIA GPU that this process can use; see nvidia-smi and CUDA_VISIBLE_DEVICES\n"},
          Case{with_devices(8) + "export FAKE_DRIVER=0;",
               "no NVIDIA driver, or one too old for this CUDA runtime, which reports: "},
          Case{with_devices(8) + "export FAKE_NCCL_VERSION=22705;",
               "libnccl.so.2 is NCCL 2.27.5; 2.28.0 or later is needed\n"},
          Case{"export LD_LIBRARY_PATH=/nonexistent;", ""}}) {
        SCOPED_TRACE(environment);
        outcome = rankmesh(words, environment);
        EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
        EXPECT_TRUE(outcome.output.starts_with("rankmesh: " + text)) << outcome.output;
        if (!mpi::is_built()) continue;
        outcome = under_mpirun(2, words, environment);
        EXPECT_NE(outcome.exit_code, 0) << outcome.output;
        const auto first = outcome.output.find("rankmesh: " + text);
        EXPECT_NE(first, std::string::npos) << outcome.output;
        EXPECT_EQ(outcome.output.find("rankmesh: ", first + 1), std::string::npos) << outcome.output;
    }
}

}  // namespace rankmesh::tests
