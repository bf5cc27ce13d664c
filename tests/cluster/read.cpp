// SPDX-License-Identifier: Apache-2.0
#include <cluster/read/read.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "support/clean.hpp"
#include "support/content.hpp"
#include "support/processes.hpp"
#include "support/text_of.hpp"

namespace rankmesh::cluster_files {
namespace {

const auto files = std::string(RANKMESH_SOURCE "/tests/cluster/files/");

struct Case {
    const char* file;
    const char* format;
    const char* inside;
    const char* cluster;
    bool is_xml = false;
};

const Case cases[] = {
    {"topology-tree.conf", "slurm", "gpu:8(450GB/s)",
     "switch2[t0-t1]:2 switch[s0-s1]:6 switch[s2]:5 switch[s3]:6 node[dev0-dev16,dev18-dev23]:8 "
     "gpu(450GB/s)"},
    {"topology-block.conf", "slurm", "gpu:4",
     "block36[0]:2 block36[1]:1 block[b1-b3]:18 node[n001-n054]:4 gpu"},
    {"slurm-show-topology.txt", "slurm", "gpu:8",
     "switch[s1]:2 switch[s2]:3 switch[s3]:2 node[a1-a4,b001-b002,login]:8 gpu"},
    {"slurm-show-block.txt", "slurm", "gpu:4", "block36[0-1]:2 block[b1-b4]:18 node[n01-n72]:4 gpu"},
    {"slurm-spines.conf", "slurm", "gpu:8",
     "switch2[spine1,spine3]:2 switch[leaf1-leaf4]:4 node[a1-a8,b1-b8]:8 gpu"},
    {"slurm-topology.yaml", "slurm-yaml", "gpu:8", "switch[s1-s2]:2 node[node01-node04]:8 gpu"},
    {"slurm.conf", "slurm-nodes", "", "node[a1-a4]:8 node[b001-b002]:4"},
    {"slurm-show-node.txt", "slurm-nodes", "", "node[a1]:8 node[b001]:4"},
    {"slurm-sinfo.txt", "slurm-nodes", "", "node[a1-a4]:8 node[b001-b002]:4"},
    {"lsf-job.env", "lsf-env", "", "node[a1]:2 node[b1]:1"},
    {"pbs.nodefile", "hostfile", "", "node[a1-a2]:2 node[b1]:3"},
    {"nodelist.hosts", "hostfile", "gpu:8", "node[gpu001-gpu003,gpu007,b1c1-b1c2,b2c1-b2c2]:8 gpu"},
    {"placed.rankfile", "rankfile", "", "node[a01-a02]:2"},
    {"flux-R.json", "flux", "", "node[fluke0]:4 node[fluke1]:2 node[fluke2,corona5]:4"},
    {"kubernetes-nodes.json", "kubernetes", "",
     "zone[z1]:1 zone[z2]:2 nvlink[7b968a6d-c8aa-45e1-9e07-e1e51be99c31.[1-3]]:2 "
     "node[gpu-[01-03],gpu-05,gpu-04]:8 node[gpu-06]:4"},
    {"rocm-smi.txt", "amd-smi", "", "xgmi:2 gpu:2"},
    {"amd-smi.txt", "amd-smi", "", "gpu:4"},
    {"amd-smi.json", "amd-smi", "", "xgmi:2 gpu:2"},
    {"slurm-sinfo-drained.txt", "slurm-nodes", "gpu:8", "node[gpu004-gpu008]:8 gpu"},
    {"nccl-cloud.xml", "nccl", "", "numa:2 gpu:2", true},
    {"slurm-job.env", "slurm-env", "", "node[a01-a03]:8 node[b07]:4"},
    {"openmpi.hosts", "hostfile", "", "node[a[01-02].cluster]:8 node[b01]:4"},
    {"mpich.hosts", "hostfile", "", "node[a01-a02]:8 node[b01]:4"},
    {"plain.hosts", "hostfile", "socket:2 gpu:4", "node[a01-a03]:2 socket gpu:4"},
    {"openmpi.rankfile", "rankfile", "", "node[aa]:2 node[bb]:1"},
    {"nvidia-smi-nvswitch.txt", "nvidia-smi", "", "gpu:8"},
    {"nvidia-smi-pcie.txt", "nvidia-smi", "", "numa:2 pcie-switch:2 gpu:2"},
    {"cluster.toml", "toml", "",
     "rack[r1-r2]:2(25GB/s) node[a01-a03]:8(50GB/s,5us) node[b01]:4 gpu(450GB/s,2us)"},
    {"cluster.txt", "notation", "", "rack:4(25GB/s,5us) node:8(400GB/s) gpu:8"},
    {"hwloc-cores.xml", "hwloc", "", "package:2 core:4", true},
    {"hwloc-gpus.xml", "hwloc", "", "package[0]:4 package[1]:3 gpu", true},
    {"hwloc-numa.xml", "hwloc", "", "package:2 numa:2 core:3", true},
    {"nccl-hosts.xml", "nccl", "", "node:2 numa:2 gpu:2", true},
    {"nccl.xml", "nccl", "", "numa:2 gpu:4", true},
};

TEST(ClusterFiles, AFileOfEachKindIsFoundByItsContentAndByItsName) {
    for (const auto& [file, format, inside, cluster, is_xml] : cases) {
        if (is_xml && !RANKMESH_HAS_XML) {
            EXPECT_EQ(text_of([&] { read_file(files + file); }),
                      files + file +
                          ": is XML, which this build cannot read; build with -DRANKMESH_XML=ON and pugixml");
            continue;
        }
        EXPECT_EQ(to_string(read_file(files + file, "", inside)), cluster) << file;
        EXPECT_EQ(to_string(read_file(files + file, format, inside)), cluster) << file;
    }
}

TEST(ClusterFiles, WindowsLineEndsChangeNothing) {
    for (const auto& [file, format, inside, cluster, is_xml] : cases) {
        if (is_xml && !RANKMESH_HAS_XML) continue;
        auto text = std::string{};
        for (const auto c : support::content_of(files + file)) text += c == '\n' ? "\r\n" : std::string(1, c);
        EXPECT_EQ(to_string(read(text, file, "", inside)), cluster) << file;
    }
}

TEST(ClusterFiles, WhatACommandTakesIsTheNotationOrAFile) {
    EXPECT_EQ(to_string(read_argument("node:2 gpu:4")), "node:2 gpu:4");
    EXPECT_EQ(to_string(read_argument("@" + files + "plain.hosts gpu:8")), "node[a01-a03]:8 gpu");
    EXPECT_EQ(to_string(read_argument(files + "mpich.hosts")), "node[a01-a02]:8 node[b01]:4");
    EXPECT_EQ(text_of([] { read_argument("gpu8"); }),
              "there is no file 'gpu8', and it is not a cluster such as 'node:32 gpu:8'");
    EXPECT_EQ(text_of([] { read_argument("gpu[001-003]"); }),
              "'gpu[001-003]' does not say how many devices a node has; add it, as in "
              "'node[gpu[001-003]]:8'");
    EXPECT_EQ(text_of([] { read_argument("@"); }),
              "the cluster '@' has '@' without a file name; write '@FILE LEVELS'");
    EXPECT_EQ(text_of([] { read_argument("no/such.toml"); }),
              "the file 'no/such.toml' cannot be read: No such file or directory");
    EXPECT_EQ(text_of([] { read_argument(files); }),
              "the file '" + files + "' cannot be read: Is a directory");
    EXPECT_EQ(text_of([] { read_argument("node:2 gpu:4", "slurm"); }),
              "--from slurm requires a file, but 'node:2 gpu:4' is not a file; give @FILE");
}

TEST(ClusterFiles, VariablesOfSlurm_WhenEachNodeHasOneTask_CountItsGpus) {
    const auto seen = [](const std::string& tasks, const std::string& more) {
        return to_string(read("SLURM_JOB_NODELIST=a[1-2]\nSLURM_TASKS_PER_NODE=" + tasks + "\n" + more, "f"));
    };
    EXPECT_EQ(seen("1(x2)", "SLURM_GPUS_ON_NODE=8\n"), "node[a1-a2]:8");
    EXPECT_EQ(seen("4(x2)", "SLURM_GPUS_ON_NODE=8\n"), "node[a1-a2]:4");
    EXPECT_EQ(seen("1(x2)", ""), "node[a1-a2]:1");
    EXPECT_EQ(seen("1(x2)", "SLURM_GPUS_ON_NODE=0\n"), "node[a1-a2]:1");
    EXPECT_EQ(seen("4(x2)", "SLURM_DISTRIBUTION=plane\nSLURM_DIST_PLANESIZE=4\n"), "node[a1-a2]:4");
    for (const auto* other : {"cyclic", "plane", "plane\nSLURM_DIST_PLANESIZE=2", "arbitrary"})
        EXPECT_THROW(seen("4(x2)", std::string("SLURM_DISTRIBUTION=") + other + "\n"), UsageError) << other;
    EXPECT_EQ(seen("4(x2)", "SLURM_DISTRIBUTION=block:cyclic\n"), "node[a1-a2]:4");
    EXPECT_EQ(seen("1(x2)", "SLURM_DISTRIBUTION=cyclic\n"), "node[a1-a2]:1");
}

TEST(ClusterFiles, VariablesOfSalloc_WhichHasNoGpusOnNode_CountThoseOfEachNode) {
    const auto salloc = std::string("SLURM_JOB_NODELIST=a[1-2],b3\nSLURM_JOB_CPUS_PER_NODE=64(x3)\n");
    EXPECT_EQ(to_string(read(salloc + "SLURM_TASKS_PER_NODE=4(x2),3\n", "f")), "node[a1-a2]:4 node[b3]:3");
    EXPECT_EQ(to_string(read(salloc + "SLURM_TASKS_PER_NODE=1(x3)\nSLURM_GPUS_PER_NODE=h100:8\n", "f")),
              "node[a1-a2,b3]:8");
    EXPECT_EQ(to_string(read(salloc, "f", "", "gpu:8")), "node[a1-a2,b3]:8 gpu");
}

// slurmctld 22.05 reads these lists so.
TEST(ClusterFiles, ListsOfNamesAreThoseOfSlurm) {
    const auto names = [](const std::string& list) {
        return to_string(read(list + "\n", "f", "hostfile", "x:1"));
    };
    EXPECT_EQ(names("a[001-3]"), "node[a001-a003]:1 x");
    EXPECT_EQ(names("a[8-11]"), "node[a8-a11]:1 x");
    EXPECT_EQ(names("a[08-9]"), "node[a08-a09]:1 x");
    EXPECT_EQ(names("a[1-2,10],a[003-4]"), "node[a1-a2,a10,a003-a004]:1 x");
    EXPECT_EQ(names("a[1-2][3-4]"), "node[a13-a14,a23-a24]:1 x");
}

// Open MPI 4.1 allocates so, and refuses slots after the first line of a host.
TEST(ClusterFiles, AHostThatIsRepeatedHasASlotForEachLine) {
    EXPECT_EQ(to_string(read("a1\na2\na1\n", "f")), "node[a1]:2 node[a2]:1");
    EXPECT_EQ(to_string(read("a1 slots=2\na1\n", "f")), "node[a1]:3");
    EXPECT_THROW(read("a1\na1 slots=2\n", "f"), UsageError);
}

TEST(ClusterFiles, WhatPeopleHaveInstead_IsNamedWithWhatWouldWork) {
    const struct {
        const char* text;
        const char* why;
    } others[] = {
        {"NAME    STATUS   ROLES    AGE   VERSION\ngpu-1   Ready    <none>   12d   v1.31.2\n",
         "is a table of kubectl get nodes, which does not describe the machines; give the output of "
         "kubectl get nodes -o json"},
        {"apiVersion: v1\nitems:\n- kind: Node\n", "kubectl get nodes -o json"},
        {"Name:               gpu-1\nRoles:              <none>\n", "kubectl get nodes -o json"},
        {"   JOBID PARTITION     NAME     USER ST  TIME  NODES NODELIST(REASON)\n 12 gpu t a R 1:02 2 "
         "gpu[1-2]\n",
         "scontrol show hostnames in the job"},
        {"JobId=123 JobName=train\n   NodeList=gpu[001-002]\n", "scontrol show hostnames in the job"},
        {R"({"sinfo":[{"nodes":{"nodes":["gpu001"]}}]})", "sinfo -o '%P %N %G %t'"},
        {"HOST_NAME          STATUS       JL/U    MAX\na1  ok  -  42\n", "env in the job"},
        {"Job id            Name             User\n12.pbs train a\n", "cat $PBS_NODEFILE in the job"},
        {"node1\n     Mom = node1\n     ntype = PBS\n", "cat $PBS_NODEFILE in the job"},
        {"    exec_host = node1/0*8+node2/0*8\n", "cat $PBS_NODEFILE in the job"},
        {"node1 8 all.q@node1 UNDEFINED\n", "awk '{print $1 \":\" $2}' $PE_HOSTFILE"},
        {"Architecture:        x86_64\nCPU op-mode(s):      32-bit, 64-bit\n", "lstopo --of xml"},
        {"Machine (2015GB total)\n  Package L#0\n", "lstopo --of xml"},
        {"available: 2 nodes (0-1)\nnode distances:\n", "lstopo --of xml"},
        {"| NVIDIA-SMI 565.57.01   Driver Version: 565.57.01 |\n", "nvidia-smi topo -m"},
        {"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0000)\n", "nvidia-smi topo -m"},
        {"\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n\n  OK   = Status Ok\n", "nvidia-smi topo -m"},
        {"============== ROCm System Management Interface ==============\n====== Concise Info ======\n",
         "rocm-smi --showtopo"},
    };
    for (const auto& [text, why] : others) try {
            ADD_FAILURE() << to_string(read(text, "f", "", "gpu:8"));
        } catch (const UsageError& error) {
            EXPECT_TRUE(std::string_view(error.what()).starts_with("f: is ")) << error.what();
            EXPECT_TRUE(std::string_view(error.what()).ends_with(why)) << error.what();
        }
}

TEST(ClusterFiles, HostfilesAreReadAsTheirLaunchersReadThem) {
    EXPECT_EQ(to_string(read("a1 slots = 8\na2 slots =8 max-slots= 8\n", "f")), "node[a1-a2]:8");
    EXPECT_EQ(to_string(read("a1:8 binding=user:0,1\na2:8\n", "f")), "node[a1-a2]:8");
    // Drivers before 384 print SOC for what is SYS now.
    EXPECT_EQ(to_string(read("\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tPIX\tSOC\tSOC\nGPU1\tPIX\t X \tSOC\tSOC\n"
                             "GPU2\tSOC\tSOC\t X \tPIX\nGPU3\tSOC\tSOC\tPIX\t X \n",
                             "f")),
              "pcie-switch:2 gpu:2");
}

TEST(ClusterFiles, LabelsOfOracle_AreLevels) {
    auto items = std::string{};
    for (int node = 0; node < 4; ++node)
        items += std::string(node > 0 ? "," : "") + R"({"kind": "Node", "metadata": {"name": "n)" +
                 std::to_string(node) + R"(", "labels": {"oci.oraclecloud.com/rdma.network_block_id": "b)" +
                 std::to_string(node / 2) + R"("}}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}})";
    EXPECT_EQ(to_string(read(R"({"kind": "List", "items": [)" + items + "]}", "f")),
              "block[b0-b1]:2 node[n0-n3]:8");
}

TEST(ClusterFiles, AByteOrderMarkIsLeftOut) {
    const auto folder = support::Folder();
    const auto path = folder.path() + "/hosts";
    std::ofstream(path) << "\xEF\xBB\xBF"
                        << "a1 slots=2\n";
    EXPECT_EQ(to_string(read_file(path)), "node[a1]:2");
}

TEST(ClusterFiles, FifteenLevelsOfSwitchesAreTooMany_InAnyOrder) {
    for (const auto levels : {14, 15}) {
        auto lines = std::vector<std::string>{"SwitchName=s0 Nodes=n0", "SwitchName=t0 Nodes=n1"};
        for (int i = 1; i < levels; ++i)
            for (const auto* name : {"s", "t"})
                lines.push_back("SwitchName=" + (name + std::to_string(i)) +
                                " Switches=" + (name + std::to_string(i - 1)));
        auto text = std::string{};
        auto reversed = std::string{};
        for (const auto& line : lines) text += line + "\n";
        for (const auto& line : lines) reversed.insert(0, line + "\n");
        for (const auto& one : {text, reversed})
            if (levels == 14)
                EXPECT_EQ(read(one, "f", "", "gpu:8").size(), 16);
            else
                EXPECT_EQ(text_of([&] { read(one, "f"); }),
                          "f: has more than 14 levels of switches, the limit");
    }
}

TEST(ClusterFiles, NodesThatSlurmKeepsOut_AreLeftOutWithANote) {
    const auto noted = [](const std::string& text) {
        auto note = std::string{};
        const auto cluster = to_string(read(text, "f", "slurm-nodes", "gpu:8", &note));
        return cluster + "; " + note;
    };
    const auto out = std::string("left out, because Slurm starts no job on them: ");
    for (const std::string state :
         {"drain", "drained*", "drng", "down*", "fail", "DOWN+DRAIN", "IDLE+DRAIN", "idle*", "inval",
          "IDLE+NOT_RESPONDING", "MIXED*+DRAIN", "FUTURE", "IDLE+INVALID_REG"}) {
        EXPECT_EQ(noted("NODELIST STATE\na1 idle\na2 " + state + "\na3 mix\n"),
                  "node[a1,a3]:8 gpu; " + out + "a2");
        EXPECT_EQ(noted("NodeName=a1 State=IDLE\nNodeName=a[2-3] State=" + state + "\n"),
                  "node[a1]:8 gpu; " + out + "a2-a3");
    }
    for (const std::string state :
         {"idle~", "alloc", "POWERED_DOWN", "UNKNOWN+NOT_RESPONDING", "unk*", "planned", "resv", "maint"})
        EXPECT_EQ(noted("NODELIST STATE\na1 idle\na2 " + state + "\n"), "node[a1-a2]:8 gpu; ");
    EXPECT_EQ(noted("NodeName=a[1-3]\nPartitionName=p Nodes=ALL State=DOWN\nDownNodes=a1 State=FAIL\n"),
              "node[a2-a3]:8 gpu; " + out + "a1");
    EXPECT_EQ(
        text_of([] { read("NODELIST STATE\na1 down\n", "f"); }),
        "f: lists no node that can run the job, because Slurm starts no job on them; list nodes that can");
    // What an operator writes is no state.
    EXPECT_EQ(noted("NodeName=a1 Arch=x86_64\n   State=IDLE\n   Comment=was State=DOWN once\n"
                    "   Reason=Gres=gpu:2 State=DOWN [root@2026-01-01T00:00:00]\n"),
              "node[a1]:8 gpu; ");
    EXPECT_EQ(noted("NodeName=a[1-2]\nDownNodes=a1 Reason=\"fan\" State=DOWN\nInclude more.conf\n"),
              "node[a2]:8 gpu; not read: the files that Include names; " + out + "a1");
}

// The rows are those of sinfo with -o, -O, -N -l and -M.
TEST(ClusterFiles, ATableOfSinfo_LosesNoNodeAndTakesNone) {
    const auto noted = [](const std::string& text, const std::string& inside = "") {
        auto note = std::string{};
        return to_string(read(text, "f", "", inside, &note)) + "; " + note;
    };
    EXPECT_EQ(noted("PARTITION GRES NODELIST\ncpu* (null) c[01-64]\ngpu gpu:8(S:0-1) g[1-3]\n"),
              "node[g1-g3]:8; left out, because they have no devices: c01-c64");
    EXPECT_EQ(noted("HOSTNAMES GRES\ng1 gpu:8\ng2 gpu:8\n"), "node[g1-g2]:8; ");
    EXPECT_EQ(noted("PARTITION STATE NODELIST\nshort* idle g[1-2]\nlong idle g[1-2]\nempty n/a \n", "gpu:8"),
              "node[g1-g2]:8 gpu; ");
    EXPECT_EQ(
        noted("NODELIST PARTITION STATE REASON\ng1 gpu* idle none\ng2 gpu* down* Not responding\n", "gpu:8"),
        "node[g1]:8 gpu; left out, because Slurm starts no job on them: g2");
    EXPECT_EQ(text_of([&] { noted("PARTITION NODELIST\ncpu* c[1-4]\ngpu g[1-2]\n", "gpu:8"); }),
              "f: has 2 partitions, and does not say which nodes have GPUs; give the output of "
              "sinfo -o '%P %N %G %t', or of one partition: sinfo -p NAME");
    const auto columns = std::string(" columns, and the heading has ");
    for (const auto& [text, why] :
         {std::pair{"GRES                STATE NODELIST\ngpu:h100:8(S:0-3,5-7idle  g1\n",
                    "f:2: has 2" + columns + "3"},
          {"PARTITION NODELIST\ngpu g1\nCLUSTER: b\nPARTITION NODES NODELIST\n",
           "f:4: has 3" + columns + "2"},
          {"REASON USER NODELIST\nNot responding root g1\n", "f:2: has 4" + columns + "3"}})
        EXPECT_EQ(text_of([&, text = text] { noted(text, "gpu:8"); }),
                  why + "; give the output of sinfo -o '%P %N %G %t'");
}

TEST(ClusterFiles, NodesWithoutPods_AreLeftOut_AndSharedGpusCountOnce) {
    const auto node = [](const char* name, const char* labels, const char* spec, const char* ready,
                         const char* gpus) {
        return std::string(R"({"kind":"Node","metadata":{"name":")") + name + R"(","labels":{)" + labels +
               R"(}},"spec":{)" + spec + R"(},"status":{"conditions":[{"type":"Ready","status":")" + ready +
               R"("}],"allocatable":{"nvidia.com/gpu":")" + gpus + R"("}}})";
    };
    auto note = std::string{};
    EXPECT_EQ(
        to_string(read(R"({"items":[)" + node("n0", "", "", "True", "8") + "," +
                           node("n1", R"("nvidia.com/gpu.replicas":"4")", "", "True", "32") + "," +
                           node("n2", "", R"("unschedulable":true)", "True", "8") + "," +
                           node("n3", "", "", "Unknown", "8") + "," + node("cp", "", "", "True", "0") + "]}",
                       "f", "", "", &note)),
        "node[n0-n1]:8");
    EXPECT_EQ(note,
              "left out, because they are cordoned or not ready: n2-n3; left out, because they have no "
              "devices: cp");
}

TEST(ClusterFiles, OneLevelAloneIsTheNotationAndSeveralHostsAreNot) {
    EXPECT_EQ(to_string(read("# a machine\ngpu:8\n", "f")), "gpu:8");
    EXPECT_EQ(to_string(read("gpu:8\n", "f", "hostfile")), "node[gpu]:8");
    EXPECT_EQ(to_string(read("a1:8\na2:8\n", "f")), "node[a1-a2]:8");
}

TEST(ClusterFiles, DevicesAreSaidOnce) {
    EXPECT_EQ(text_of([] { read("a1\na2\n", "hosts"); }),
              "hosts: does not say how many devices a node has; add it, as in '@FILE gpu:8'");
    EXPECT_EQ(text_of([] { read("a1:2\na2:2\n", "hosts", "", "gpu:8"); }),
              "hosts: says how many devices a node has; leave out 'gpu:8'");
    EXPECT_EQ(text_of([] { read("node:2 gpu:2\n", "text", "", "gpu:8"); }),
              "text: already gives the devices; remove 'gpu:8'");
    EXPECT_EQ(text_of([] { read("a1\na2\n", "hosts", "", "node:8"); }),
              "hosts: the level 'node' is listed twice; list every level once");
}

TEST(ClusterFiles, AnErrorHasTheFileAndTheLine) {
    const struct {
        const char* format;
        const char* text;
        const char* error;
    } wrong[] = {
        {"", "", "f: is empty, or has only comments"},
        {"", "# only\n\n", "f: is empty, or has only comments"},
        {"slrm", "a1",
         "unknown format 'slrm'; formats are hwloc, nccl, toml, slurm, slurm-yaml, slurm-nodes, slurm-env, "
         "lsf-env, flux, kubernetes, amd-smi, nvidia-smi, rankfile, notation and hostfile; did you mean "
         "'slurm'?"},
        {"", "node:2\ngpu:2x(1GB/s)\n",
         "f: the cluster 'node:2\\ngpu:2x(1GB/s)\\n' cannot be read: expected a blank, or a link such as "
         "(25GB/s,5us), "
         "after 'gpu:2', found 'x' at character 13"},
        {"", "a1 slots=2\n\n# again\na1 slots=2\n",
         "f:4: the host 'a1' has slots here, and line 1 lists it already; give its slots once, or list it "
         "once for each slot"},
        {"", "a1 slots=0\n", "f:1: slots is '0', which is not a whole number of 1 or more"},
        {"hostfile", "a1:-3\n",
         "f:1: the number of processes is '-3', which is not a whole number of 1 or more"},
        {"hostfile", "a1:2147483648\n",
         "f:1: the number of processes is 2147483648, more than 2147483647, the limit"},
        {"", "a1 slots=99999999999\n", "f:1: slots is 99999999999, more than 2147483647, the limit"},
        {"", "a1 slots=2\na2\n", "f:2: 'a2' has no slots=, but other hosts have"},
        {"", "a1\na2 slots=2\n", "f:1: 'a1' has no slots=, but other hosts have"},
        {"", "a1 slot=2\n", "f:1: 'slot' is not a setting of a host; slots is; did you mean 'slots'?"},
        {"", "a1:4 slots=2\n", "f:1: 'a1' has 4 slots and 2; give it once"},
        {"", "user@a1\n",
         "f:1: 'user@a1' is not a host name; names are letters, digits, '_', '-' or '.', without a user or "
         "a port"},
        {"", "a1:2147483647\na2:2147483647\n",
         "f: the levels up to 'device' make 4294967294 units; a cluster has at most 2147483647 devices"},
        {"", "rank 0=a\nrank 2=a\n", "f:2: rank 2 has a line, and rank 1 has none"},
        {"", "rank 0=a\nrank 0=b\n", "f:2: rank 0 is listed twice, first in line 1"},
        {"", "rank 0=+n0 slot=0\n",
         "f:1: '+n0' is not a host name; names are letters, digits, '_', '-' or '.', without a user or a "
         "port"},
        {"", "SLURM_JOB_NODELIST=a[1-3]\nSLURM_TASKS_PER_NODE=8(x2)\n",
         "f:2: SLURM_TASKS_PER_NODE is for 2 nodes, and SLURM_JOB_NODELIST has 3"},
        {"", "SLURM_JOB_NODELIST=a[1-3]\nSLURM_TASKS_PER_NODE=8(x1000000000)\n",
         "f:2: there are tasks for more than 262144 nodes"},
        {"", "SLURM_JOB_NODELIST=a[1-3]\nSLURM_TOPOLOGY_ADDR=s1.b7\n",
         "f:2: SLURM_TOPOLOGY_ADDR says that this is 'b7', which SLURM_JOB_NODELIST does not have"},
        {"", "SLURM_JOB_ID=1\n", "f: has no SLURM_JOB_NODELIST"},
        {"amd-smi", "[]", "f: lists 0 GPUs; 1 to 1024 are supported"},
        {"amd-smi", R"([{"gpu":0,"link_type":{"gpu_0":"SELF"}}])",  // before ROCm 6.2
         "f: lists 0 links of a GPU, not one to each of the 1; give what amd-smi topology prints without "
         "--json"},
        {"", R"([{"gpu": 0, "links": [{"gpu": 1, "link_type": "XGMI"}]}])",
         "f: names GPU 1, but lists only 1; give all GPUs of the machine"},
        {"", R"([{"gpu": 0, "links": [{"gpu": 0, "link_type": "IB"}]}])",
         "f: 'IB' is not a link between GPUs; links are XGMI and PCIE"},
        {"", "SLURM_JOB_NODELIST=a[1-2]\nSLURM_TASKS_PER_NODE=1(x2)\nSLURM_GPUS_ON_NODE=all\n",
         "f:3: SLURM_GPUS_ON_NODE is 'all', which is not a whole number of 0 or more"},
        {"", "SLURM_JOB_NODELIST=a[1-2]\nSLURM_TASKS_PER_NODE=8(x2)\nSLURM_DISTRIBUTION=cyclic:block\n",
         "f:3: SLURM_DISTRIBUTION is 'cyclic:block', so ranks may not fill one node after the other; start "
         "with srun --distribution=block, and unset SLURM_DISTRIBUTION"},
        {"", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "f:1: switch 'a' is inside itself"},
        {"",
         "SwitchName=t Switches=a\nSwitchName=a Nodes=n1\nSwitchName=b Switches=c\nSwitchName=c Switches=b\n",
         "f:3: switch 'b' is inside itself"},
        {"", "SwitchName=a Switches=b\n", "f:1: switch 'a' has the switch 'b', which no line describes"},
        {"", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[1-2]\n",
         "f:2: 'n1' is in 'a' and in 'b', which hold others, too; a switch must be in one other, or in "
         "several "
         "that hold the same"},
        {"", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n",
         "f:2: the switch or block 'a' is listed twice, first in line 1"},
        {"",
         "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=t Switches=a,b\nSwitchName=u "
         "Switches=a\n",
         "f:4: 'a' is in 't' and in 'u', which hold others, too; a switch must be in one other, or in "
         "several "
         "that hold the same"},
        {"", "SwitchName=a Nodes=n1,n1\n", "f:1: switch 'a' lists 'n1' twice"},
        {"",
         "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=t Switches=a\nSwitchName=u "
         "Switches=t,b\n",
         "f:4: switch 'u' holds 'b', which has fewer levels of switches inside than others; all nodes must "
         "have the same number of switches above them"},
        {"", "RingName=r Nodes=n[1-4]\n", "f:1: has a ring, which is not a tree of levels"},
        {"", "- topology: a\n  flat: true\n", "f: describes no switch and no block"},
        {"", "- topology: a\n  flat: true\n- topology: b\n  flat: true\n",
         "f: has 2 topologies, and none with cluster_default: true; leave one of them"},
        {"", "- topology: a\n  tree: [\n",
         "the topologies in f are not YAML: end of sequence flow not found in line 3"},
        {"", "NodeName=a[1-2] Gres=gpu:x:9999999\n", "f:1: has more than 1048576 GPUs in one node"},
        {"", "NodeName=a1\nNodeName=a[1-2]\n", "f:2: the node 'a1' is listed twice, first in line 1"},
        {"", "LSB_MCPU_HOSTS=a1 2 b1\n", "f:1: LSB_MCPU_HOSTS ends before the number of slots of 'b1'"},
        {"lsf-env", "LSB_X=1\n", "f: has no LSB_MCPU_HOSTS and no LSB_HOSTS"},
        {"", R"({"execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0"}}], "nodelist": ["a"]}})",
         "f: has 1 hosts in execution.nodelist for the 2 ranks of R_lite"},
        {"", R"({"metadata": [})", "f: is not JSON: something is wrong at character 15"},
        {"", R"({"items": [], "metadata": 1})", "f: has no nodes"},
        {"", R"({"items": [{"kind": "Node", "metadata": {"name": "a", "labels":
             {"topology.kubernetes.io/zone": "z"}}}, {"kind": "Node", "metadata": {"name": "b"}}]})",
         "f: has no label topology.kubernetes.io/zone for 'b', and other nodes have it; list only the nodes "
         "of the job"},
        {"", R"({"items": [
            {"kind": "Node", "metadata": {"name": "a", "labels":
             {"topology.kubernetes.io/zone": "y", "nvidia.com/gpu.clique": "c.1"}}},
            {"kind": "Node", "metadata": {"name": "b", "labels":
             {"topology.kubernetes.io/zone": "z", "nvidia.com/gpu.clique": "c.1"}}}]})",
         "f: nvlink 'c.1' is in zone 'y' and in 'z'; a unit must be inside one other"},
        {"", "LINK TYPE TABLE:\n     a    b\na SELF FAR\nb FAR SELF\n",
         "f:3: 'FAR' is not a link between GPUs; links are XGMI and PCIE"},
        {"", "SwitchName=a\n", "f:1: switch 'a' has neither switches nor nodes; give one of them"},
        {"", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=t Switches=a\n",
         "f:2: switch 'b' is in no switch, and others are; all nodes must have the same number of switches "
         "above them"},
        {"", "SwitchName=a Nodes=n1 Speed=9\n",
         "f:1: 'Speed' is not a setting of topology.conf; settings are SwitchName, Switches, Nodes, "
         "LinkSpeed, BlockName and BlockSizes"},
        {"", "SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n",
         "f:2: has a block, but other lines have switches; use only one of them"},
        {"", "BlockName=b Nodes=n[1-4]\nBlockSizes=8\n",
         "f:1: block 'b' has 4 nodes, fewer than the 8 of BlockSizes"},
        {"", "BlockName=b Nodes=n[1-4]\nBlockSizes=4,6\n",
         "f:2: BlockSizes has 6 behind 4; each must be a multiple of the one before"},
        {"", "SwitchName=a Nodes=n[3-1]\n",
         "the names 'n[3-1]' of f:1 have the range '3-1', which counts down from 3 to 1; names are "
         "letters, digits, "
         "'_', '-' or '.', and ranges a01-a31 or a[01-31]"},
        {"", "\tGPU0\tGPU1\nGPU0\t X\tNV1\nGPU1\tNV1\n", "f:3: has 1 entries, fewer than the 2 GPUs"},
        {"", "\tGPU0\tGPU1\nGPU0\t X\tNV1\n", "f: ends before the line of GPU1"},
        {"", "\tGPU0\tGPU1\nGPU0\t X\tNV1\nGPU1\tSYS\tX\n",
         "f:3: GPU1 to GPU0 is 'SYS', but the way back is another"},
        {"", "\tGPU0\tGPU1\nGPU0\t X\tFAR\nGPU1\tFAR\tX\n",
         "f:2: 'FAR' is not a path between GPUs; paths are NV1 and more, PIX, PXB, PHB, NODE and SYS"},
        {"",
         "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tSYS\tPIX\tSYS\nGPU1\tSYS\tX\tSYS\tPIX\nGPU2\tPIX\tSYS\tX\tSYS\n"
         "GPU3\tSYS\tPIX\tSYS\tX\n",
         "f: the devices of one pcie-switch are not contiguous: gpu 2 is in the same as one before gpu 1, so "
         "the "
         "devices in their "
         "order fill no tree"},
        {"", "[[level]]\nname = \"node\"\ncount = 0\n",
         "f:1: level number 1 has the count 0; counts must be whole numbers of 1 or more"},
        {"", "[[level]]\nname = \"node\"\ncount = 2\nbandwidth = \"-5GB/s\"\n",
         "f:1: level number 1 has the bandwidth '-5GB/s'; it must be 1B/s to 1000000TB/s, in B/s, kB/s, "
         "MB/s, "
         "GB/s or TB/s, "
         "such as 50GB/s"},
        {"", "[[level]]\nname = \"node\"\ncount = 2\nlatency = \"5GB/s\"\n",
         "f:1: level number 1 has the latency '5GB/s'; it must be 0s, or 0.001ns to 1000s, in s, ms, us or "
         "ns, "
         "such as 5us"},
        {"", "[[level]]\nname = \"node\"\nnames = \"a1,a2\"\n\n[[level]]\nname = \"gpu\"\n",
         "f:5: level number 2 has no count, and 'a1' of the level outside gives no number either"},
        {"",
         "[[level]]\nname = \"node\"\nunits = [{names = \"a1\", count = 8}]\n[[level]]\nname = "
         "\"gpu\"\ncount = 4\n",
         "f:4: level number 2 has the count 4, and 'a1' of the level outside holds 8; give it once"},
        {"", "[[level]]\nname = \"node\"\nsize = 2\n",
         "f:1: level number 1 has no key 'size'; keys are name, count, bandwidth, latency, names and units"},
        {"", "[[level]]\nname = \"node\ncount = 2\n",
         "the levels in f are no TOML: something is wrong in line 2, 'name = \"node'"},
        {"toml", "x = 1\n", "f: the file has no key 'x'; keys are level"},
    };
    for (const auto& [format, text, error] : wrong)
        EXPECT_EQ(text_of([&] { read(text, "f", format); }), error) << text;
}

TEST(ClusterFiles, WrongXmlIsAnErrorWithTheLine) {
    if (!RANKMESH_HAS_XML) GTEST_SKIP() << "without pugixml";
    const auto error = [](const std::string& text) { return text_of([&] { read(text, "f"); }); };
    EXPECT_EQ(error("<topology version=\"2.0\">\n <object type=\"Machine\">\n"),
              "f:2: is not XML from here on: Start-end tags mismatch");
    EXPECT_EQ(error("<topology version=\"1.0\"></topology>\n"),
              "f:1: is XML of hwloc 1, which is not supported; write it with lstopo of hwloc 2");
    EXPECT_EQ(error("<topology version=\"2.0\">\n</topology>\n"),
              "f:1: has no object of type Core, and no GPU");
    EXPECT_EQ(error("<html/>\n"), "f:1: is XML of 'html', but XML of NCCL begins with <system");
    EXPECT_EQ(error("<system>\n<cpu/>\n</system>\n"), "f:1: has no <gpu>, and no <pci> of class 0x03");
    EXPECT_EQ(error("<system>\n<gpu/>\n</system>\n"), "f:2: <gpu> has no dev=, its number");
    EXPECT_EQ(error("<system>\n<gpu dev=\"0\"/>\n<gpu dev=\"0\"/></system>\n"),
              "f:3: <gpu> has dev 0, as the one of line 2 has");
    auto deep = std::string("<system>\n");
    for (int i = 0; i < 100'000; ++i) deep += "<a>";
    for (int i = 0; i < 100'000; ++i) deep += "</a>";
    EXPECT_EQ(error(deep + "</system>"), "f:2: has elements more than 100 levels deep");
}

TEST(ClusterFiles, EntitiesOfXmlAreNotReplaced) {
    if (!RANKMESH_HAS_XML) GTEST_SKIP() << "without pugixml";
    auto bomb = std::string("<!DOCTYPE system [<!ENTITY a0 \"lol\">");
    for (int i = 1; i < 30; ++i) {
        bomb += "<!ENTITY a" + std::to_string(i) + " \"";
        for (int j = 0; j < 10; ++j) bomb += "&a" + std::to_string(i - 1) + ";";
        bomb += "\">";
    }
    bomb += "<!ENTITY file SYSTEM \"file:///etc/passwd\">]>\n<system><gpu dev=\"&a29;\"/></system>";
    EXPECT_EQ(text_of([&] { read(bomb, "f"); }),
              "f:2: dev is '&a29;', which is not a whole number of 0 or more");
}

TEST(ClusterFiles, EveryFileCutShortIsReadOrRefusedInWords) {
    for (const auto& [file, format, inside, cluster, is_xml] : cases) {
        const auto text = support::content_of(files + file);
        for (std::size_t end = 0; end < text.size(); end += 7) try {
                (void)read(text.substr(0, end), file, format, inside);
            } catch (const UsageError& error) {
                ASSERT_TRUE(support::is_clean(error.what())) << file << " up to byte " << end;
            }
    }
}

TEST(ClusterFiles, AFileOfAGigabyteIsRefusedBeforeItTakesMemory) {
    const auto folder = support::Folder();
    const auto path = folder.path() + "/large";
    std::ofstream(path).put('a');
    ASSERT_EQ(truncate(path.c_str(), off_t{1} << 30), 0);
    EXPECT_EQ(text_of([&] { read_file(path); }),
              path + ": has more than 33554432 bytes, the limit for a cluster");
    auto usage = rusage{};
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss, 1 << 19);  // in KiB
}

TEST(ClusterFiles, WhatIsReadOfAnyTextIsACleanErrorOrACluster) {
    for (const auto& [file, format, inside, cluster, is_xml] : cases) {
        const auto valid = support::content_of(files + file);
        for (unsigned n = 0; n < 300; ++n) try {
                const auto read_back = read(support::hostile(n, valid), file, format, inside);
                ASSERT_EQ(Cluster::parse(to_string(read_back)), read_back);
            } catch (const UsageError& error) {
                ASSERT_TRUE(support::is_clean(error.what())) << n << ": " << error.what();
            }
    }
}

}  // namespace
}  // namespace rankmesh::cluster_files
