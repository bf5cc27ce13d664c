// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "cluster/read/read.hpp"
#include "output.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_cluster {

struct Arguments {
    std::optional<std::string> cluster;
    std::string from;
    bool json = false;
};

/// The fewest and the most of something.
struct Span {
    int least;
    int most;
    std::string text() const {
        return least == most ? std::to_string(least) : fmt::format("{}..{}", least, most);
    }
    Json json() const { return std::vector{least, most}; }
};

/// Returns the number of units of a level in one unit of the next outer level.
Span count_of(const Cluster& cluster, std::size_t level) {
    const auto& count = cluster.levels()[level].count;
    if (level == 0 || cluster.levels()[level - 1].units.empty()) return {count, count};
    const auto& units = cluster.levels()[level - 1].units;
    return {std::ranges::min_element(units, {}, &Cluster::Unit::count)->count, count};
}

/// Returns the number of devices in one unit of a level.
Span devices_of(const Cluster& cluster, int level) {
    auto span = Span{cluster.unit_size(0, level), cluster.unit_size(0, level)};
    // Units can differ only if they are named.
    if (cluster.is_even() || cluster.unit_count(level) > Cluster::most_names) return span;
    for (int unit = 1; unit < cluster.unit_count(level); ++unit) {
        span.least = std::min(span.least, cluster.unit_size(unit, level));
        span.most = std::max(span.most, cluster.unit_size(unit, level));
    }
    return span;
}

/// Returns the link of a level as text, without brackets.
std::string link_of(const Cluster::Level& level) {
    if (!level.bandwidth && !level.latency) return "-";
    const auto alone =
        to_string(Cluster({{.name = "x", .bandwidth = level.bandwidth, .latency = level.latency}}));
    return alone.substr(4, alone.size() - 5);  // of x:1(25GB/s,5us)
}

void print_text(const Cluster& cluster, const std::string& by, Output& output) {
    auto rows =
        std::vector<std::vector<std::string>>{{"level", "units", "per parent", "devices per unit", "uplink"}};
    for (int i = 0; i < cluster.level_count(); ++i) {
        const auto& level = cluster.levels()[static_cast<std::size_t>(i)];
        rows.push_back({level.name, std::to_string(cluster.unit_count(i)),
                        count_of(cluster, static_cast<std::size_t>(i)).text(), devices_of(cluster, i).text(),
                        link_of(level)});
    }
    output.print("{}\n\n{}", to_string(cluster), table(rows, 1, 1));
    if (!by.empty()) output.print("\ndetected by {}\n", by);
}

void print_json(const Cluster& cluster, const std::string& by, Output& output) {
    auto out =
        Json{{"cluster", to_string(cluster)}, {"devices", cluster.size()}, {"even", cluster.is_even()}};
    out["levels"] = Json::array();
    for (int i = 0; i < cluster.level_count(); ++i) {
        const auto& level = cluster.levels()[static_cast<std::size_t>(i)];
        auto one = Json{{"name", level.name},
                        {"units", cluster.unit_count(i)},
                        {"count", count_of(cluster, static_cast<std::size_t>(i)).json()},
                        {"devices", devices_of(cluster, i).json()}};
        one["bandwidth"] = level.bandwidth ? Json(*level.bandwidth) : Json();
        one["latency"] = level.latency ? Json(*level.latency) : Json();
        one["names"] = level.units.empty() ? Json() : Json::array();
        for (const auto& unit : level.units) one["names"].push_back(unit.name);
        out["levels"].push_back(std::move(one));
    }
    out["seen_by"] = by.empty() ? Json() : Json(by);
    output.print("{}\n", out.dump());
}

int run(const Arguments& arguments, Output& output) {
    if (!arguments.cluster && !arguments.from.empty())
        throw UsageError("--from requires a file, but CLUSTER is missing; see rankmesh cluster --help");
    const auto seen = arguments.cluster
                          ? cluster_files::Seen{*cluster_of(arguments.cluster, arguments.from), ""}
                          : cluster_files::see_here();
    if (arguments.json)
        print_json(seen.cluster, seen.by, output);
    else
        print_text(seen.cluster, seen.by, output);
    return 0;
}

std::string notes() {
    auto text = std::string("Formats of files, detected by content unless --from is given:\n");
    for (const auto& [name, help] : cluster_files::formats())
        text += fmt::format("  {:<11} {}\n", name, help);
    return text +
           "Every subcommand accepts such a file as CLUSTER. If the file does not say how many devices a "
           "node has, add levels: '@FILE gpu:8'.";
}

}  // namespace of_cluster

Subcommand cluster() {
    const auto arguments = std::make_shared<of_cluster::Arguments>();
    return {
        .name = "cluster",
        .help = "Show a cluster as rankmesh reads it, from the notation, a file or this host.",
        .options = {{"CLUSTER", "such as 'node:32 gpu:8', a file, or '@FILE LEVELS'; default: detect it here",
                     &arguments->cluster},
                    with_values(
                        names_of(cluster_files::formats()),
                        {"--from", "format of the file; default: detected", &arguments->from, "FORMAT"}),
                    {"--json", "print JSON; docs/json.md describes it", &arguments->json}},
        .run = [arguments](Output& output) { return of_cluster::run(*arguments, output); },
        .group = Group::plan,
        .examples = {"rankmesh cluster 'node[a01-a31]:8 node[b01]:4 gpu(450GB/s)'",
                     "rankmesh cluster '@/etc/slurm/topology.conf gpu:8'"},
        .notes = of_cluster::notes(),
        .optional_positional = "CLUSTER"};
}

}  // namespace rankmesh::cli
