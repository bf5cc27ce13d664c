// SPDX-License-Identifier: Apache-2.0
// Hostfiles and rankfiles of MPI launchers.
#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

/// Open MPI: `a1 slots=8 max_slots=16`; MPICH: `a1:8 ifname=ib0`; PBS: a line for each slot. Names may be a
/// list, `a[01-31],b1`.
Levels read_hostfile(const Text& text) {
    struct Given {
        int line;
        bool has_slots;
    };
    auto nodes = Nodes(text);
    auto given = std::map<std::string, Given>{};
    auto repeated = false;
    for (auto& line : lines_of(text.content)) {
        // Open MPI takes blanks around '='.
        for (auto at = line.text.find('='); at != std::string::npos; at = line.text.find('=', at + 1)) {
            while (line.text[at + 1] == ' ') line.text.erase(at + 1, 1);
            while (at > 0 && line.text[at - 1] == ' ') line.text.erase(--at, 1);
        }
        const auto words = line.words();
        auto host = words.front();
        auto count = 0;
        if (const auto colon = host.find(':'); colon != std::string_view::npos) {
            count = number_of(text, line.number, host.substr(colon + 1), "the number of processes", 1);
            host = host.substr(0, colon);
        }
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
        const auto is_list = host.find_first_of("[,") != std::string_view::npos;
        for (const auto& name : is_list ? text.names(host, line.number) : std::vector{std::string(host)}) {
            const auto [found, is_new] = given.emplace(name, Given{line.number, count > 0});
            if (!is_new && count > 0)
                text.fail(line.number,
                          cat("the host ", in_quotes(name), " has slots here, and line ", found->second.line,
                              " lists it already; give its slots once, or list it once for "
                              "each slot"));
            repeated = repeated || !is_new;
            nodes.add(name, std::max(count, 1), line.number);
        }
    }
    // Without any number, and each host once, the file does not say how many devices a host has.
    const auto has_slots = [](const auto& host) { return host.second.has_slots; };
    const auto counted = std::ranges::find_if(given, has_slots);
    if (repeated) return levels_of_nodes(text, std::move(nodes.list));
    for (const auto& [name, host] : given)
        if (counted != given.end() && !host.has_slots)
            text.fail(host.line, cat(in_quotes(name), " has no slots=, but other hosts have"));
    for (auto& node : nodes.list) node.count = counted == given.end() ? 0 : node.count;
    return levels_of_nodes(text, std::move(nodes.list));
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
        const auto [found, is_new] = hosts.emplace(rank, std::pair(std::string(host), line.number));
        if (!is_new)
            text.fail(line.number,
                      cat("rank ", rank, " is listed twice, first in line ", found->second.second));
    }
    auto nodes = Nodes(text);
    auto next = 0;
    for (const auto& [rank, host] : hosts) {
        if (rank != next++)
            text.fail(host.second, cat("rank ", rank, " has a line, and rank ", next - 1, " has none"));
        nodes.add(host.first, 1, host.second);
    }
    return levels_of_nodes(text, std::move(nodes.list));
}

}  // namespace rankmesh::cluster_files
