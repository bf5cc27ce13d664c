// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include <rankmesh/cluster/cost.hpp>
#include <rankmesh/engine/mpi.hpp>

#include "../cli/link_fit.hpp"
#include "cli/rankmesh.hpp"
#include "support/content.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

/// The cluster in a file, behind its comments.
Cluster cluster_in(const std::string& path) {
    auto lines = std::istringstream(support::content_of(path));
    auto cluster = std::string{};
    for (auto line = std::string{}; std::getline(lines, line);)
        if (!line.starts_with('#')) cluster += line;
    return Cluster::parse(cluster);
}

}  // namespace

RC_GTEST_PROP(LinkFit, ExactTimesGiveTheirLatencyAndBandwidthInEachRound, ()) {
    const auto latency = *rc::gen::inRange(0, 1000) * 1e-7;
    const auto bandwidth = *rc::gen::inRange(1, 1000) * 1e8;
    const auto bytes = std::vector<double>{8, 4096, 65536, 4194304};
    auto rounds = std::vector<std::vector<double>>{};
    const auto count = *rc::gen::inRange<std::size_t>(1, 10);
    for (std::size_t round = 0; round < count; ++round) {
        rounds.emplace_back();
        for (const auto size : bytes) rounds.back().push_back(latency + size / bandwidth);
    }
    const auto fit = cli::fit_link(bytes, rounds);
    for (const auto found : {fit.latency.low, fit.latency.value, fit.latency.high})
        RC_ASSERT(std::abs(found - latency) <= 1e-6 * (latency + 8 / bandwidth));
    for (const auto found : {fit.bandwidth.low, fit.bandwidth.value, fit.bandwidth.high})
        RC_ASSERT(std::abs(found / bandwidth - 1) <= 1e-6);
}

TEST(LinkFit, TheMedianRoundIsTheValueAndTheOthersTheInterval) {
    const auto bytes = std::vector<double>{1, 1e6};
    const auto fit = cli::fit_link(bytes, {{2e-6, 1e-3}, {9e-6, 1e-3}, {3e-6, 1e-3}});
    EXPECT_NEAR(fit.latency.low, 2e-6, 1e-8);
    EXPECT_NEAR(fit.latency.value, 3e-6, 1e-8);
    EXPECT_NEAR(fit.latency.high, 9e-6, 1e-8);
}

TEST(LinkFit, TimesThatDoNotRiseGiveNumbersThatAClusterCanHave) {
    const auto fit = cli::fit_link(std::vector<double>{8, 4096}, {{1e-5, 1e-5}, {2e-5, 1e-5}});
    for (const auto& estimate : {fit.bandwidth, fit.latency})
        for (const auto value : {estimate.low, estimate.value, estimate.high})
            EXPECT_TRUE(std::isfinite(value));
    EXPECT_NO_THROW(Cluster(
        {{.name = "gpu", .count = 2, .bandwidth = fit.bandwidth.high, .latency = fit.latency.value}}));
}

TEST(Calibrate, WritesAClusterWhoseLinksPredictWhatTheModelKnows) {
    const auto folder = support::Folder{};
    const auto file = folder.path() + "/machines";
    for (const auto* given :
         {"", "--on 'node:2 gpu:2'", "--on 'rack[a]:3 rack[b]:1 node gpu:1'", "--on 'rack:1 node:2 gpu:2'"}) {
        const auto json = json_of("run 'dp=2 tp=2' --bytes 4096 --json --calibrate " + file + " " + given);
        const auto cluster = cluster_in(file);
        EXPECT_EQ(json["cluster"], to_string(cluster)) << given;
        EXPECT_EQ(json["cluster"], json_of("cluster '@" + file + "' --json")["cluster"]) << given;
        ASSERT_EQ(cluster.size(), 4) << given;
        ASSERT_EQ(json["links"].size(), cluster.levels().size());
        for (int level = 0; level < cluster.level_count(); ++level) {
            const auto& link = json["links"][static_cast<std::size_t>(level)];
            const auto& [name, count, bandwidth, latency, units] =
                cluster.levels()[static_cast<std::size_t>(level)];
            EXPECT_EQ(link["level"], name);
            // Of the units of a level some have a common parent, unless each is the only one in it.
            const auto alone = cluster.unit_count(level) == (level == 0 ? 1 : cluster.unit_count(level - 1));
            EXPECT_EQ(bandwidth.has_value(), !alone) << given << " " << name;
            EXPECT_EQ(latency.has_value(), !alone);
            EXPECT_EQ(link["bandwidth"].is_null(), alone);
            if (alone) continue;
            for (const auto* of : {"bandwidth", "latency"}) {
                EXPECT_LE(link[of]["low"], link[of]["value"]);
                EXPECT_LE(link[of]["value"], link[of]["high"]);
            }
            EXPECT_NEAR(*bandwidth / link["bandwidth"]["value"].get<double>(), 1, 0.005);  // three digits
        }
        const auto mesh = Mesh{{"dp", 2}, {"tp", 2}};
        auto predicted = 0;
        for (const auto& row : json["rows"]) {
            const auto operation = row["operation"].get<std::string>();
            for (const auto collective : collectives) {
                if (operation.substr(0, operation.find(' ')) != to_string(collective)) continue;
                const auto axes = row["axes"] == "dp"   ? mesh.axes("dp")
                                  : row["axes"] == "tp" ? mesh.axes("tp")
                                                        : mesh.axes("dp", "tp");
                const auto seconds = Traffic(cluster, mesh, axes).cost(collective, row["bytes"]).seconds;
                ASSERT_EQ(row.contains("predicted"), seconds.has_value()) << given << row;
                if (seconds) {
                    EXPECT_DOUBLE_EQ(row["predicted"], *seconds);
                }
                ++predicted;
            }
        }
        EXPECT_GE(predicted, 5) << given;
    }
}

TEST(Calibrate, WithoutItTheGivenMachinesPredict) {
    const auto json = json_of("run 'dp=2' --bytes 64 --json --on 'gpu:2(1GB/s,1us)'");
    for (const auto& row : json["rows"])
        if (row["operation"] == "shift") {
            EXPECT_NEAR(row["predicted"], 1e-6 + 64e-9, 1e-12);
        }
    EXPECT_FALSE(json.contains("links"));
    const auto table = rankmesh("run 'dp=2' --bytes 64 --on 'gpu:2(1GB/s,1us)'").output;
    EXPECT_NE(table.find("  predicted   error"), std::string::npos) << table;
    EXPECT_EQ(rankmesh("run 'dp=2' --bytes 64").output.find("predicted"), std::string::npos);
}

TEST(Calibrate, WhatCannotBeMeasuredIsSaidAndNothingIsWritten) {
    const auto folder = support::Folder{};
    const auto file = folder.path() + "/machines";
    const auto refused = [&](const std::string& words) {
        const auto outcome =
            rankmesh("run 'dp=2 tp=2' --bytes 8 --calibrate " + file + " " + words + " 2>&1");
        EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
        EXPECT_FALSE(std::filesystem::exists(file));
        return outcome.output;
    };
    EXPECT_EQ(refused("--on 'node:2 gpu:4'"),
              "rankmesh: --calibrate measures 4 ranks on threads, but cluster node:2 gpu:4 has 8 devices; "
              "give the cluster of this job\n");
    EXPECT_EQ(refused("--device nccl"),
              "rankmesh: --calibrate measures messages between buffers on the host; remove --device\n");
    const auto outcome = rankmesh("run 'dp=2' --bytes 8 --calibrate " + folder.path() + "/no/such/file 2>&1");
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.output.find("/no/such/file"), std::string::npos) << outcome.output;
}

TEST(Calibrate, HostsAreTheLevelsAndTheirRanksMustFollowOneAnother) {
    if (!mpi::is_built()) GTEST_SKIP() << "built without MPI";
    const auto folder = support::Folder{};
    const auto file = folder.path() + "/machines";
    const auto on_hosts = [&](const std::string& host) {
        return support::run(clean +
                            "export " RANKMESH_ENVIRONMENT "; timeout -k 5 60 " RANKMESH_MPIRUN
                            " -n 4 " RANKMESH_MPIEXEC_FLAGS " sh -c 'RANKMESH_HOST=" +
                            host + " exec " RANKMESH_COMMAND " run dp=4 --bytes 8 --calibrate " + file +
                            "' 2>&1");
    };
    const auto rank = std::string("${OMPI_COMM_WORLD_RANK:-$PMI_RANK}");
    const auto scattered = on_hosts("h$((" + rank + " % 2))");
    EXPECT_EQ(scattered.exit_code, 2);
    EXPECT_EQ(scattered.output.find("left by an exception"), std::string::npos) << scattered.output;
    EXPECT_NE(scattered.output.find("rank 2 runs on host 'h0' like an earlier rank, but rank 1 runs on 'h1'; "
                                    "start the ranks of each host one after the other"),
              std::string::npos)
        << scattered.output;
    EXPECT_FALSE(std::filesystem::exists(file));
    const auto in_a_row = on_hosts("h$((" + rank + " / 3))");
    EXPECT_EQ(in_a_row.exit_code, 0) << in_a_row.output;
    const auto cluster = cluster_in(file);
    EXPECT_EQ(cluster.unit_name(0, 0), "h0");
    EXPECT_EQ(cluster.unit_size(0, 0), 3);
    EXPECT_EQ(cluster.unit_size(1, 0), 1);
    EXPECT_TRUE(cluster.levels()[0].bandwidth && cluster.levels()[1].bandwidth);
}

TEST(RunSubcommand, ARankThatRunsElsewhereThanTheClusterSaysIsNamed) {
    if (!mpi::is_built()) GTEST_SKIP() << "built without MPI";
    const auto on_hosts = [&](const std::string& cluster) {
        return support::run(
            clean +
            "export " RANKMESH_ENVIRONMENT "; timeout -k 5 60 " RANKMESH_MPIRUN
            " -n 4 " RANKMESH_MPIEXEC_FLAGS
            " sh -c 'RANKMESH_HOST=h$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} / 3)) exec " RANKMESH_COMMAND
            " run dp=4 --bytes 8 --on \"" +
            cluster + "\"' 2>&1");
    };
    for (const auto* right :
         {"node[h0]:3 node[h1]:1", "node[h0-h1]:3", "gpu:4", "node:4 gpu:1", "rack:1 host[h0]:3 host[h1]:1"})
        EXPECT_EQ(on_hosts(right).exit_code, 0) << right << on_hosts(right).output;
    for (const auto& [wrong, text] :
         {std::pair{"node[h0-h1]:2",
                    "rank 2 runs on host 'h0', but cluster node[h0-h1]:2 has it on 'h1'; start the ranks in "
                    "the order of the cluster's devices"},
          {"node:2 gpu:2",
           "rank 3 runs on host 'h1', but cluster node:2 gpu:2 has it on node 1, 'h0', where rank 2 runs; "
           "start the ranks in the order of the cluster's devices"}}) {
        const auto outcome = on_hosts(wrong);
        EXPECT_EQ(outcome.exit_code, 1) << wrong;
        EXPECT_EQ(outcome.output.find("left by an exception"), std::string::npos) << outcome.output;
        EXPECT_NE(outcome.output.find(std::string("rankmesh: ") + text + "\n"), std::string::npos)
            << outcome.output;
    }
}

}  // namespace rankmesh::tests
