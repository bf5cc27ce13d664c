// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>

#include <rankmesh/cluster/place.hpp>
#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/report/text.hpp>

#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_place {

struct Arguments : Common {
    std::optional<std::string> on;
    std::string weights;
    Bytes bytes = {std::size_t{64} << 20};
    std::string as;
};

/// Returns the typical traffic of a mesh with the weights of `tp=100,dp=2.5`. Throws UsageError for invalid
/// weights.
std::vector<AxisTraffic> traffic_of(const Mesh& mesh, const std::string& weights) {
    auto all = typical_traffic(mesh);
    if (weights.empty()) return all;
    for (const auto& word : axis_names(weights, "--weights")) {
        const auto equals = word.find('=');
        const auto weight = equals == std::string::npos
                                ? std::nullopt
                                : detail::number_in<double>(std::string_view(word).substr(equals + 1));
        if (!weight)
            throw UsageError(
                fmt::format("--weights has {}; each entry must be an axis and a number, such as tp=100",
                            detail::in_quotes(word)));
        const auto name = mesh.name(mesh.axis(std::string_view(word).substr(0, equals)));
        for (auto& of : all)
            if (of.axis == name) of.weight = *weight;
    }
    return all;
}

/// Returns the new device of each rank of the given mesh.
std::vector<int> devices_by_rank(const Placement& given, const Placed& placed) {
    if (given.extent() != given.size())
        throw UsageError(
            "the mesh leaves ranks out, so their devices are unknown; place a mesh of the ranks 0, 1, 2, "
            "...");
    const auto devices = placed.devices();
    auto by_rank = std::vector<int>(devices.size());
    auto device = devices.begin();
    for (const auto rank : given.ranks()) by_rank[static_cast<std::size_t>(rank)] = *device++;
    return by_rank;
}

/// Returns the level whose units are hosts: `node` or `host`, else the level around the devices.
int host_level(const Cluster& cluster) {
    for (int l = 0; l < cluster.level_count(); ++l)
        if (const auto& name = cluster.levels()[static_cast<std::size_t>(l)].name;
            name == "node" || name == "host")
            return l;
    return std::max(0, cluster.level_count() - 2);
}

constexpr auto config_map =
    "# The rank of each node. In the pods of an indexed job, mount this at /order, set NODE_NAME to the "
    "field\n"
    "# spec.nodeName, and start torchrun --node-rank $(cat /order/$NODE_NAME).\n"
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: node-ranks\ndata:\n";

void print_for_launcher(const Cluster& cluster, const std::string& form, const std::vector<int>& devices,
                        Output& output) {
    const auto level = host_level(cluster);
    const auto& hosts = cluster.levels()[static_cast<std::size_t>(level)];
    if (hosts.units.empty())
        throw UsageError(fmt::format(
            "--as {} requires host names, but the cluster has only the number of units of level '{}'; "
            "give their names, as in {}[a01-a08]:8",
            form, hosts.name, hosts.name));
    const auto host = [&](int device) { return cluster.unit_name(cluster.unit(device, level), level); };
    if (form == "rankfile")
        for (std::size_t rank = 0; rank < devices.size(); ++rank)
            output.print("rank {}={} slot={}\n", rank, host(devices[rank]),
                         devices[rank] - cluster.first_device(cluster.unit(devices[rank], level), level));
    if (form == "hostfile")
        for (auto device : devices) output.print("{}\n", host(device));
    if (form != "torchrun" && form != "kubernetes") return;
    // torchrun, also that of a pod on each node, gives consecutive ranks to a node.
    const auto unit = [&](std::size_t rank) { return cluster.unit(devices[rank], level); };
    auto lengths = std::vector<std::size_t>{};
    auto seen = std::vector<bool>(static_cast<std::size_t>(cluster.unit_count(level)));
    auto lines = form == "torchrun" ? std::string{} : std::string(config_map);
    for (std::size_t first = 0; first < devices.size(); first += lengths.back()) {
        auto end = first;
        while (end < devices.size() && unit(end) == unit(first)) ++end;
        lengths.push_back(end - first);
        if (seen[static_cast<std::size_t>(unit(first))])
            throw Error(fmt::format(
                "torchrun gives each node consecutive ranks, but here rank {} is on {}, between ranks of "
                "{}; declare the mesh that --as mesh prints, or use --as rankfile or hostfile",
                first - 1, host(devices[first - 1]), host(devices[first])));
        seen[static_cast<std::size_t>(unit(first))] = true;
        if (lengths.back() != lengths.front())
            throw Error(fmt::format(
                "torchrun starts the same number of ranks on each node, but {} should run {} and {} {}; "
                "use --as rankfile or hostfile",
                host(devices[0]), lengths.front(), host(devices[first]), lengths.back()));
        lines += form == "torchrun"
                     ? host(devices[first]) + "\n"
                     : fmt::format("  \"{}\": \"{}\"\n", host(devices[first]), lengths.size() - 1);
    }
    output.write(lines);
}

int run(const Arguments& arguments, Output& output) {
    if (!arguments.on) throw UsageError("place requires a cluster; add --on CLUSTER");
    if (arguments.json && !arguments.as.empty() && arguments.as != "json")
        throw UsageError(
            fmt::format("--json and --as {} are two different outputs; give only one", arguments.as));
    const auto cluster = *cluster_of(arguments.on);
    const auto job = arguments.job(cluster);
    if (!job.single())
        throw UsageError(fmt::format(
            "place orders the ranks of one mesh, but {} has several, which share ranks or machines; place "
            "one alone, and give rankmesh check all of them with its order",
            to_string(job)));
    const auto& given = *job.single();
    const auto placed = place(cluster, given, traffic_of(given.mesh(), arguments.weights),
                              static_cast<std::int64_t>(arguments.bytes.count));
    const auto order = to_string(placed.order);
    if (arguments.as == "mesh") {
        output.print("{}\n", order);
    } else if (arguments.as == "json") {
        output.print("{}\n", Json(devices_by_rank(given, placed)).dump());
    } else if (!arguments.as.empty()) {
        print_for_launcher(cluster, arguments.as, devices_by_rank(given, placed), output);
    } else if (arguments.json) {
        auto out = Json{{"mesh", to_string(given)},
                        {"on", to_string(cluster)},
                        {"bytes", arguments.bytes.count},
                        {"order", order},
                        {"before", placed.before},
                        {"after", placed.after},
                        {"search", std::string(to_string(placed.search))},
                        {"axes", Json::array()}};
        for (const auto& [traffic, before, after] : placed.axes)
            out["axes"].push_back({{"axis", traffic.axis},
                                   {"operation", to_string(traffic.operation)},
                                   {"weight", traffic.weight},
                                   {"before", before},
                                   {"after", after}});
        output.print("{}\n", out.dump());
    } else {
        const auto text = report::text_of(placed, static_cast<std::int64_t>(arguments.bytes.count));
        const auto last = text.rfind('\n', text.size() - 2) + 1;
        output.write(text.substr(0, last));
        output.print("{}\n", folded_if_known(text.substr(last, text.size() - last - 1)));
    }
    output.flush();
    const auto report = check_on(cluster, placed.order);
    if (!report.right())
        std::cerr << "rankmesh check refuses this placement:\n"
                  << report::broken_rules(cluster, report, static_cast<std::size_t>(terminal_width()));
    return 0;
}

}  // namespace of_place

Subcommand place() {
    const auto arguments = std::make_shared<of_place::Arguments>();
    return {
        .name = "place",
        .help = "Find a fast placement of a mesh on a cluster, and its gain.",
        .options = arguments->options(
            {{"--on", "the cluster, such as 'node:32(50GB/s,5us) gpu:8(450GB/s,2us)'", &arguments->on,
              "CLUSTER"},
             {"--weights",
              "how often each axis communicates, such as tp=100,dp=2; default: see docs/machines.md",
              &arguments->weights, "AXIS=WEIGHT,..."},
             {"--bytes", "buffer size for the timings, such as 1GiB; default: 64MiB", &arguments->bytes,
              "SIZE", Option::Range{1, 0x1p50, false}},
             one_of({"mesh", "rankfile", "hostfile", "torchrun", "kubernetes", "json"},
                    {"--as",
                     "print only the placement, as mesh, rankfile, hostfile, torchrun, kubernetes or json",
                     &arguments->as, "FORM"})}),
        .run = [arguments](Output& output) { return of_place::run(*arguments, output); },
        .group = Group::plan,
        .examples = {"rankmesh place 'tp=8 dp=64' --on 'node:64(50GB/s,5us) gpu:8(450GB/s,2us)'"},
        .notes =
            "The first line of the output is the mesh that the program should declare.\n"
            "If the program cannot change its mesh, start its ranks on other devices: --as "
            "rankfile (Open MPI), hostfile (Slurm's --distribution=arbitrary), torchrun (hosts by "
            "--node-rank), kubernetes (a ConfigMap with each node's rank) or json (the device of each "
            "rank)."};
}

}  // namespace rankmesh::cli
