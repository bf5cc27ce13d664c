// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/process_topology.hpp>

#include "frameworks/topology_settings.hpp"

namespace rankmesh::cli {

using detail::cat;

namespace {

Arrangement read(Settings& settings, std::optional<int> world) {
    // The arguments of PipeModelDataParallelTopology, whose axes are pipe, data and model.
    if (settings.has("num_pp") || settings.has("num_mp") || settings.has("num_dp")) {
        const auto pp = settings.size("num_pp");
        const auto dp = settings.size("num_dp");
        const auto mp = settings.size("num_mp");
        const auto mesh = deepspeed::PipeModelDataParallelTopology(pp, mp, dp).mesh();
        if (const auto known = world_of(settings, world); known && *known != mesh.size())
            throw UsageError(cat("the topology has ", mesh.size(), " ranks, but the world ", *known,
                                 "; they must be equal"));
        return {{mesh}};
    }
    const auto given = topology_of(settings, world, "model");
    return {{deepspeed::ProcessTopology(given.axes, given.dims).mesh()}};
}

Document write(const Arrangement& arrangement) {
    const auto dense = joined(arrangement.dense(), {"dp", "dp_replicate", "dp_shard"}, "dp");
    // In the order that moves the fewest ranks; pipe and data must be there.
    auto order = by_stride(dense);
    for (const auto* needed : {"dp", "pp"})
        if (size_of(dense, needed) == 1) order.insert(order.begin(), needed);
    return topology_document(dense, order, "model");
}

}  // namespace

Framework deepspeed() {
    constexpr auto experts =
        "DeepSpeed sets expert parallelism at the MoE layer (ep_size), not in the topology";
    constexpr auto replicas =
        "DeepSpeed sets sharding in its configuration (zero_optimization), not in the topology";
    return {.name = "deepspeed",
            .of = "the axes and dims of ProcessTopology, or sizes in their order, outermost first",
            .example = "pipe=2 data=4 model=2",
            .read = read,
            .write = write,
            .why = {{"ep", experts},
                    {"edp", experts},
                    {"etp", experts},
                    {"dp_replicate", replicas},
                    {"dp_shard", replicas}}};
}

}  // namespace rankmesh::cli
