// SPDX-License-Identifier: Apache-2.0
// Reads the nodes of Slurm and their GPUs: slurm.conf, and what scontrol show node and sinfo print.
#include <array>
#include <set>

#include "cluster/names.hpp"
#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

namespace of_slurm_nodes {

constexpr auto most_gpus = 1 << 20;  // of a node
/// Settings whose text goes to the end of a line of scontrol.
constexpr auto free_texts = std::array<std::string_view, 4>{"comment", "extra", "os", "reason"};

/// Returns the GPUs of `gpu:h100:8(S:0-1),nvme:1`; `gpu` is one.
int gpus_of(const Text& text, int line, std::string_view gres) {
    auto plain = std::string{};
    auto depth = 0;
    for (const auto c : gres) {
        depth += c == '(' ? 1 : 0;
        if (depth == 0) plain += c;
        depth -= c == ')' && depth > 0 ? 1 : 0;
    }
    auto gpus = std::int64_t{0};
    for (const auto item : formats::split(plain, ',')) {
        if (item != "gpu" && !item.starts_with("gpu:")) continue;
        const auto last = item.substr(item.rfind(':') + 1);
        const auto has_count = !last.empty() && last.front() >= '0' && last.front() <= '9';
        gpus += has_count ? number_of(text, line, last, "the number of GPUs", 0) : 1;
        if (gpus > most_gpus) text.fail(line, cat("has more than ", most_gpus, " GPUs in one node"));
    }
    return static_cast<int>(gpus);
}

/// Returns true for a state in which Slurm starts no job on a node: `drain*`, `IDLE+DRAIN`, `inval`. A node
/// that does not respond is out, `idle*`, unless Slurm has not heard of it yet, `unk*`.
bool is_out(std::string_view state) {
    const auto lower = formats::lower(state);
    if (lower.starts_with("unk")) return false;
    return lower.find('*') != std::string::npos ||
           std::ranges::any_of(formats::split(lower, '+'), [](std::string_view part) {
               constexpr auto out = std::array{"dr", "down", "fail", "fut", "inval", "not_resp", "no_resp"};
               return std::ranges::any_of(out, [&](const char* word) { return part.starts_with(word); });
           });
}

/// Removes nodes that are out, and notes them.
Levels levels_without(const Text& text, std::vector<Node> nodes, const std::set<std::string>& out) {
    text.leave_out(nodes, "Slurm starts no job on them",
                   [&](const Node& node) { return out.contains(node.name); });
    return levels_of_nodes(text, std::move(nodes));
}

/// Reads a table with a column NODELIST or HOSTNAMES, and GRES if it has one; partitions may share nodes.
Levels read_sinfo(const Text& text, const std::vector<Line>& lines,
                  const std::vector<Line>::const_iterator& heading) {
    const auto columns = heading->words();
    const auto column = [&](std::string_view name) {
        return static_cast<std::size_t>(std::ranges::find(columns, name) - columns.begin());
    };
    const auto names = std::min(column("NODELIST"), column("HOSTNAMES"));
    const auto gres = column("GRES");
    const auto state = column("STATE");
    const auto partition = column("PARTITION");
    auto out = std::set<std::string>{};
    auto nodes = Nodes(text);
    auto partitions = std::map<std::string, std::set<std::string>>{};
    for (auto line = heading + 1; line != lines.end(); ++line) {
        const auto words = line->words();
        if (words.size() + 1 == columns.size() && names == words.size() && state < names &&
            words[state] == "n/a")
            continue;  // a partition without nodes
        if (words.size() < columns.size() || (words.size() > columns.size() && columns.back() != "REASON"))
            text.fail(line->number, cat("has ", words.size(), " columns, and the heading has ",
                                        columns.size(), "; give the output of sinfo -o '%P %N %G %t'"));
        const auto gpus = gres < words.size() ? gpus_of(text, line->number, words[gres]) : 0;
        for (const auto& name : text.names(words[names], line->number)) {
            if (!nodes.contains(name)) nodes.add(name, gpus, line->number);
            if (state < words.size() && is_out(words[state])) out.insert(name);
            if (partition < words.size()) partitions[formats::lower(words[partition])].insert(name);
        }
    }
    const auto differ = [&](const auto& one) { return one.second != partitions.begin()->second; };
    if (gres == columns.size() && std::ranges::any_of(partitions, differ))
        text.fail(0, cat("has ", partitions.size(),
                         " partitions, and does not say which nodes have GPUs; give the output of "
                         "sinfo -o '%P %N %G %t', or of one partition: sinfo -p NAME"));
    return levels_without(text, std::move(nodes.list), out);
}

}  // namespace of_slurm_nodes

Levels read_slurm_nodes(const Text& text) {
    const auto lines = lines_of(text.content, true);
    const auto heading = std::ranges::find_if(lines, [](const Line& line) {
        return std::ranges::any_of(line.words(),
                                   [](auto word) { return word == "NODELIST" || word == "HOSTNAMES"; });
    });
    if (heading != lines.end()) return of_slurm_nodes::read_sinfo(text, lines, heading);
    auto nodes = Nodes(text);
    auto unique = UniqueNames(text, "the node");
    auto usual = 0;                 // GPUs, of NodeName=DEFAULT
    auto from = nodes.list.size();  // the nodes of the last NodeName=
    auto is_usual = false;
    auto out = std::set<std::string>{};
    for (const auto& line : lines)
        for (const auto word : line.words()) {
            const auto equals = std::min(word.find('='), word.size());
            const auto key = formats::lower(word.substr(0, equals));
            const auto value = word.substr(std::min(equals + 1, word.size()));
            if (std::ranges::count(of_slurm_nodes::free_texts, key) > 0 && !value.starts_with('"')) break;
            if (key == "include") text.say("not read: the files that Include names");
            if (key == "nodename") {
                from = nodes.list.size();
                is_usual = value == "DEFAULT";
                if (is_usual) continue;
                for (const auto& name : text.names(value, line.number)) {
                    unique.add(name, line.number);
                    nodes.add(name, usual, line.number);
                }
            } else if (key == "gres") {
                const auto gpus = of_slurm_nodes::gpus_of(text, line.number, value);
                if (is_usual) usual = gpus;
                for (auto i = from; i < nodes.list.size(); ++i) nodes.list[i].count = gpus;
            } else if (key == "partitionname" || key == "downnodes") {
                from = nodes.list.size();  // the state that follows is not that of nodes before
                if (key == "downnodes")
                    std::ranges::move(text.names(value, line.number), std::inserter(out, out.end()));
            } else if (key == "state" && of_slurm_nodes::is_out(value)) {
                for (auto i = from; i < nodes.list.size(); ++i) out.insert(nodes.list[i].name);
            }
        }
    return of_slurm_nodes::levels_without(text, std::move(nodes.list), out);
}

}  // namespace rankmesh::cluster_files
