// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "rankmesh.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

/// With a limit that does not depend on who runs the test.
support::Outcome check(const std::string& words, int limit = 256, const std::string& environment = "") {
    return rankmesh("check " + words, environment + " ulimit -n " + std::to_string(limit) + ";");
}

nlohmann::json json_check(const std::string& words, int limit = 256) {
    return nlohmann::json::parse(check(words + " --json", limit).output);
}

TEST(CheckSubcommand, CountsTheGroupsOfEverySetAndWhatARankHolds) {
    for (const auto& mesh : meshes()) {
        const auto json = json_check(quoted(mesh));
        auto own = 0;
        ASSERT_EQ(json["sets"].size(), static_cast<std::size_t>(mesh.axis_count()));
        for (int a = 0; a < mesh.axis_count(); ++a) {
            const auto& set = json["sets"][static_cast<std::size_t>(a)];
            EXPECT_EQ(set["axes"], mesh.name(AxisId{a}));
            EXPECT_EQ(set["groups"], mesh.partition(AxisId{a}).size());
            EXPECT_EQ(set["group_size"], mesh.size(AxisId{a}));
            EXPECT_EQ(set["communicator"].is_null(), mesh.size(AxisId{a}) == 1);
            own += mesh.size(AxisId{a}) > 1 ? 1 : 0;
        }
        // The world ends where the mesh does; ranks that it leaves out hold nothing.
        const auto least = mesh.size() == mesh.extent() ? own : 0;
        EXPECT_EQ(json["communicators"], (nlohmann::json{{"most", own}, {"least", least}})) << mesh;
        EXPECT_EQ(json["world"], mesh.extent());
    }
}

TEST(CheckSubcommand, ARest_WithoutANumberOfRanks_IsComputedFromTheCluster) {
    const auto folder = support::Folder();
    const auto hosts = folder.path() + "/hosts";
    std::ofstream(hosts) << "a1 slots=8\na2 slots=4\n";
    const auto mesh_of = [&](const std::string& words, const std::string& environment = "") {
        return nlohmann::json::parse(
            check(words + " --on " + hosts + " --json", 256, environment).output)["mesh"];
    };
    EXPECT_EQ(mesh_of("'y=* x=2'"), "y=6 x=2");
    EXPECT_EQ(mesh_of("'y=* x=2' --world 8"), "y=4 x=2");
    EXPECT_EQ(mesh_of("'y=* x=2'", "export WORLD_SIZE=4;"), "y=2 x=2");
    EXPECT_EQ(rankmesh("place 'y=* x=2' --on " + hosts).output,
              rankmesh("place 'y=6 x=2' --on " + hosts).output);
    EXPECT_EQ(rankmesh("rank 'y=* x=2' 11 --on " + hosts).output,
              rankmesh("rank 'y=6 x=2' 11 --on " + hosts).output);
    for (const std::string words : {"show", "draw --format svg"}) {
        const auto given = rankmesh(words + " 'y=6 x=2' --on " + hosts);
        EXPECT_EQ(given.exit_code, 0) << given.output;
        EXPECT_EQ(rankmesh(words + " 'y=* x=2' --on " + hosts).output, given.output);
    }
    EXPECT_EQ(check("'y=* x=5' --on " + hosts).exit_code, 2);
}

TEST(CheckSubcommand, SaysWhatEachEngineNeeds) {
    const auto outcome = check("'dp=4 pp=2 cp=1 tp=4' --over dp,cp --over tp,dp", 20000);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.output,
              "dp=4 pp=2 cp=1 tp=4 · 32 ranks\n"
              "\n"
              "axes   groups x ranks  communicator\n"
              "dp              8 x 4  own\n"
              "pp             16 x 2  own\n"
              "cp             32 x 1  none: one rank per group\n"
              "dp,cp           8 x 4  shared with dp\n"
              "tp              8 x 4  own\n"
              "dp,tp          2 x 16  own\n"
              "\n"
              "each rank has 4 communicators\n"
              "\n"
              "mpi  ok 4 communicators; no limit is known\n"
              "gloo ok 22 connections, each a file descriptor; the limit on this host is 20000\n"
              "nccl ok 5 communicators: these 4 and one of all ranks, from 1 unique id; their\n"
              "        memory is known after join\n");
}

TEST(CheckSubcommand, TakesNoMoreForAMillionRanks) {
    const auto words = std::string("'pp=16 dp=* cp=2 tp=8' --world 1048576 --over dp,cp");
    const auto json = json_check(words);
    EXPECT_EQ(json["communicators"]["most"], 5);
    EXPECT_EQ(json["engines"]["nccl"]["unique_ids"], 8192);
    EXPECT_EQ(json["engines"]["nccl"]["communicators"]["most"], 6);
    EXPECT_EQ(json["engines"]["gloo"]["connections"], 15 + 4095 + 1 + 8191 + 7);
    EXPECT_EQ(json["engines"]["gloo"]["fits"], false);
    EXPECT_EQ(json["engines"]["mpi"]["fits"], true);
    EXPECT_EQ(json["sets"][1],
              nlohmann::json::parse(R"({"axes":"dp","groups":256,"group_size":4096,"communicator":1})"));
    EXPECT_EQ(check("'a=1024 b=1024 c=1024' --axes a", 2000).exit_code, 0);
}

TEST(CheckSubcommand, FailsWhereAProcessMayNotOpenWhatGlooNeeds) {
    const auto words = std::string("'dp=300 tp=2'");
    const auto json = json_check(words);
    EXPECT_EQ(json["fits"], false);
    EXPECT_EQ(json["engines"]["gloo"]["descriptor_limit"], 256);
    const auto others = json["engines"]["gloo"]["other_descriptors"].get<int>();  // some are inherited
    const auto text = detail::cat(
        "the groups of a rank need 300 connections, most of them 'dp' of mesh "
        "dp=300 tp=2 with 299; with ",
        others, " other descriptors that is beyond the limit of 256; raise it to ", others + 300,
        " (ulimit -n), or declare fewer or smaller groups");
    EXPECT_EQ(json["engines"]["gloo"]["text"], text);
    const auto outcome = check(words + " --engine gloo", 256, "export COLUMNS=1000;");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(outcome.output.ends_with("\ngloo NO " + text + "\n")) << outcome.output;
    EXPECT_EQ(check(words + " --axes tp").exit_code, 0);
    EXPECT_EQ(check(words, others + 300).exit_code, 0) << "what the text asks for is enough";
    EXPECT_EQ(check(words, others + 299).exit_code, 1);
    EXPECT_EQ(check(words + " --engine nccl").exit_code, 0);
    EXPECT_EQ(check(words + " --engine mpi").exit_code, 0);
}

TEST(CheckSubcommand, DeclaresTheAxesThatItIsGiven) {
    const auto only = [](const std::string& words) {
        auto names = std::vector<std::string>{};
        const auto json = json_check("'pp=2 dp=2 tp=2' " + words);
        for (const auto& set : json["sets"]) names.push_back(set["axes"]);
        return names;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(only("--axes tp,pp"), (Names{"pp", "tp"}));
    EXPECT_EQ(only("--axes none --over tp,dp"), (Names{"dp,tp"}));
    EXPECT_EQ(only("--axes pp --over tp,dp --over dp,tp"), (Names{"pp", "dp,tp"}));
    const auto nothing = json_check("'pp=2 dp=2' --axes none");
    EXPECT_EQ(nothing["communicators"]["most"], 0);
    EXPECT_EQ(nothing["engines"]["nccl"]["communicators"]["most"], 0);
    EXPECT_EQ(nothing["sets"], nlohmann::json::array());
}

TEST(CheckSubcommand, TellsWhatAMeshDoesOnACluster) {
    const auto cluster = std::string("--on 'node:2(25GB/s,5us) gpu:4(450GB/s)' ");
    const auto outcome = check("'tp=4 dp=2' --engine mpi --bytes 1000000 --explain " + cluster);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.output.substr(outcome.output.find("on node")),
              "on node:2(25GB/s,5us) gpu:4(450GB/s)\n"
              "\n"
              "ok 8 ranks on 8 devices\n"
              "NO tp in one node (the default): 2 of 2 groups of 4 ranks reach further; the\n"
              "   first has rank 0 in node 0, rank 4 in node 1\n"
              "\n"
              "axes  groups x ranks  > 1 node\n"
              "tp    2 x 4                  2\n"
              "dp    4 x 2                  0\n"
              "\n"
              "1000000 B of each rank:\n"
              "axes  operation       slowest link  each way  one group  all at once\n"
              "tp    all_reduce              node    3.0 MB    90.0 us     150.0 us\n"
              "      all_gather              node    1.5 MB    45.0 us      75.0 us\n"
              "      reduce_scatter          node    1.5 MB    45.0 us      75.0 us\n"
              "      all_to_all              node    2.0 MB    55.0 us      95.0 us\n"
              "      shift                   node    2.0 MB    45.0 us      85.0 us\n"
              "dp    all_reduce               gpu    1.0 MB     2.2 us       2.2 us\n"
              "      all_gather               gpu  500.0 kB     1.1 us       1.1 us\n"
              "      reduce_scatter           gpu  500.0 kB     1.1 us       1.1 us\n"
              "      all_to_all               gpu  500.0 kB     1.1 us       1.1 us\n"
              "      shift                    gpu    1.0 MB     2.2 us       2.2 us\n"
              "\n"
              "tp in one node: No rule was given, so tp is kept inside a node, where links are\n"
              "fastest. A group along tp has 4 ranks and would fit into a node of 4 devices,\n"
              "but its ranks are not contiguous: dp is an inner axis. List tp last, or use the\n"
              "order that rankmesh place prints.\n"
              "\n"
              "all_reduce along tp: each rank sends 6 parts of 250.0 kB, 1.5 MB in total, to\n"
              "the next rank in its ring of 4. 2 such rings cross the busiest link of a node:\n"
              "3.0 MB each way. That takes 120.0 us, plus 30.0 us to start 6 messages.\n"
              "\n"
              "all_reduce along dp: each rank sends 2 parts of 500.0 kB, 1.0 MB in total, to\n"
              "the next rank in its ring of 2. One such ring crosses the busiest link of a gpu:\n"
              "1.0 MB each way. That takes 2.2 us, plus 0.0 us to start 2 messages.\n");
    EXPECT_EQ(check("'dp=2 tp=4' " + cluster).exit_code, 0);
    EXPECT_EQ(check("'dp=2 tp=4' --keep dp:node " + cluster).exit_code, 1);
    EXPECT_EQ(check("'dp=2 tp=4' --keep tp:node --keep dp:node " + cluster).exit_code, 1);
    EXPECT_EQ(check("'tp=4 dp=2' --keep dp:node " + cluster).exit_code, 0) << "a rule replaces the defaults";
}

TEST(CheckSubcommand, SaysWhyARuleCannotHold) {
    const auto text = [](const std::string& words) {
        return check(words + " --engine mpi --explain", 256, "export COLUMNS=1000;").output;
    };
    const auto expect_said = [](const std::string& output, const std::string& said) {
        EXPECT_NE(output.find(said), std::string::npos) << output;
    };
    expect_said(
        text("'dp=2 tp=8' --on 'node:4 gpu:4' --keep tp:node"),
        "\nNO tp in one node: 2 of 2 groups of 8 ranks reach further; the first has rank 0 in node 0, "
        "rank 4 in node 1; a node has 4 devices\n");
    expect_said(text("'dp=2 tp=8' --on 'node:4 gpu:4' --keep tp:node"),
                "\ntp in one node: A group along tp has 8 ranks, the largest node 4 devices: no order of the "
                "ranks keeps it inside. Make tp 4 at most.\n");
    expect_said(
        text("'dp=4 tp=3' --on 'node:4 gpu:4' --keep tp:node"),
        "\ntp in one node: Groups along tp of 3 ranks do not fill each node, of 4 devices at most, so in "
        "the order of the devices some reach into the next. rankmesh place leaves devices idle "
        "instead, where there are enough.\n");
    expect_said(text("'dp=4 tp=4' --on 'node:4 gpu:4' --keep tp:node"),
                "\ntp in one node: No group along tp needs the link of a node.\n");
    expect_said(text("'dp=4 cp=2 tp=4' --on 'node:8 gpu:4'"),
                "\ncp is not checked: tp,cp together do not fit into one node; to check it, add "
                "--keep tp:node --keep cp:node\n");
    expect_said(text("'dp=2 cp=8' --on 'node:4 gpu:4'"),
                "\ncp is not checked: it does not fit into one node; to check it, add --keep cp:node\n");
    const auto refused =
        check("'dp=2 tp=8' --on 'node:4 gpu:4' --engine mpi --explain", 256, "export COLUMNS=1000;");
    EXPECT_EQ(refused.exit_code, 1);
    expect_said(
        refused.output,
        "\nNO tp in one node (the default): 2 of 2 groups of 8 ranks reach further; the first has rank 0 "
        "in node 0, rank 4 in node 1; a node has 4 devices\n");
    expect_said(refused.output,
                "A group along tp has 8 ranks, the largest node 4 devices: no order of the ranks keeps it "
                "inside. Make tp 4 at most.\n");
    expect_said(text("'data=4 tensor=4' --on 'node:4 gpu:4'"),
                "\nno axis is checked, because none is named tp, etp, cp or ep; to check one, add --keep "
                "AXIS:node\n");
    for (const auto* checked : {"'dp=4 tp=1' --on 'node:4 gpu:4'", "'data=4' --on 'node:4 gpu:4'",
                                "'data=2 tensor=2' --on 'node:1 gpu:4'"})
        EXPECT_EQ(text(checked).find("no axis is checked"), std::string::npos) << checked;
    expect_said(text("'dp=4 tp=4' --on 'node:5 gpu:4'"), "\nok 16 ranks on 20 devices, 4 idle\n");
    const auto outside = check("'dp=4 tp=4' --on 'node:3 gpu:4'");
    expect_said(outside.output, "\nNO 16 ranks on 12 devices: rank 15 has no device\n");
    EXPECT_EQ(outside.exit_code, 1);
    expect_said(text("'dp=2 tp=4' --on 'node:2(25GB/s) gpu:4'"),
                "\nno times where messages cross the link of a gpu: the cluster gives no bandwidth for it\n");
}

TEST(CheckSubcommand, GivesTheReportOnAClusterAsJson) {
    const auto json = json_check("'tp=4 dp=2' --over dp,tp --on 'node:2(25GB/s,5us) gpu:4'")["cluster"];
    EXPECT_EQ(json["right"], false);
    EXPECT_EQ(json["rules"][0],
              nlohmann::json::parse(R"({"axes":["tp"],"level":"node","default":true,)"
                                    R"("holds":false,"groups":2,"group_size":4,"unit_size":4,)"
                                    R"("divides":true,"straddling":2,"first":[0,2,4,6],)"
                                    R"("units":[0,0,1,1]})"));
    ASSERT_EQ(json["costs"].size(), 3U);
    EXPECT_EQ(json["costs"][2]["axes"], (std::vector<std::string>{"tp", "dp"}));
    EXPECT_EQ(json["costs"][0]["operations"]["shift"],
              nlohmann::json::parse(R"({"steps":1,"sent":67108864,"alone":{"seconds":null,"slowest":null,)"
                                    R"("links":{"node":67108864,"gpu":67108864}},"together":{"seconds":null,)"
                                    R"("slowest":null,"links":{"node":134217728,"gpu":67108864}}})"));
    EXPECT_EQ(json_check("'tp=4 dp=2'").contains("cluster"), false);
}

TEST(CheckSubcommand, SaysWhatRanksOutsideTheMeshHold) {
    const auto outcome = check("'dp=2 tp=2' --world 6");
    EXPECT_NE(outcome.output.find("dp=2 tp=2 · 4 ranks of 6\n"), std::string::npos) << outcome.output;
    EXPECT_NE(
        outcome.output.find("\neach rank has 2 communicators; the 2 ranks outside the mesh have none but "
                            "NCCL's\nof all ranks. join refuses a mesh that leaves ranks out, unless the "
                            "program sets\npartial (partial=True in Python)\n"),
        std::string::npos)
        << outcome.output;
    EXPECT_EQ(check("'dp=2 tp=2' --world 4").output.find("partial"), std::string::npos);
    const auto nccl = json_check("'dp=2 tp=2' --world 6")["engines"]["nccl"];
    EXPECT_EQ(nccl["communicators"], nlohmann::json::parse(R"({"most":3,"least":1})"));
    const auto placed = json_check("'a=2 b=2 @[3,1,5,0]'");
    EXPECT_EQ(placed["world"], 6);
    EXPECT_EQ(placed["communicators"], nlohmann::json::parse(R"({"most":2,"least":0})"));
}

TEST(CheckSubcommand, IsReadableOnANarrowTerminalAndHasNoColourInAPipe) {
    for (auto width : {40, 80}) {
        const auto outcome =
            check("'dp=300 tp=2' --world 601", 64, "export COLUMNS=" + std::to_string(width) + ";");
        auto lines = std::istringstream(outcome.output);
        for (auto line = std::string{}; std::getline(lines, line);) {
            EXPECT_LE(line.size(), static_cast<std::size_t>(width) + 1) << line;  // the dot has two bytes
            EXPECT_FALSE(line.ends_with(' ')) << line;
        }
        EXPECT_EQ(outcome.output.find('\033'), std::string::npos);
    }
}

TEST(CheckSubcommand, SimulatesTheJoinOfEveryRank) {
    const auto words = std::string("'pp=2 dp=* tp=2' --world 64 --simulate ");
    const auto shown = check(words, 20000, "export COLUMNS=1000;").output;
    EXPECT_NE(shown.find("join of 64 ranks simulated, at "), std::string::npos) << shown;
    EXPECT_NE(shown.find(": a rank agrees by at most 6 messages of 192 B in 12 rounds, and makes its groups "
                         "by at most 12 messages\n"),
              std::string::npos)
        << shown;
    EXPECT_NE(shown.find(" to 17 peers\n"), std::string::npos) << shown;

    const auto json = json_check(words)["simulated"];
    EXPECT_EQ(json["mpi"]["messages"], nlohmann::json::parse(R"({"most":6,"rank":0,"total":126})"));
    EXPECT_EQ(json["gloo"]["connections"], nlohmann::json::parse(R"({"most":17,"rank":0,"total":1088})"));
    EXPECT_FALSE(json_check("'dp=4'").contains("simulated"));

    // Links take their time twice in each message, and requests and connections are several messages.
    const auto near = json["costs"];
    const auto far = json_check(words + "--on 'node:8(25GB/s,5us) gpu:8(450GB/s,1us)'")["simulated"]["costs"];
    EXPECT_NEAR(far["message"].get<double>() - near["message"].get<double>(), 12e-6, 1e-9);
    EXPECT_NEAR(far["request"].get<double>() - near["request"].get<double>(), 24e-6, 1e-9);
    EXPECT_NEAR(far["connection"].get<double>() - near["connection"].get<double>(), 48e-6, 1e-9);

    EXPECT_EQ(check("dp=4 --simulate --engine nccl").output,
              "rankmesh: ranks on nccl join through the engine of their hosts; simulate that engine\n");
}

TEST(CheckSubcommand, ComparesPlannedVersions) {
    const auto words = std::string("'dp=4 tp=2' --engine nccl --versions ");
    const auto text = check(words + "nccl=2.31.2,torch=2.15").output;
    EXPECT_NE(text.find("\n\nknown fault: NCCL 2.31.2: if nodes have"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("\nnot tested with PyTorch 2.15 (tested: 2.11 to 2.14)\n")) << text;
    EXPECT_EQ(json_check(words + "nccl=2.31.2,torch=2.15")["versions"].size(), 2u);
    EXPECT_TRUE(check(words + "torch=2.12")
                    .output.ends_with("\n\nthe versions are tested, and have no known faults\n"));
    EXPECT_FALSE(json_check("'dp=4' --engine nccl").contains("versions"));
    EXPECT_EQ(check(words + "mccl=2").exit_code, 2);
}

TEST(CheckSubcommand, AWrongWordIsAUsageError) {
    const auto expect_misuse = [](const std::string& words, const std::string& text) {
        const auto outcome = check(words);
        EXPECT_EQ(outcome.exit_code, 2) << words;
        EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
    };
    expect_misuse("'dp=8 tp=2' --over dp,ttp", "mesh dp=8 tp=2 has no axis 'ttp'; did you mean 'tp'?");
    expect_misuse("'dp=8 tp=2' --axes ttp", "mesh dp=8 tp=2 has no axis 'ttp'; did you mean 'tp'?");
    expect_misuse("'dp=8 tp=2' --over dp,", "--over has an empty name; list axes such as dp,tp");
    expect_misuse("'dp=8' --world 4", "mesh dp=8 reaches rank 7, but --world says 4 ranks");
    expect_misuse("dp=8 --engine glo",
                  "--engine must be one of mpi, gloo and nccl, not 'glo'; did you mean 'gloo'?");
    expect_misuse("dp=8 --keep tp:node", "--keep requires a cluster; add --on CLUSTER");
    expect_misuse("dp=8 --bytes 1", "--bytes requires a cluster; add --on CLUSTER");
    expect_misuse("dp=8 --explain", "--explain requires a cluster; add --on CLUSTER");
    expect_misuse("dp=8 --on gpu:8 --keep dp:gpus", "cluster gpu:8 has no level 'gpus'; did you mean 'gpu'?");
    EXPECT_EQ(check("--over dp 'dp=8'").exit_code, 0) << "an option takes one word";
}

}  // namespace
}  // namespace rankmesh::tests
