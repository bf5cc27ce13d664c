// SPDX-License-Identifier: Apache-2.0
// Reads clusters from Slurm: topology.conf of the plugins topology/tree and topology/block, and the variables
// of a job.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "cluster/read/formats.hpp"
#include "formats/text.hpp"

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::cluster_files {

using detail::cat;
using detail::in_quotes;

namespace of_slurm {

/// Returns the settings of a line by their names in lower case.
std::map<std::string, std::string_view, std::less<>> settings_of(const Text& text, const Line& line) {
    auto settings = std::map<std::string, std::string_view, std::less<>>{};
    for (const auto word : line.words()) {
        const auto equals = word.find('=');
        if (equals == std::string_view::npos)
            text.fail(line.number, cat(in_quotes(word), " is not a setting such as Nodes=a[01-31]"));
        const auto key = formats::lower(word.substr(0, equals));
        constexpr auto known =
            std::array{"switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes"};
        if (std::ranges::find(known, std::string_view(key)) == known.end())
            text.fail(line.number, cat(in_quotes(word.substr(0, equals)),
                                       " is not a setting of topology.conf; settings are SwitchName, "
                                       "Switches, Nodes, LinkSpeed, BlockName and BlockSizes"));
        if (!settings.emplace(key, word.substr(equals + 1)).second)
            text.fail(line.number, cat(in_quotes(word.substr(0, equals)), " is given twice"));
    }
    return settings;
}

struct Switch {
    int line = 0;
    std::vector<std::string> switches;
    std::vector<std::string> nodes;
    std::string parent = {};
};

class Tree {
public:
    explicit Tree(const Text& text) : text_(text) {}

    void add(const std::string& name, Switch made) {
        if (name.empty() || !std::ranges::all_of(name, is_name_character))
            text_.fail(made.line, cat(in_quotes(name), " is not the name of one switch"));
        const auto [found, is_new] = switches_.emplace(name, std::move(made));
        if (!is_new)
            text_.fail(made.line, cat("switch ", in_quotes(name), " is listed twice, first in line ",
                                      found->second.line));
        order_.push_back(name);
    }

    Levels levels() {
        set_parents();
        auto row = roots();
        auto levels = Levels{};
        while (true) {
            auto level = Cluster::Level{.name = "switch"};
            auto next = std::vector<std::string>{};
            for (const auto& name : row) {
                const auto& made = switches_.at(name);
                if (made.switches.empty() != switches_.at(row.front()).switches.empty())
                    text_.fail(
                        made.line,
                        cat("switch ", in_quotes(name), " has ", made.switches.empty() ? "nodes" : "switches",
                            " and ", in_quotes(row.front()), " of line ", switches_.at(row.front()).line,
                            ", at the same depth, has not; all nodes must have the same number of switches "
                            "above them"));
                const auto& inside = made.switches.empty() ? made.nodes : made.switches;
                level.units.push_back({name, static_cast<int>(inside.size())});
                next.insert(next.end(), inside.begin(), inside.end());
            }
            const auto leaves = switches_.at(row.front()).switches.empty();
            levels.push_back(std::move(level));
            row = std::move(next);
            if (leaves) break;
        }
        // Drop a single switch above all others.
        while (levels.size() > 1 && levels.front().units.size() == 1) levels.erase(levels.begin());
        for (std::size_t i = 0; i + 1 < levels.size(); ++i) levels[i].name = cat("switch", levels.size() - i);
        auto nodes = Cluster::Level{.name = "node"};
        for (auto& name : row) nodes.units.push_back({std::move(name), 0});
        levels.push_back(std::move(nodes));
        if (levels.size() > 15)
            text_.fail(0, cat("has ", levels.size() - 1, " levels of switches; at most 14 are supported"));
        return levels;
    }

private:
    void set_parents() {
        auto nodes = UniqueNames(text_, "the node");
        for (const auto& name : order_) {
            const auto& made = switches_.at(name);
            if (made.switches.empty() == made.nodes.empty())
                text_.fail(made.line, cat("switch ", in_quotes(name),
                                          made.nodes.empty() ? " has neither" : " has both", " Switches= ",
                                          made.nodes.empty() ? "nor" : "and", " Nodes=; give one of them"));
            for (const auto& node : made.nodes) nodes.add(node, made.line);
            for (const auto& inside : made.switches) {
                const auto found = switches_.find(inside);
                if (found == switches_.end())
                    text_.fail(made.line, cat("switch ", in_quotes(name), " has the switch ",
                                              in_quotes(inside), ", which no line describes"));
                if (!found->second.parent.empty())
                    text_.fail(made.line, cat("switch ", in_quotes(inside), " is in ",
                                              in_quotes(found->second.parent), " and in ", in_quotes(name)));
                found->second.parent = name;
            }
        }
    }

    std::vector<std::string> roots() const {
        auto roots = std::vector<std::string>{};
        auto reached = std::size_t{0};
        for (const auto& name : order_)
            if (switches_.at(name).parent.empty()) roots.push_back(name);
        auto open = roots;
        auto seen = std::set<std::string>{};
        while (!open.empty()) {
            const auto name = std::move(open.back());
            open.pop_back();
            ++reached;
            seen.insert(name);
            for (const auto& inside : switches_.at(name).switches) open.push_back(inside);
        }
        if (reached < order_.size())  // each switch has one parent; switches that no top reaches form a cycle
            for (const auto& name : order_)
                if (!seen.contains(name))
                    text_.fail(switches_.at(name).line,
                               cat("switch ", in_quotes(name), " is inside itself, through ",
                                   in_quotes(switches_.at(name).parent)));
        return roots;
    }

    const Text& text_;
    std::map<std::string, Switch> switches_;
    std::vector<std::string> order_;
};

/// Reads `8(x3),4` as one number for each node.
std::vector<int> repeated(const Text& text, int line, std::string_view list) {
    auto all = std::vector<int>{};
    while (true) {
        const auto comma = std::min(list.find(','), list.size());
        auto item = list.substr(0, comma);
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
        if (comma == list.size()) return all;
        list.remove_prefix(comma + 1);
    }
}

}  // namespace of_slurm

Levels read_slurm(const Text& text) {
    using namespace of_slurm;
    auto tree = Tree(text);
    auto block = Cluster::Level{.name = "block"};
    auto node = Cluster::Level{.name = "node"};
    auto sizes = std::vector<int>{};
    auto switches = 0;  // the line of the last one
    auto block_lines = std::vector<int>{};
    auto blocks = UniqueNames(text, "the block");
    auto nodes = UniqueNames(text, "the node");
    for (const auto& line : lines_of(text.content, true)) {
        const auto settings = settings_of(text, line);
        const auto value = [&](std::string_view key) -> std::optional<std::string_view> {
            const auto found = settings.find(key);
            return found == settings.end() ? std::nullopt : std::optional(found->second);
        };
        const auto list = [&](std::string_view key) {
            const auto given = value(key);
            return given ? text.names(*given, line.number) : std::vector<std::string>{};
        };
        if (const auto name = value("switchname")) {
            tree.add(std::string(*name),
                     {.line = line.number, .switches = list("switches"), .nodes = list("nodes")});
            switches = line.number;
        } else if (const auto block_name = value("blockname")) {
            blocks.add(std::string(*block_name), line.number);
            const auto inside = list("nodes");
            if (inside.empty())
                text.fail(line.number, cat("block ", in_quotes(*block_name), " has no Nodes="));
            for (const auto& name_of_node : inside) {
                nodes.add(name_of_node, line.number);
                node.units.push_back({name_of_node, 0});
            }
            block.units.push_back({std::string(*block_name), static_cast<int>(inside.size())});
            block_lines.push_back(line.number);
        } else if (const auto block_sizes = value("blocksizes")) {
            auto left = *block_sizes;
            while (true) {
                const auto comma = std::min(left.find(','), left.size());
                const auto size =
                    number_of(text, line.number, left.substr(0, comma), "a size of BlockSizes", 1);
                if (!sizes.empty() && (size % sizes.back() != 0 || size == sizes.back()))
                    text.fail(line.number, cat("BlockSizes has ", size, " behind ", sizes.back(),
                                               "; each must be a multiple of the one before"));
                sizes.push_back(size);
                if (comma == left.size()) break;
                left.remove_prefix(comma + 1);
            }
        } else {
            text.fail(line.number, "has neither SwitchName= nor BlockName= nor BlockSizes=");
        }
        if (switches > 0 && (!block.units.empty() || !sizes.empty()))
            text.fail(line.number, "has a block, but other lines have switches; use only one of them");
    }
    if (switches > 0) return tree.levels();
    if (block.units.empty()) text.fail(0, "describes no switch and no block");
    for (std::size_t i = 0; i < block.units.size() && !sizes.empty(); ++i)
        if (block.units[i].count < sizes.front())
            text.fail(block_lines[i],
                      cat("block ", in_quotes(block.units[i].name), " has ", block.units[i].count,
                          " nodes, fewer than the ", sizes.front(), " of BlockSizes"));
    // Groups blocks by the sizes, in the order of the file.
    auto outer = Levels{};
    auto inside = static_cast<int>(block.units.size());
    for (std::size_t i = 1; i < sizes.size(); ++i) {
        const auto each = sizes[i] / sizes[i - 1];
        auto level = Cluster::Level{.name = cat("block", sizes[i])};
        for (int first = 0; first < inside; first += std::min(each, inside - first))
            level.units.push_back({std::to_string(level.units.size()), std::min(each, inside - first)});
        inside = static_cast<int>(level.units.size());
        if (inside > 1) outer.insert(outer.begin(), std::move(level));
    }
    if (outer.size() > 12)
        text.fail(0, cat("BlockSizes has ", sizes.size(), " sizes; at most 12 are supported"));
    outer.push_back(std::move(block));
    outer.push_back(std::move(node));
    return outer;
}

namespace of_slurm {

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
    const auto found = variables.find("SLURM_GPUS_ON_NODE");
    const auto is_one = [](const auto& unit) { return unit.count == 1; };
    if (found == variables.end() || !std::ranges::all_of(node.units, is_one)) return;
    const auto& [value, line] = found->second;
    const auto gpus = number_of(text, line, value, "SLURM_GPUS_ON_NODE", 0);
    for (auto& unit : node.units) unit.count = std::max(gpus, 1);
}

}  // namespace of_slurm

/// Reads lines `NAME=value`, as printed by `env`; ignores other variables.
Levels read_slurm_variables(const Text& text) {
    auto variables = of_slurm::Variables{};
    for (const auto& line : lines_of(text.content)) {
        auto words = std::string_view(line.text);
        if (words.starts_with("export ")) words.remove_prefix(7);
        const auto equals = words.find('=');
        if (!words.starts_with("SLURM_") || equals == std::string_view::npos) continue;
        auto value = words.substr(equals + 1);
        if (value.size() > 1 && (value.front() == '"' || value.front() == '\'') &&
            value.back() == value.front())
            value = value.substr(1, value.size() - 2);
        variables.insert_or_assign(std::string(words.substr(0, equals)),
                                   std::pair(std::string(value), line.number));
    }
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
            const auto all = of_slurm::repeated(text, counts->second.second, counts->second.first);
            if (all.size() != node.units.size())
                text.fail(counts->second.second, cat(tasks, " is for ", all.size(), " nodes, and ", list,
                                                     " has ", node.units.size()));
            for (std::size_t i = 0; i < all.size(); ++i) node.units[i].count = all[i];
            of_slurm::check_distribution(text, variables, node);
            of_slurm::count_gpus(text, variables, node);
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

}  // namespace rankmesh::cluster_files
