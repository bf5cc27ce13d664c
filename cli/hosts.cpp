// SPDX-License-Identifier: Apache-2.0
#include "hosts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/core.h>

namespace rankmesh::cli {

namespace {

/// Returns the level whose units are hosts; nullopt if the cluster has only devices.
std::optional<int> level_of_hosts(const Cluster& cluster) {
    auto named = std::optional<int>{};
    for (int level = 0; level < cluster.level_count(); ++level) {
        const auto& each = cluster.levels()[static_cast<std::size_t>(level)];
        if (each.name == "node" || each.name == "host") return level;
        if (!each.units.empty()) named = level;
    }
    if (named) return named;
    return cluster.level_count() > 1 ? std::optional(cluster.level_count() - 2) : std::nullopt;
}

}  // namespace

/// Returns the name of each rank's host.
std::vector<std::string> hosts_of(World& world, Communicator& all) {
    constexpr auto longest = Cluster::longest_name;
    auto own = std::vector<std::uint8_t>(longest);
    const auto host = world.host().substr(0, longest);
    std::ranges::copy(host, own.begin());
    auto names = std::vector<std::uint8_t>(longest * static_cast<std::size_t>(world.size()));
    all.all_gather(own, names);
    auto hosts = std::vector<std::string>{};
    for (std::size_t begin = 0; begin < names.size(); begin += longest) {
        auto name = std::string(names.begin() + static_cast<std::ptrdiff_t>(begin),
                                names.begin() + static_cast<std::ptrdiff_t>(begin + longest));
        hosts.push_back(name.substr(0, name.find('\0')));
    }
    return hosts;
}

Cluster cluster_of_hosts(const std::vector<std::string>& host_of_rank) {
    auto nodes = Cluster::Level{.name = "node"};
    for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
        const auto& host = host_of_rank[rank];
        if (rank > 0 && host == host_of_rank[rank - 1]) {
            ++nodes.units.back().count;
            continue;
        }
        if (std::ranges::find(nodes.units, host, &Cluster::Unit::name) != nodes.units.end())
            throw UsageError(fmt::format(
                "rank {} runs on host '{}' like an earlier rank, but rank {} runs on '{}'; start the ranks "
                "of each host one after the other: mpirun --map-by slot, srun --distribution=block",
                rank, host, rank - 1, host_of_rank[rank - 1]));
        nodes.units.push_back({host, 1});
    }
    return Cluster({nodes, {.name = "device"}});
}

std::optional<std::string> rank_elsewhere(const Cluster& cluster,
                                          const std::vector<std::string>& host_of_rank) {
    const auto level = level_of_hosts(cluster);
    if (!level) return std::nullopt;
    const auto has_names = !cluster.levels()[static_cast<std::size_t>(*level)].units.empty();
    const auto ranks = std::min(static_cast<int>(host_of_rank.size()), cluster.size());
    for (int rank = 0; rank < ranks; ++rank) {
        const auto unit = cluster.unit(rank, *level);
        const auto first = cluster.first_device(unit, *level);
        const auto& host = host_of_rank[static_cast<std::size_t>(rank)];
        const auto& wanted =
            has_names ? cluster.unit_name(unit, *level) : host_of_rank[static_cast<std::size_t>(first)];
        if (host == wanted) continue;
        const auto why = has_names ? std::string{} : fmt::format(", where rank {} runs", first);
        return fmt::format(
            "rank {} runs on host '{}', but cluster {} has it on {}{}; start the ranks in the order of the "
            "cluster's devices",
            rank, host, detail::excerpt(to_string(cluster), 200),
            has_names ? fmt::format("'{}'", wanted)
                      : fmt::format("{}, '{}'", cluster.unit_name(unit, *level), wanted),
            why);
    }
    return std::nullopt;
}

}  // namespace rankmesh::cli
