// SPDX-License-Identifier: Apache-2.0
// Reads nodes from JSON: what kubectl prints, and the resource set R of a Flux job (RFC 20).
#include <array>
#include <set>

#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

namespace of_kubernetes {

/// A label of nodes and the level that it describes.
struct Label {
    std::string_view key;
    std::string_view level;
};
/// Outermost first.
constexpr auto labels = std::array{Label{"topology.kubernetes.io/region", "region"},
                                   Label{"topology.kubernetes.io/zone", "zone"},
                                   Label{"cloud.google.com/gce-topology-block", "block"},
                                   Label{"cloud.google.com/gce-topology-subblock", "subblock"},
                                   Label{"oci.oraclecloud.com/rdma.hpc_island_id", "island"},
                                   Label{"oci.oraclecloud.com/rdma.network_block_id", "block"},
                                   Label{"oci.oraclecloud.com/rdma.local_block_id", "subblock"},
                                   Label{"topology.k8s.aws/network-node-layer-1", "layer1"},
                                   Label{"topology.k8s.aws/network-node-layer-2", "layer2"},
                                   Label{"topology.k8s.aws/network-node-layer-3", "layer3"},
                                   Label{"network.topology.nvidia.com/core", "core"},
                                   Label{"network.topology.nvidia.com/spine", "spine"},
                                   Label{"network.topology.nvidia.com/leaf", "leaf"},
                                   Label{"network.topology.nvidia.com/accelerator", "accelerator"},
                                   Label{"cloud.provider.com/topology-block", "block"},
                                   Label{"cloud.provider.com/topology-rack", "rack"},
                                   Label{"nvidia.com/gpu.clique", "nvlink"}};
constexpr auto resources =
    std::array<std::string_view, 6>{"nvidia.com/gpu",   "amd.com/gpu",    "gpu.intel.com/i915",
                                    "gpu.intel.com/xe", "google.com/tpu", "habana.ai/gaudi"};

/// Returns the devices that pods may use, else those of the node; a GPU that pods share counts once.
int devices_of(const Text& text, const Json& node) {
    const auto shared = text_of(value_at(node, {"metadata", "labels", "nvidia.com/gpu.replicas"}));
    const auto sharing = shared.empty() ? 1 : number_of(text, 0, shared, "nvidia.com/gpu.replicas", 0);
    for (const auto* of : {"allocatable", "capacity"})
        for (const auto resource : resources)
            if (const auto count = text_of(value_at(node, {"status", of, resource})); !count.empty())
                return number_of(text, 0, count, resource, 0) /
                       (resource == resources[0] ? std::max(sharing, 1) : 1);
    return 0;
}

/// Returns true if no pod is placed on a node: it is cordoned or not ready.
bool is_out(const Json& node) {
    const auto conditions = elements_of(value_at(node, {"status", "conditions"}));
    return value_at(node, {"spec", "unschedulable"}) == Json(true) ||
           std::ranges::any_of(conditions, [](const Json& condition) {
               return text_of(value_at(condition, {"type"})) == "Ready" &&
                      text_of(value_at(condition, {"status"})) != "True";
           });
}

}  // namespace of_kubernetes

Levels read_kubernetes(const Text& text) {
    using namespace of_kubernetes;
    const auto all = json_of(text);
    const auto items =
        all.is_object() && all.contains("items") ? elements_of(value_at(all, {"items"})) : std::span(&all, 1);
    auto nodes = Nodes(text);
    auto out = std::set<std::string>{};
    for (const auto& item : items) {
        if (text_of(value_at(item, {"kind"})) != "Node") continue;
        const auto name = text_of(value_at(item, {"metadata", "name"}));
        if (nodes.contains(name)) text.fail(0, cat("lists the node ", in_quotes(name), " twice"));
        auto& node = nodes.add(name, devices_of(text, item), 0);
        if (is_out(item)) out.insert(name);
        for (const auto& [key, level] : labels)
            node.around.push_back(text_of(value_at(item, {"metadata", "labels", key})));
    }
    // A label that no node has is left out. Any other label must be on all nodes with devices.
    const auto is_bare = [](const Node& node) { return node.count == 0; };
    text.leave_out(nodes.list, "they are cordoned or not ready",
                   [&](const Node& node) { return out.contains(node.name); });
    if (!std::ranges::all_of(nodes.list, is_bare))
        text.leave_out(nodes.list, "they have no devices", is_bare);
    auto levels = std::vector<std::string>{};
    for (const auto& [key, level] : labels) {
        const auto at = levels.size();
        const auto without = [&](const Node& node) { return node.around[at].empty(); };
        const auto missing = std::ranges::find_if(nodes.list, without);
        if (std::ranges::all_of(nodes.list, without))
            for (auto& node : nodes.list)
                node.around.erase(node.around.begin() + static_cast<std::ptrdiff_t>(at));
        else if (missing != nodes.list.end())
            text.fail(0, cat("has no label ", key, " for ", in_quotes(missing->name),
                             ", and other nodes have it; list only the nodes of the job"));
        else
            levels.emplace_back(level);
    }
    return levels_of_nodes(text, std::move(nodes.list), levels);
}

Levels read_flux(const Text& text) {
    const auto all = json_of(text);
    const auto count = [&](const Json& ids) {
        const auto list = text_of(ids);
        return list.empty() ? std::vector<std::string>{} : text.names(cat("[", list, "]"), 0);
    };
    auto devices = std::map<int, std::pair<int, int>>{};  // by rank: GPUs and cores
    for (const auto& entry : elements_of(value_at(all, {"execution", "R_lite"})))
        for (const auto& rank : count(value_at(entry, {"rank"})))
            devices[number_of(text, 0, rank, "a rank of R_lite", 0)] = {
                static_cast<int>(count(value_at(entry, {"children", "gpu"})).size()),
                static_cast<int>(count(value_at(entry, {"children", "core"})).size())};
    auto hosts = std::vector<std::string>{};
    for (const auto& names : elements_of(value_at(all, {"execution", "nodelist"})))
        std::ranges::move(text.names(text_of(names), 0), std::back_inserter(hosts));
    if (hosts.size() != devices.size())
        text.fail(0, cat("has ", hosts.size(), " hosts in execution.nodelist for the ", devices.size(),
                         " ranks of R_lite"));
    const auto has_gpus = std::ranges::any_of(devices, [](const auto& of) { return of.second.first > 0; });
    auto nodes = Nodes(text);
    auto host = hosts.begin();
    for (const auto& [rank, of] : devices) nodes.add(*host++, has_gpus ? of.first : of.second, 0);
    return levels_of_nodes(text, std::move(nodes.list));
}

}  // namespace rankmesh::cluster_files
