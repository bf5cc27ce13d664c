// SPDX-License-Identifier: Apache-2.0
// Reads Slurm's descriptions of a cluster: topology.conf and topology.yaml of topology/tree and
// topology/block, and what scontrol show topology prints.
#include <array>

#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

namespace of_slurm {

using Names = std::vector<std::string>;
constexpr auto most_heights = 14;  // of switches

/// Returns the settings of a line by their names in lower case.
std::map<std::string, std::string_view, std::less<>> settings_of(const Text& text, const Line& line) {
    auto settings = std::map<std::string, std::string_view, std::less<>>{};
    for (const auto word : line.words()) {
        const auto equals = word.find('=');
        if (equals == std::string_view::npos)
            text.fail(line.number, cat(in_quotes(word), " is not a setting such as Nodes=a[01-31]"));
        const auto key = formats::lower(word.substr(0, equals));
        constexpr auto known =
            std::array{"switchname", "switches",   "nodes",     "linkspeed",       "level",
                       "blockname",  "blocksizes", "blocksize", "aggregatedblock", "blockindex"};
        if (key == "ringname") text.fail(line.number, "has a ring, which is not a tree of levels");
        if (std::ranges::find(known, std::string_view(key)) == known.end())
            text.fail(line.number, cat(in_quotes(word.substr(0, equals)),
                                       " is not a setting of topology.conf; settings are SwitchName, "
                                       "Switches, Nodes, LinkSpeed, BlockName and BlockSizes"));
        if (!settings.emplace(key, word.substr(equals + 1)).second)
            text.fail(line.number, cat(in_quotes(word.substr(0, equals)), " is given twice"));
    }
    return settings;
}

/// A switch or a block.
struct Unit {
    std::string name;
    int line = 0;
    Names switches = {};
    Names nodes = {};
    int height = -1;           // of a switch: 0 holds nodes
    std::string parent = {};   // of a switch
    std::string same_as = {};  // the first switch that holds the same, maybe this one
};

/// The switches or the blocks of a topology.
class Topology {
public:
    explicit Topology(const Text& text) : text_(text) {}

    void add_switch(Unit made) {
        if (made.name.empty() || !std::ranges::all_of(made.name, is_name_character))
            text_.fail(made.line, cat(in_quotes(made.name), " is not the name of one switch"));
        if (made.switches.empty() == made.nodes.empty())
            text_.fail(made.line,
                       cat("switch ", in_quotes(made.name), made.nodes.empty() ? " has neither" : " has both",
                           " switches ", made.nodes.empty() ? "nor" : "and", " nodes; give one of them"));
        unique_.add(made.name, made.line);
        places_.emplace(made.name, switches_.size());
        switches_.push_back(std::move(made));
    }

    void add_block(Unit made) {
        unique_.add(made.name, made.line);
        if (made.nodes.empty()) text_.fail(made.line, cat("block ", in_quotes(made.name), " has no nodes"));
        blocks_.push_back(std::move(made));
    }

    void add_size(int size, int line) {
        if (std::ranges::find(sizes_, size) != sizes_.end()) return;
        if (!sizes_.empty() && size % sizes_.back() != 0)
            text_.fail(line, cat("BlockSizes has ", size, " behind ", sizes_.back(),
                                 "; each must be a multiple of the one before"));
        sizes_.push_back(size);
    }

    Levels levels() {
        if (!switches_.empty() && (!blocks_.empty() || !sizes_.empty()))
            text_.fail(blocks_.empty() ? 0 : blocks_.front().line,
                       "has a block, but other lines have switches; use only one of them");
        if (!switches_.empty()) return levels_of_switches();
        if (!blocks_.empty()) return levels_of_blocks();
        text_.fail(0, "describes no switch and no block");
    }

private:
    Unit& at(const std::string& name) { return switches_[places_.find(name)->second]; }

    [[noreturn]] void too_many() const {
        text_.fail(0, cat("has more than ", most_heights, " levels of switches, the limit"));
    }

    /// Sets the heights of a switch and of those inside it, and returns its own. It is inside `around`.
    int height_of(Unit& unit, std::vector<const Unit*>& around) {
        if (unit.switches.empty()) unit.height = 0;
        if (unit.height >= 0) return unit.height;
        if (std::ranges::find(around, &unit) != around.end())
            text_.fail(unit.line, cat("switch ", in_quotes(unit.name), " is inside itself"));
        constexpr auto deepest = std::size_t{1000};  // in which a circle is found
        if (around.size() == deepest) too_many();
        around.push_back(&unit);
        auto heights = std::vector<int>{};
        for (const auto& inside : unit.switches) {
            if (!places_.contains(inside))
                text_.fail(unit.line, cat("switch ", in_quotes(unit.name), " has the switch ",
                                          in_quotes(inside), ", which no line describes"));
            heights.push_back(height_of(at(inside), around));
        }
        around.pop_back();
        const auto [lowest, highest] = std::ranges::minmax_element(heights);
        if (*lowest < *highest)
            text_.fail(unit.line,
                       cat("switch ", in_quotes(unit.name), " holds ",
                           in_quotes(unit.switches[static_cast<std::size_t>(lowest - heights.begin())]),
                           ", which has fewer levels of switches inside than others; all nodes must have the "
                           "same number of switches above them"));
        unit.height = *highest + 1;
        if (unit.height == most_heights) too_many();
        return unit.height;
    }

    /// Makes switches of a height that hold the same one unit, as a fabric has several core switches. Sets
    /// what each unit is in.
    void set_parents(int height, std::map<std::string, std::string>& parent_of_node) {
        auto same = std::map<Names, std::string>{};
        for (auto& unit : switches_) {
            if (unit.height != height) continue;
            auto inside = height == 0 ? unit.nodes : Names{};
            for (const auto& name : unit.switches) inside.push_back(at(name).same_as);
            std::ranges::sort(inside);
            if (const auto twice = std::ranges::adjacent_find(inside); twice != inside.end() && height == 0)
                text_.fail(unit.line,
                           cat("switch ", in_quotes(unit.name), " lists ", in_quotes(*twice), " twice"));
            inside.erase(std::ranges::unique(inside).begin(), inside.end());
            unit.same_as = same.emplace(inside, unit.name).first->second;
            if (unit.same_as != unit.name) continue;
            for (const auto& name : inside) {
                auto& parent = height == 0 ? parent_of_node[name] : at(name).parent;
                if (!parent.empty())
                    text_.fail(unit.line, cat(in_quotes(name), " is in ", in_quotes(parent), " and in ",
                                              in_quotes(unit.name),
                                              ", which hold others, too; a switch must be in one other, or "
                                              "in several that hold the same"));
                parent = unit.name;
            }
        }
    }

    Levels levels_of_switches() {
        auto top = 0;
        auto parent_of_node = std::map<std::string, std::string>{};
        auto around = std::vector<const Unit*>{};
        for (auto& unit : switches_) top = std::max(top, height_of(unit, around));
        for (int height = 0; height <= top; ++height) set_parents(height, parent_of_node);
        auto nodes = std::vector<Node>{};
        for (const auto& unit : switches_) {
            if (unit.height < top && unit.same_as == unit.name && unit.parent.empty())
                text_.fail(unit.line, cat("switch ", in_quotes(unit.name),
                                          " is in no switch, and others are; all nodes must have the same "
                                          "number of switches above them"));
            if (unit.height > 0 || unit.same_as != unit.name) continue;
            auto units = Names{};
            for (auto name = unit.name; !name.empty(); name = at(name).parent)
                units.insert(units.begin(), name);
            for (const auto& node : unit.nodes) nodes.push_back({.name = node, .around = units});
        }
        auto levels = Names{"switch"};
        for (int height = 1; height <= top; ++height)
            levels.insert(levels.begin(), cat("switch", height + 1));
        // All chains of parents have this length: a unit without a parent is of the top.
        return levels_of_nodes(text_, std::move(nodes), levels);
    }

    /// Groups blocks by the sizes, in the order of the file.
    Levels levels_of_blocks() {
        if (sizes_.size() > most_heights)
            text_.fail(
                0, cat("BlockSizes has ", sizes_.size(), " sizes; at most ", most_heights, " are supported"));
        auto levels = Names{"block"};
        for (std::size_t i = 1; i < sizes_.size(); ++i)
            levels.insert(levels.begin(), cat("block", sizes_[i]));
        auto nodes = std::vector<Node>{};
        auto unique = UniqueNames(text_, "the node");
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            const auto& [name, line, switches, inside] =
                std::tie(blocks_[i].name, blocks_[i].line, blocks_[i].switches, blocks_[i].nodes);
            if (!sizes_.empty() && static_cast<int>(inside.size()) < sizes_.front())
                text_.fail(line, cat("block ", in_quotes(name), " has ", inside.size(),
                                     " nodes, fewer than the ", sizes_.front(), " of BlockSizes"));
            auto around = Names{name};
            for (std::size_t size = 1; size < sizes_.size(); ++size)
                around.insert(around.begin(),
                              std::to_string(i / static_cast<std::size_t>(sizes_[size] / sizes_[0])));
            for (const auto& node : inside) {
                unique.add(node, line);
                nodes.push_back({.name = node, .around = around});
            }
        }
        return levels_of_nodes(text_, std::move(nodes), levels);
    }

    const Text& text_;
    std::vector<Unit> switches_;
    std::map<std::string, std::size_t> places_;  // of switches
    std::vector<Unit> blocks_;
    std::vector<int> sizes_;
    UniqueNames unique_{text_, "the switch or block"};
};

}  // namespace of_slurm

Levels read_slurm(const Text& text) {
    auto topology = of_slurm::Topology(text);
    for (const auto& line : lines_of(text.content, true)) {
        const auto settings = of_slurm::settings_of(text, line);
        const auto value = [&](std::string_view key) {
            const auto found = settings.find(key);
            return found == settings.end() ? std::nullopt : std::optional(found->second);
        };
        const auto list = [&](std::string_view key) {
            const auto given = value(key);
            return given ? text.names(*given, line.number) : of_slurm::Names{};
        };
        // scontrol lists the nodes of all switches, not only of leaves.
        const auto is_leaf = value("level").value_or("0") == "0" || !value("switches");
        const auto sizes = value("blocksizes") ? value("blocksizes") : value("blocksize");
        const auto number = line.number;
        if (const auto name = value("switchname"))
            topology.add_switch(
                {std::string(*name), number, list("switches"), is_leaf ? list("nodes") : of_slurm::Names{}});
        else if (const auto block = value("blockname"))
            topology.add_block({.name = std::string(*block), .line = number, .nodes = list("nodes")});
        else if (!sizes)
            text.fail(number, "has neither SwitchName= nor BlockName= nor BlockSizes=");
        for (const auto size : formats::words_of(sizes.value_or(""), ","))
            topology.add_size(number_of(text, number, size, "a size of BlockSizes", 1), number);
    }
    return topology.levels();
}

/// Reads the default topology of the file, or the only one.
Levels read_slurm_yaml(const Text& text) {
    const auto all = formats::parse_yaml(text.content, cat("the topologies in ", text.source));
    const auto topologies = elements_of(all);
    const auto found = std::ranges::find_if(
        topologies, [](const Json& one) { return value_at(one, {"cluster_default"}) == Json(true); });
    if (found == topologies.end() && topologies.size() != 1)
        text.fail(0, cat("has ", topologies.size(),
                         " topologies, and none with cluster_default: true; leave one of them"));
    const auto& chosen = found == topologies.end() ? topologies.front() : *found;
    auto topology = of_slurm::Topology(text);
    const auto list = [&](const Json& unit, std::string_view key) {
        const auto given = text_of(value_at(unit, {key}));
        return given.empty() ? of_slurm::Names{} : text.names(given, 0);
    };
    for (const auto& unit : elements_of(value_at(chosen, {"tree", "switches"})))
        topology.add_switch(
            {text_of(value_at(unit, {"switch"})), 0, list(unit, "children"), list(unit, "nodes")});
    for (const auto& unit : elements_of(value_at(chosen, {"block", "blocks"})))
        topology.add_block({.name = text_of(value_at(unit, {"block"})), .nodes = list(unit, "nodes")});
    for (const auto& size : elements_of(value_at(chosen, {"block", "block_sizes"})))
        topology.add_size(number_of(text, 0, text_of(size), "a size of block_sizes", 1), 0);
    return topology.levels();
}

}  // namespace rankmesh::cluster_files
