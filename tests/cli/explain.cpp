// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

const auto records = std::string(RANKMESH_SOURCE "/tests/explain/records/");

TEST(ExplainSubcommand, EndsWith1WhereSomethingIsWrongAndPrintsItInJsonToo) {
    for (const auto& [folder, kind, rank, coordinate] :
         {std::tuple{"lost", "absent", 5, "pp=1 dp=0 tp=1"},
          std::tuple{"mismatch", "calls_differ", 3, "dp=1 tp=1"},
          std::tuple{"crossed", "cycle", 1, "dp=0 tp=1"}}) {
        const auto text = rankmesh("explain " + records + folder);
        EXPECT_EQ(text.exit_code, 1) << text.output;
        EXPECT_NE(text.output.find("rank " + std::to_string(rank) + " (" + coordinate + ")"),
                  std::string::npos)
            << text.output;
        EXPECT_EQ(text.output.find('\x1b'), std::string::npos);
        const auto json = json_of("explain --json " + records + folder);
        EXPECT_EQ(json["wrong"], true);
        EXPECT_EQ(json["findings"][0]["kind"], kind);
        EXPECT_EQ(json["findings"][0]["ranks"], nlohmann::json::array({rank}));
        EXPECT_EQ(json["findings"][0]["coordinates"], nlohmann::json::array({coordinate}));
        EXPECT_EQ(json["findings"][0]["hosts"],
                  nlohmann::json::array({rank == 5 ? nlohmann::json() : nlohmann::json("a")}));
        EXPECT_EQ(json["findings"].size(), 1U) << json;
    }
}

TEST(ExplainSubcommand, TakesTheMeshOfDumpsThatDoNotSayIt) {
    const auto without = json_of("explain --json " + records + "torch");
    EXPECT_EQ(without["findings"][0]["coordinates"], nlohmann::json::parse("[null]"));
    EXPECT_TRUE(without["findings"][0]["axes"].is_null());
    const auto with = json_of("explain --mesh 'dp=2 tp=2' --json " + records + "torch");
    EXPECT_EQ(with["findings"][0]["coordinates"], nlohmann::json::parse(R"(["dp=0 tp=1"])"));
    EXPECT_EQ(with["findings"][0]["kind"], "behind");
    EXPECT_EQ(with["findings"][0]["axes"], "tp");
    const auto placed = json_of("explain --mesh 'dp=2 tp=2 @[3,1,2,0]' --json " + records + "torch");
    EXPECT_EQ(placed["findings"][0]["coordinates"], nlohmann::json::parse(R"(["dp=0 tp=1"])"));
}

TEST(ExplainSubcommand, AMesh_WhenLargerThanTheJob_IsRefused) {
    for (const auto& [mesh, last] : {std::pair{"dp=2 tp=3", "5"}, std::pair{"dp=4 tp=2", "7"}}) {
        const auto said = rankmesh("explain --mesh '" + std::string(mesh) + "' " + records + "crossed");
        EXPECT_EQ(said.exit_code, 2);
        EXPECT_EQ(said.output, "rankmesh: mesh " + std::string(mesh) + " reaches rank " + last +
                                   ", but --mesh must be the mesh of the job, whose records say 4 ranks\n");
    }
    // A mesh of some ranks is not wrong, nor is one for dumps of PyTorch that do not have the number of
    // ranks.
    EXPECT_EQ(rankmesh("explain --mesh 'tp=2' " + records + "crossed").exit_code, 1);
    EXPECT_EQ(rankmesh("explain --mesh 'dp=2 tp=3' " + records + "torch").exit_code, 1);
    EXPECT_EQ(json_of("explain --json --mesh 'tp=*' " + records + "crossed")["findings"][0]["coordinates"],
              nlohmann::json::array({"tp=1"}));
}

TEST(ExplainSubcommand, ForSlownessNeedsCallsThatHaveEnded) {
    const auto none = rankmesh("explain --slow --mesh 'dp=2 tp=2' " + records + "torch");
    EXPECT_EQ(none.exit_code, 3) << none.output;
    EXPECT_NE(none.output.find("cannot tell who is slow: "), std::string::npos) << none.output;
    EXPECT_TRUE(json_of("explain --slow --json --mesh 'dp=2 tp=2' " + records + "torch")["slow"].is_null());
    EXPECT_EQ(rankmesh("explain --on 'node:2 gpu:2' " + records + "torch").output,
              "rankmesh: --on names the units of slow ranks; add --slow\n");
}

TEST(ExplainSubcommand, EndsWith0WhereNothingIsWrong) {
    const auto folder = "$(mktemp -d)";
    const auto said = support::run(
        clean + "d=" + folder + R"(; for r in 0 1; do echo '{"version": "2.10", "rankmesh": 1, "rank": '$r',
        "world_size": 2, "engine": "gloo", "reason": "request", "pg_config": {}, "entries": []}' > $d/rank-$r.json; done; )" +
        command + "explain $d; echo $?; rm -r $d");
    EXPECT_EQ(said.output,
              "2 records of ranks {0, 1}, of gloo\n\nnothing is wrong: every rank has a record, and all "
              "calls match and are complete\n0\n");
}

TEST(ExplainSubcommand, EndsWith3WhereRecordsDoNotTell) {
    const auto said = [](const std::string& words) {
        return support::run(
                   clean +
                   R"(d=$(mktemp -d); echo '{"version": "2.10", "rankmesh": 1, "rank": 0, "world_size": 2,
        "engine": "gloo", "reason": "request", "pg_config": {}, "entries": []}' > $d/rank-0.json; )" +
                   command + "explain $d" + words + "; echo $?; rm -r $d")
            .output;
    };
    EXPECT_EQ(said(""),
              "1 record of ranks {0}, of gloo\n\ncannot tell whether something is wrong: the records show no "
              "error, but\n   - no record of rank 1\n3\n");
    const auto line = said(" --json");
    const auto json = nlohmann::json::parse(line.substr(0, line.find('\n')));
    EXPECT_TRUE(json["wrong"].is_null());
    EXPECT_EQ(json["doubts"], nlohmann::json::parse(R"(["no record of rank 1"])"));
}

TEST(ExplainSubcommand, TakesFilesAndSeveralFolders) {
    auto files = std::string{};
    for (const auto* rank : {"0", "1", "2", "3"}) files += " " + records + "crossed/rank-" + rank + ".json";
    EXPECT_EQ(rankmesh("explain" + files).output, rankmesh("explain " + records + "crossed").output);
    EXPECT_EQ(json_of("explain --json " + records + "lost " + records + "crossed")["records"], 11);
}

TEST(ExplainSubcommand, EndsWith2WhereThereAreNoRecords) {
    const auto none = rankmesh("explain /nowhere");
    EXPECT_EQ(none.exit_code, 2);
    EXPECT_EQ(none.output,
              "rankmesh: '/nowhere' cannot be read: No such file or directory; ranks write records to "
              "RANKMESH_RECORD when a call fails, and with RANKMESH_RECORD_EVERY=10s while they run\n");
    const auto file = rankmesh("explain " RANKMESH_SOURCE "/README.md");
    EXPECT_EQ(file.exit_code, 2);
    EXPECT_EQ(
        file.output,
        "rankmesh: README.md has no line that explain knows; docs/explain.md lists what explain reads\n");
    const auto foreign = rankmesh("explain " + records);
    EXPECT_EQ(foreign.exit_code, 2) << foreign.output;
    EXPECT_EQ(rankmesh("explain").exit_code, 2);
    EXPECT_EQ(rankmesh("explain --mesh 'dp=' " + records + "behind").exit_code, 2);
}

}  // namespace
}  // namespace rankmesh::tests
