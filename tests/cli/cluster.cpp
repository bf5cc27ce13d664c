// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <rankmesh/cluster/cluster.hpp>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

const auto files = std::string(RANKMESH_SOURCE "/tests/cluster/files/");
// In which nothing says what the machines are.
const auto nowhere = std::string(
    "unset SLURM_JOB_NODELIST SLURM_NODELIST SLURM_STEP_NODELIST SLURM_TASKS_PER_NODE "
    "SLURM_STEP_TASKS_PER_NODE SLURM_GPUS_ON_NODE SLURM_DISTRIBUTION LSB_HOSTS LSB_MCPU_HOSTS "
    "PBS_NODEFILE; "
    "export LD_LIBRARY_PATH='" RANKMESH_FAKE_NVML "'; ");

TEST(ClusterSubcommand, SaysTheLevelsWithWhatEachUnitHolds) {
    EXPECT_EQ(rankmesh("cluster 'rack[r1]:2 rack[r2]:1 node[a1,a2,b1]:8(50GB/s,5us) gpu(450GB/s)'").output,
              "rack[r1]:2 rack[r2]:1 node[a1-a2,b1]:8(50GB/s,5us) gpu(450GB/s)\n\n"
              "level  units  per parent  devices per unit  uplink\n"
              "rack       2           2             8..16  -\n"
              "node       3        1..2                 8  50GB/s,5us\n"
              "gpu       24           8                 1  450GB/s\n");
    EXPECT_EQ(rankmesh("cluster 'node:268435455 gpu:8'").exit_code, 0);  // at once
}

TEST(ClusterSubcommand, JsonSaysTheSameAsTheLibrary) {
    for (const auto* text :
         {"gpu:8", "rack:4 node:8(25GB/s,5us) gpu:8", "node[a1-a3]:8 node[b1]:4 gpu(450GB/s)",
          "rack[r1]:1 rack[r2]:3 node gpu:2", "rack[r1]:2 rack[r2]:1 node[a,b,c]:1 row gpu:3"}) {
        const auto cluster = Cluster::parse(text);
        const auto json = json_of("cluster '" + std::string(text) + "' --json");
        EXPECT_EQ(json["cluster"], text);
        EXPECT_EQ(json["devices"], cluster.size());
        EXPECT_EQ(json["even"], cluster.is_even());
        EXPECT_TRUE(json["seen_by"].is_null());
        ASSERT_EQ(json["levels"].size(), cluster.levels().size());
        for (int i = 0; i < cluster.level_count(); ++i) {
            const auto& level = cluster.levels()[static_cast<std::size_t>(i)];
            const auto& said = json["levels"][static_cast<std::size_t>(i)];
            EXPECT_EQ(said["name"], level.name);
            EXPECT_EQ(said["units"], cluster.unit_count(i));
            EXPECT_EQ(said["count"][1], level.count);
            auto devices = std::vector{cluster.unit_size(0, i), cluster.unit_size(0, i)};
            for (int unit = 0; unit < cluster.unit_count(i); ++unit) {
                devices[0] = std::min(devices[0], cluster.unit_size(unit, i));
                devices[1] = std::max(devices[1], cluster.unit_size(unit, i));
            }
            EXPECT_EQ(said["devices"], devices) << text << " " << level.name;
            EXPECT_EQ(said["bandwidth"].is_null(), !level.bandwidth);
            EXPECT_EQ(said["names"].is_null(), level.units.empty());
            EXPECT_EQ(said["names"].size(), level.units.size());
        }
    }
}

TEST(ClusterSubcommand, AFileStandsWhereverACommandTakesACluster) {
    const auto hosts = files + "openmpi.hosts";
    EXPECT_EQ(json_of("cluster '" + hosts + "' --json")["cluster"], "node[a[01-02].cluster]:8 node[b01]:4");
    EXPECT_EQ(json_of("cluster --from hostfile '" + hosts + "' --json")["devices"], 20);
    EXPECT_EQ(json_of("show dp=20 --json --on '" + hosts + "'")["boxes"]["2"], "b01");
    EXPECT_EQ(json_of("rank dp=20 17 --json --on '@" + hosts + "'")["host"],
              nlohmann::json::parse(R"({"node": 2, "device": 1})"));
    EXPECT_EQ(json_of("rank dp=20 17 --json --on '@" + hosts + "'")["host_name"], "b01");
    const auto as = json_of("rank 'pp=2 dp=5 tp=2' 17 --json --as megatron2022 --on '" + hosts + "'");
    EXPECT_EQ(as["host_name"], "b01");
    EXPECT_NE(rankmesh("rank dp=20 17 --on '" + hosts + "'").output.find("  host  node=2 device=1 (b01)\n"),
              std::string::npos);
    EXPECT_FALSE(json_of("rank dp=20 17 --json --on 'node:3 gpu:8'").contains("host_name"));
    EXPECT_EQ(json_of("rank dp=20 17 --json --on '@" + files + "plain.hosts gpu:8'")["host"],
              nlohmann::json::parse(R"({"node": 2, "gpu": 1})"));
    EXPECT_NE(rankmesh("check dp=20 --on '" + hosts + "'").exit_code, 2);
    EXPECT_EQ(json_of("cluster - --json < '" + hosts + "'")["devices"], 20);
    const auto wrong = rankmesh("cluster --from rankfile '" + hosts + "'");
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_EQ(wrong.output,
              "rankmesh: " + hosts +
                  ":2: 'a01.cluster slots=8 max_slots=8' is not a line such as 'rank 0=a1 slot=0'\n");
}

TEST(ClusterSubcommand, WithoutAnArgumentSaysWhatIsSeenHere) {
    const auto seen = [](const std::string& environment) {
        const auto json = json_of("cluster --json", nowhere + environment);
        return std::pair(json["cluster"].get<std::string>(), json["seen_by"].get<std::string>());
    };
    using Pair = std::pair<std::string, std::string>;
    EXPECT_EQ(seen("SLURM_JOB_NODELIST=a[1-3] SLURM_TASKS_PER_NODE='8(x2),4'"),
              Pair("node[a1-a2]:8 node[a3]:4", "SLURM_JOB_NODELIST"));
    EXPECT_EQ(seen("LSB_MCPU_HOSTS='a1 2 b1 1'"), Pair("node[a1]:2 node[b1]:1", "LSB_MCPU_HOSTS"));
    EXPECT_EQ(seen("PBS_NODEFILE=" + files + "pbs.nodefile"),
              Pair("node[a1-a2]:2 node[b1]:3", "PBS_NODEFILE"));
    EXPECT_EQ(seen("FAKE_GPUS=8"), Pair("numa:2 gpu:4", "NVML"));
    EXPECT_EQ(seen("FAKE_GPUS=8 FAKE_NVLINK=1"), Pair("gpu:8", "NVML"));
    EXPECT_EQ(rankmesh("cluster", nowhere + "FAKE_GPUS=2 FAKE_NVLINK=1").output,
              "gpu:2\n\nlevel  units  per parent  devices per unit  uplink\n"
              "gpu        2           2                 1  -\n\ndetected by NVML\n");
    const auto cores = "HWLOC_SYNTHETIC='package:2 core:4 pu:2'";
    if (RANKMESH_HAS_HWLOC) {
        EXPECT_EQ(seen(cores), Pair("package:2 core:4", "hwloc"));
        EXPECT_GT(json_of("cluster --json", nowhere)["devices"], 0);
    } else {
        EXPECT_EQ(rankmesh("cluster", nowhere + cores).output,
                  "rankmesh: the machines cannot be detected here: there is no Slurm job and no NVIDIA "
                  "driver, and this build has no hwloc; give CLUSTER, such as 'node:32 gpu:8'\n");
    }
    EXPECT_EQ(rankmesh("cluster --from toml", nowhere).output,
              "rankmesh: --from requires a file, but CLUSTER is missing; see rankmesh cluster --help\n");
}

}  // namespace
}  // namespace rankmesh::tests
