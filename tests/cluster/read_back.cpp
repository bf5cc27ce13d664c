// SPDX-License-Identifier: Apache-2.0
// Law: a cluster that is written in a format is read back from it.
#include <cluster/read/read.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace rankmesh::cluster_files {
namespace {

/// Nodes of `gpus[i]` GPUs in two levels of units, each of two or more, as no level of one unit is read.
struct Tree {
    std::vector<std::vector<std::vector<int>>> pods;

    std::string name(const char* of, std::size_t pod, std::size_t leaf = 0, std::size_t node = 0) const {
        return of + std::to_string(pod) + "x" + std::to_string(leaf) + "x" + std::to_string(node);
    }
    /// Calls `add` with the pod, the leaf, the node and its GPUs.
    void each(auto&& add) const {
        for (std::size_t p = 0; p < pods.size(); ++p)
            for (std::size_t l = 0; l < pods[p].size(); ++l)
                for (std::size_t n = 0; n < pods[p][l].size(); ++n) add(p, l, n, pods[p][l][n]);
    }
    std::string nodes_of(std::size_t p, std::size_t l) const {
        auto list = std::string{};
        for (std::size_t n = 0; n < pods[p][l].size(); ++n) list += (n > 0 ? "," : "") + name("n", p, l, n);
        return list;
    }
    std::string leaves_of(std::size_t p) const {
        auto list = std::string{};
        for (std::size_t l = 0; l < pods[p].size(); ++l) list += (l > 0 ? "," : "") + name("l", p, l);
        return list;
    }
    Cluster cluster(const char* pod, const char* leaf, bool even) const {
        auto levels = std::vector<Cluster::Level>{{.name = pod}, {.name = leaf}, {.name = "node"}};
        for (std::size_t p = 0; p < pods.size(); ++p) {
            levels[0].units.push_back({name("p", p), static_cast<int>(pods[p].size())});
            for (std::size_t l = 0; l < pods[p].size(); ++l)
                levels[1].units.push_back({name("l", p, l), static_cast<int>(pods[p][l].size())});
        }
        each([&](auto p, auto l, auto n, int gpus) {
            levels[2].units.push_back({name("n", p, l, n), even ? 8 : gpus});
        });
        if (*pod == '\0') levels.erase(levels.begin(), levels.begin() + 2);
        levels.push_back({.name = even ? "gpu" : "device"});
        return Cluster(levels);
    }
};

rc::Gen<Tree> tree() {
    return rc::gen::exec([] {
        auto made = Tree{};
        made.pods.resize(*rc::gen::inRange<std::size_t>(2, 4));
        for (auto& pod : made.pods) {
            pod.resize(*rc::gen::inRange<std::size_t>(2, 4));
            for (auto& leaf : pod)
                leaf = *rc::gen::container<std::vector<int>>(*rc::gen::inRange<std::size_t>(2, 4),
                                                             rc::gen::inRange(1, 9));
        }
        return made;
    });
}

RC_GTEST_PROP(ClusterFilesReadBack, Switches, ()) {
    const auto of = *tree();
    auto conf = std::string{};
    auto shown = std::string{};
    auto yaml = std::string("- topology: t\n  tree:\n    switches:\n");
    for (std::size_t p = 0; p < of.pods.size(); ++p) {
        auto all = std::string{};
        for (std::size_t l = 0; l < of.pods[p].size(); ++l) {
            const auto leaf = "SwitchName=" + of.name("l", p, l);
            const auto nodes = of.nodes_of(p, l);
            all += (l > 0 ? "," : "") + nodes;
            conf += leaf + " Nodes=" + nodes + "\n";
            shown += leaf + " Level=0 LinkSpeed=1 Nodes=" + nodes + "\n";
            yaml += "    - switch: " + of.name("l", p, l) + "\n      nodes: " + nodes + "\n";
        }
        const auto pod = of.name("p", p);
        conf += "SwitchName=" + pod + " \\\n Switches=" + of.leaves_of(p) + "\n";
        conf += "SwitchName=second" + pod + " Switches=" + of.leaves_of(p) + "\n";
        shown +=
            "SwitchName=" + pod + " Level=1 LinkSpeed=1 Nodes=" + all + " Switches=" + of.leaves_of(p) + "\n";
        yaml += "    - switch: " + pod + "\n      children: " + of.leaves_of(p) + "\n";
    }
    const auto expected = of.cluster("switch2", "switch", true);
    for (const auto& text : {conf, shown, yaml}) RC_ASSERT(read(text, "f", "", "gpu:8") == expected);
}

RC_GTEST_PROP(ClusterFilesReadBack, Kubernetes, ()) {
    const auto of = *tree();
    auto text = std::string("{\"items\": [{\"kind\": \"Node\", \"metadata\": {\"name\": \"control\"}}");
    of.each([&](auto p, auto l, auto n, int gpus) {
        text += ",\n{\"kind\": \"Node\", \"metadata\": {\"name\": \"" + of.name("n", p, l, n) +
                "\", \"labels\": {\"topology.kubernetes.io/zone\": \"" + of.name("p", p) +
                "\", \"nvidia.com/gpu.clique\": \"" + of.name("l", p, l) +
                "\"}}, \"status\": {\"capacity\": {\"nvidia.com/gpu\": \"" + std::to_string(gpus) + "\"}}}";
    });
    RC_ASSERT(read(text + "]}", "f") == of.cluster("zone", "nvlink", false));
}

RC_GTEST_PROP(ClusterFilesReadBack, NodesOfEachLauncher, ()) {
    const auto of = *tree();
    const auto start = *rc::gen::inRange(0, 2);  // of the ranks: node by node, or one on each in turn
    std::string texts[8];
    auto& [hostfile, repeated, mcpu, lsb, conf, rankfile, flux, sinfo] = texts;
    auto ranks = std::vector<std::string>{};
    mcpu = "LSB_MCPU_HOSTS=";
    lsb = "LSB_HOSTS=";
    sinfo = "NODELIST GRES\n";
    auto lite = std::string{};
    auto names = std::string{};
    auto most = 0;
    of.each([&](auto p, auto l, auto n, int gpus) {
        const auto name = of.name("n", p, l, n);
        const auto count = std::to_string(gpus);
        hostfile += name + " slots=" + count + "\n";
        for (int i = 0; i < gpus; ++i) repeated += name + "\n";
        mcpu += name + " " + count + " ";
        for (int i = 0; i < gpus; ++i) lsb += name + " ";
        conf += "NodeName=" + name + " Gres=nvme:2,gpu:h100:" + count + "(S:0-1)\n";
        sinfo += name + " gpu:" + count + "\n";
        lite += std::string(lite.empty() ? "" : ",") + "{\"rank\": \"" + std::to_string(most++) +
                "\", \"children\": {\"core\": \"0-63\", \"gpu\": \"0" +
                (gpus > 1 ? "-" + std::to_string(gpus - 1) : "") + "\"}}";
        names += (names.empty() ? "\"" : ",\"") + name + "\"";
    });
    flux = "{\"version\": 1, \"execution\": {\"R_lite\": [" + lite + "], \"nodelist\": [" + names + "]}}";
    for (int turn = 0; turn < (start == 0 ? 1 : 9); ++turn)
        of.each([&](auto p, auto l, auto n, int gpus) {
            for (int i = 0; i < gpus; ++i)
                if (start == 0 || i == turn)
                    ranks.push_back(of.name("n", p, l, n) + " slot=" + std::to_string(i));
        });
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        rankfile += "rank " + std::to_string(rank) + "=" + ranks[rank] + "\n";
    const auto expected = of.cluster("", "", false);
    auto some_repeat = false;
    of.each([&](auto, auto, auto, int gpus) { some_repeat = some_repeat || gpus > 1; });
    for (const auto& text : texts)
        if (&text != &repeated || some_repeat) RC_ASSERT(read(text, "f") == expected);
}

}  // namespace
}  // namespace rankmesh::cluster_files
