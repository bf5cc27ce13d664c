// SPDX-License-Identifier: Apache-2.0
// Hostfiles and rankfiles of MPI launchers.
#include <algorithm>

#include "cluster/read/formats.hpp"

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::cluster_files {

using detail::cat;
using detail::in_quotes;

namespace of_hostfile {

void check_host(const Text& text, int line, std::string_view host) {
    if (host.empty() || !std::ranges::all_of(host, is_name_character))
        text.fail(line, cat(in_quotes(host),
                            " is not a host name; names are letters, digits, '_', '-' or '.', without a "
                            "user or a port"));
}

}  // namespace of_hostfile

/// Open MPI: `a1 slots=8 max_slots=16`; MPICH: `a1:8 ifname=ib0`.
Levels read_hostfile(const Text& text) {
    auto node = Cluster::Level{.name = "node"};
    auto hosts = UniqueNames(text, "the host");
    for (const auto& line : lines_of(text.content)) {
        const auto words = line.words();
        auto host = words.front();
        auto count = 0;
        if (const auto colon = host.find(':'); colon != std::string_view::npos) {
            count = number_of(text, line.number, host.substr(colon + 1), "the number of processes", 1);
            host = host.substr(0, colon);
        }
        of_hostfile::check_host(text, line.number, host);
        for (std::size_t i = 1; i < words.size(); ++i) {
            const auto equals = words[i].find('=');
            const auto key = words[i].substr(0, equals);
            if (equals == std::string_view::npos)
                text.fail(line.number, cat(in_quotes(words[i]), " is not a setting such as slots=8"));
            if (key != "slots" && key != "cpu" && key != "count") {
                if (key == "max_slots" || key == "max-slots" || key == "ifname" || key == "binding" ||
                    key == "user")
                    continue;
                text.fail(line.number, cat(in_quotes(key), " is not a setting of a host; slots is",
                                           did_you_mean(key, {"slots", "max_slots", "ifname"})));
            }
            const auto slots = number_of(text, line.number, words[i].substr(equals + 1), "slots", 1);
            if (count > 0 && count != slots)
                text.fail(line.number,
                          cat(in_quotes(host), " has ", count, " slots and ", slots, "; give it once"));
            count = slots;
        }
        hosts.add(std::string(host), line.number);
        if (!node.units.empty() && (node.units.front().count == 0) != (count == 0))
            text.fail(line.number,
                      cat(in_quotes(host), count == 0 ? " has no slots=, but hosts before it have"
                                                      : " has slots, but hosts before it have none"));
        node.units.push_back({std::string(host), count});
    }
    return {node};
}

/// Open MPI: `rank 0=a1 slot=0:0-3`; the devices of a host are the ranks on it.
Levels read_rankfile(const Text& text) {
    auto hosts = std::map<int, std::pair<std::string, int>>{};  // by rank: host and line
    for (const auto& line : lines_of(text.content)) {
        const auto words = line.words();
        const auto equals = words.size() > 1 ? words[1].find('=') : std::string_view::npos;
        if (words[0] != "rank" || equals == std::string_view::npos)
            text.fail(line.number, cat(in_quotes(line.text), " is not a line such as 'rank 0=a1 slot=0'"));
        const auto rank = number_of(text, line.number, words[1].substr(0, equals), "the rank", 0);
        const auto host = words[1].substr(equals + 1);
        of_hostfile::check_host(text, line.number, host);
        const auto [found, is_new] = hosts.emplace(rank, std::pair(std::string(host), line.number));
        if (!is_new)
            text.fail(line.number,
                      cat("rank ", rank, " is listed twice, first in line ", found->second.second));
    }
    auto node = Cluster::Level{.name = "node"};
    auto next = 0;
    for (const auto& [rank, host] : hosts) {
        if (rank != next++)
            text.fail(host.second, cat("rank ", rank, " has a line, and rank ", next - 1, " has none"));
        if (!node.units.empty() && node.units.back().name == host.first) {
            ++node.units.back().count;
            continue;
        }
        if (std::ranges::any_of(node.units, [&](const auto& unit) { return unit.name == host.first; }))
            text.fail(host.second,
                      cat("rank ", rank, " is on ", in_quotes(host.first),
                          " again after others; list the ranks of each host one after the other"));
        node.units.push_back({host.first, 1});
    }
    return {node};
}

}  // namespace rankmesh::cluster_files
