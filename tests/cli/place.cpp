// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>

#include <rankmesh/cluster/place.hpp>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

support::Outcome place(const std::string& words) { return rankmesh("place " + words); }

const std::string small = "--on 'node[a,b]:2(25GB/s,5us) gpu(450GB/s,2us)' ";

TEST(PlaceSubcommand, Output_FoldsToTheTerminal) {
    const auto text = rankmesh("place 'tp=2 dp=2' " + small, "export COLUMNS=60;").output;
    EXPECT_EQ(wider_than(60, text), std::vector<std::string>{}) << text;
    EXPECT_NE(text.find(" fast\n  as the given order; no placement is better\n"), std::string::npos) << text;
}

TEST(PlaceSubcommand, PrintsTheOrderAndWhatIsGained) {
    const auto outcome = place("'tp=2 dp=2' --bytes 1000000 " + small);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(
        outcome.output,
        "tp=2:1 dp=2:2\n"
        "\n"
        "axes           operation   weight    given   placed\n"
        "tp             all_reduce     100  90.0 us   6.2 us\n"
        "dp             all_reduce      10   6.2 us  90.0 us\n"
        "sum by weight                      9.06 ms  1.52 ms\n"
        "\n"
        "1000000 B of each rank, all groups at once: 5.95 times as fast as the given order; no placement "
        "is better\n");
    EXPECT_EQ(place("'tp=2 dp=2' --weights dp=1e3 --as mesh 2>/dev/null " + small).output, "tp=2 dp=2\n");
    const auto right = place("'dp=2 tp=2' " + small);
    EXPECT_TRUE(right.output.starts_with("dp=2 tp=2\n"));
    EXPECT_NE(right.output.find("nothing found that beats the given order"), std::string::npos);
}

TEST(PlaceSubcommand, SaysWhatCheckWouldRefuse) {
    const auto on = [](int nodes, const std::string& form) {
        return place("'tp=8 dp=8 pp=2' --on 'node[a1-a" + std::to_string(nodes) +
                     "](400GB/s,5us) gpu:8(450GB/s,2us)'" + form)
            .output;
    };
    const auto refusal =
        "rankmesh check refuses this placement:\n"
        "NO tp in one node (the default): 16 of 16 groups of 8 ranks reach further; the\n"
        "   first has rank 0 in a1, rank 128 in a17\n";
    for (const auto* form : {"", " --as mesh", " --as json", " --json", " --as hostfile"}) {
        EXPECT_TRUE(on(32, form).ends_with(refusal)) << on(32, form);
        EXPECT_EQ(on(32, std::string(form) + " 2>/dev/null").find("refuses"), std::string::npos);
        EXPECT_EQ(on(16, form).find("refuses"), std::string::npos) << on(16, form);
    }
}

TEST(PlaceSubcommand, PrintsStridesWhereATableSaysTheSame) {
    EXPECT_EQ(
        place("'tp=4 dp=3' --as mesh --on 'switch[s1]:2(100GB/s) switch[s2]:1 node[n1-n3]:4(50GB/s,5us) "
              "gpu(450GB/s,2us)'")
            .output,
        "tp=4:1 dp=3:4\n");
}

TEST(PlaceSubcommand, SaysTheSameInJson) {
    const auto json = json_of("place 'tp=2 dp=2' --json " + small);
    const auto placed =
        rankmesh::place(Cluster::parse("node[a,b]:2(25GB/s,5us) gpu(450GB/s,2us)"), Mesh::parse("tp=2 dp=2"));
    EXPECT_EQ(json["order"], "tp=2:1 dp=2:2");
    EXPECT_EQ(json["search"], "all");
    EXPECT_EQ(json["before"], placed.before);
    EXPECT_EQ(json["after"], placed.after);
    EXPECT_EQ(json["axes"][0]["axis"], "tp");
    EXPECT_EQ(json["axes"][0]["operation"], "all_reduce");
    EXPECT_EQ(json["axes"][0]["before"], placed.axes.at(0).before);
    EXPECT_EQ(json["axes"][1]["after"], placed.axes.at(1).after);
}

TEST(PlaceSubcommand, TellsLaunchersWhereEachRankRuns) {
    // Positions 0 and 2 are one group along tp, so they share a node.
    EXPECT_EQ(place("'tp=2 dp=2' --as rankfile " + small).output,
              "rank 0=a slot=0\nrank 1=b slot=0\nrank 2=a slot=1\nrank 3=b slot=1\n");
    EXPECT_EQ(place("'tp=2 dp=2' --as hostfile " + small).output, "a\nb\na\nb\n");
    EXPECT_EQ(place("'tp=2 dp=2' --as json " + small).output, "[0,2,1,3]\n");
    EXPECT_EQ(place("'dp=2 tp=2' --as torchrun " + small).output, "a\nb\n");
    EXPECT_EQ(
        place("'dp=2 tp=2' --as kubernetes " + small).output,
        "# The rank of each node. In the pods of an indexed job, mount this at /order, set NODE_NAME to the "
        "field\n# spec.nodeName, and start torchrun --node-rank $(cat /order/$NODE_NAME).\napiVersion: "
        "v1\nkind: ConfigMap\nmetadata:\n  name: node-ranks\ndata:\n  \"a\": \"0\"\n  \"b\": \"1\"\n");
    // The ranks of a mesh with strides are those that the program has.
    EXPECT_EQ(place("'dp=2:1 tp=2:2' --as json " + small).output, "[0,2,1,3]\n");
    EXPECT_EQ(place("'tp=2:1 dp=2:2' --as json " + small).output, "[0,1,2,3]\n");
    EXPECT_EQ(place("'tp=2 dp=2 @[0,2,1,3]' --as json " + small).output, "[0,1,2,3]\n");
}

TEST(PlaceSubcommand, SaysWhatALauncherCannotDo) {
    const auto outcome = place("'tp=2 dp=2' --as torchrun " + small);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(
        outcome.output,
        "rankmesh: torchrun gives each node consecutive ranks, but here rank 1 is on b, between ranks of "
        "a; declare the mesh that --as mesh prints, or use --as rankfile or hostfile\n");
    const auto uneven = place("'dp=3' --as torchrun " + small);
    EXPECT_EQ(uneven.exit_code, 1);
    EXPECT_EQ(uneven.output,
              "rankmesh: torchrun starts the same number of ranks on each node, but a should run 2 and b 1; "
              "use --as "
              "rankfile or hostfile\n");
}

TEST(PlaceSubcommand, AWrongWordIsAUsageError) {
    const auto expect_misuse = [](const std::string& words, const std::string& text) {
        const auto outcome = place(words);
        EXPECT_EQ(outcome.exit_code, 2) << words;
        EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
    };
    expect_misuse("'dp=2'", "place requires a cluster; add --on CLUSTER");
    expect_misuse(
        "'dp=2' --as rankfil " + small,
        "--as must be one of mesh, rankfile, hostfile, torchrun, kubernetes and json, not 'rankfil'; did you "
        "mean 'rankfile'?");
    expect_misuse("'dp=2' --as mesh --json " + small,
                  "--json and --as mesh are two different outputs; give only one");
    expect_misuse("'dp=2' --weights dp " + small,
                  "--weights has 'dp'; each entry must be an axis and a number, such as tp=100");
    expect_misuse("'dp=2' --weights dp=x " + small,
                  "--weights has 'dp=x'; each entry must be an axis and a number, such as tp=100");
    expect_misuse("'dp=2' --weights tp=1 " + small, "mesh dp=2 has no axis 'tp'; did you mean 'dp'?");
    expect_misuse("'dp=2' --weights dp=-1 " + small,
                  "axis 'dp' has weight -1.000000; weights are numbers of 0 or more");
    expect_misuse("'dp=2' --as hostfile --on 'node:2(1GB/s) gpu:2(2GB/s)'",
                  "--as hostfile requires host names, but the cluster has only the number of units of "
                  "level 'node'; give their "
                  "names, as in node[a01-a08]:8");
    expect_misuse(
        "'dp=2 @1' --as json " + small,
        "the mesh leaves ranks out, so their devices are unknown; place a mesh of the ranks 0, 1, 2, ...");
}

}  // namespace
}  // namespace rankmesh::tests
