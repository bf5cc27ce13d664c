// SPDX-License-Identifier: Apache-2.0
// Reads the variables of a job of Slurm or LSF, as env prints them.
#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

namespace of_variables {

/// Reads `8(x3),4` as one number for each node.
std::vector<int> repeated(const Text& text, int line, std::string_view list) {
    auto all = std::vector<int>{};
    for (auto item : formats::split(list, ',')) {
        auto times = 1;
        if (const auto bracket = item.find("(x"); bracket != std::string_view::npos && item.ends_with(')')) {
            times = number_of(text, line, item.substr(bracket + 2, item.size() - bracket - 3),
                              "a number of nodes", 1);
            item = item.substr(0, bracket);
        }
        const auto count = number_of(text, line, item, "a number of tasks", 1);
        if (times > Cluster::most_names - static_cast<int>(all.size()))
            text.fail(line, cat("there are tasks for more than ", Cluster::most_names, " nodes"));
        all.insert(all.end(), static_cast<std::size_t>(times), count);
    }
    return all;
}

/// The values of variables, and the lines that have them.
using Variables = std::map<std::string, std::pair<std::string, int>, std::less<>>;

/// Refuses a start whose ranks do not fill one node after the other.
void check_distribution(const Text& text, const Variables& variables, const Cluster::Level& node) {
    const auto found = variables.find("SLURM_DISTRIBUTION");
    const auto shares = [](const auto& unit) { return unit.count > 1; };
    if (found == variables.end() || node.units.size() == 1 || std::ranges::none_of(node.units, shares))
        return;
    const auto& [value, line] = found->second;
    const auto plane = variables.find("SLURM_DIST_PLANESIZE");
    const auto is_filled = [&](const auto& unit) {
        return plane != variables.end() && plane->second.first == std::to_string(unit.count);
    };
    if (value.starts_with("plane") && std::ranges::all_of(node.units, is_filled)) return;
    for (const auto* other : {"cyclic", "plane", "arbitrary"})
        if (value.starts_with(other))
            text.fail(line, cat("SLURM_DISTRIBUTION is ", in_quotes(value),
                                ", so ranks may not fill one node after the other; start with srun "
                                "--distribution=block, and unset SLURM_DISTRIBUTION"));
}

/// One task on each node is a launcher, such as torchrun, that starts a rank for each GPU.
void count_gpus(const Text& text, const Variables& variables, Cluster::Level& node) {
    const auto here = variables.find("SLURM_GPUS_ON_NODE");
    const auto found = here == variables.end() ? variables.find("SLURM_GPUS_PER_NODE") : here;
    const auto is_one = [](const auto& unit) { return unit.count == 1; };
    if (found == variables.end() || !std::ranges::all_of(node.units, is_one)) return;
    const auto& [value, line] = found->second;
    // salloc sets only the second, which may have a type: h100:8.
    const auto gpus =
        number_of(text, line, std::string_view(value).substr(value.rfind(':') + 1), found->first, 0);
    for (auto& unit : node.units) unit.count = std::max(gpus, 1);
}

/// Returns the variables of lines `NAME=value` whose names have this prefix.
Variables variables_of(const Text& text, std::string_view prefix) {
    auto variables = Variables{};
    for (const auto& line : lines_of(text.content)) {
        auto words = std::string_view(line.text);
        if (words.starts_with("export ")) words.remove_prefix(7);
        const auto equals = words.find('=');
        if (!words.starts_with(prefix) || equals == std::string_view::npos) continue;
        auto value = words.substr(equals + 1);
        if (value.size() > 1 && (value.front() == '"' || value.front() == '\'') &&
            value.back() == value.front())
            value = value.substr(1, value.size() - 2);
        variables.insert_or_assign(std::string(words.substr(0, equals)),
                                   std::pair(std::string(value), line.number));
    }
    return variables;
}

}  // namespace of_variables

Levels read_slurm_variables(const Text& text) {
    const auto variables = of_variables::variables_of(text, "SLURM_");
    // A step may run on fewer nodes than its job.
    for (const auto& [list, tasks] : {std::pair("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"),
                                      std::pair("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"),
                                      std::pair("SLURM_NODELIST", "SLURM_TASKS_PER_NODE")}) {
        const auto found = variables.find(list);
        if (found == variables.end()) continue;
        const auto& [names, line] = found->second;
        auto node = Cluster::Level{.name = "node"};
        for (auto& name : text.names(names, line)) node.units.push_back({std::move(name), 0});
        if (const auto counts = variables.find(tasks); counts != variables.end()) {
            const auto all = of_variables::repeated(text, counts->second.second, counts->second.first);
            if (all.size() != node.units.size())
                text.fail(counts->second.second, cat(tasks, " is for ", all.size(), " nodes, and ", list,
                                                     " has ", node.units.size()));
            for (std::size_t i = 0; i < all.size(); ++i) node.units[i].count = all[i];
            of_variables::check_distribution(text, variables, node);
            of_variables::count_gpus(text, variables, node);
        }
        if (const auto address = variables.find("SLURM_TOPOLOGY_ADDR"); address != variables.end()) {
            const auto& [path, at] = address->second;
            const auto here = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
            if (std::ranges::none_of(node.units, [&](const auto& unit) { return unit.name == here; }))
                text.fail(at, cat("SLURM_TOPOLOGY_ADDR says that this is ", in_quotes(here), ", which ", list,
                                  " does not have"));
        }
        return {node};
    }
    text.fail(0, "has no SLURM_JOB_NODELIST");
}

/// `LSB_MCPU_HOSTS="a1 4 a2 4"`, else `LSB_HOSTS="a1 a1 a2"`: the slots of each host.
Levels read_lsf_variables(const Text& text) {
    const auto variables = of_variables::variables_of(text, "LSB_");
    auto nodes = Nodes(text);
    const auto counted = variables.find("LSB_MCPU_HOSTS");
    const auto found = counted != variables.end() ? counted : variables.find("LSB_HOSTS");
    if (found == variables.end()) text.fail(0, "has no LSB_MCPU_HOSTS and no LSB_HOSTS");
    const auto& [value, number] = found->second;
    const auto line = Line{number, value};
    const auto words = line.words();
    const auto each = found == counted ? std::size_t{2} : std::size_t{1};
    if (words.size() % each != 0)
        text.fail(number, cat(found->first, " ends before the number of slots of ", in_quotes(words.back())));
    for (std::size_t i = 0; i < words.size(); i += each)
        nodes.add(words[i], each == 1 ? 1 : number_of(text, number, words[i + 1], "the number of slots", 1),
                  number);
    return levels_of_nodes(text, std::move(nodes.list));
}

}  // namespace rankmesh::cluster_files
