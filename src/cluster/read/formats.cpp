// SPDX-License-Identifier: Apache-2.0
#include "cluster/read/formats.hpp"

#include <limits>
#include <set>
#include <utility>

#include <rankmesh/core/detail/number.hpp>

#include "cluster/names.hpp"

namespace rankmesh::cluster_files {

void Text::fail(int line, std::string_view why) const {
    throw UsageError(line > 0 ? cat(source, ":", line, ": ", why) : cat(source, ": ", why));
}

void Text::say(std::string_view sentence) const {
    if (note == nullptr || note->find(sentence) != std::string::npos) return;
    *note += cat(note->empty() ? "" : "; ", sentence);
}

void Text::leave_out(std::vector<Node>& nodes, std::string_view why,
                     const std::function<bool(const Node&)>& is_out) const {
    auto names = std::vector<std::string_view>{};
    for (const auto& node : nodes)
        if (is_out(node)) names.emplace_back(node.name);
    if (names.empty()) return;
    if (names.size() == nodes.size())
        fail(0, cat("lists no node that can run the job, because ", why, "; list nodes that can"));
    std::ranges::sort(names);
    say(cat("left out, because ", why, ": ", detail::excerpt(detail::folded(names))));
    std::erase_if(nodes, is_out);
}

std::vector<std::string> Text::names(std::string_view list, int line) const {
    return detail::expanded(list, line > 0 ? cat(source, ":", line) : source, Cluster::most_names);
}

std::vector<Line> lines_of(std::string_view text, bool continued) {
    auto lines = std::vector<Line>{};
    auto number = 0;
    auto goes_on = false;
    for (auto line : formats::split(text, '\n')) {
        ++number;
        line = line.substr(0, line.find('#'));
        line.remove_suffix(line.size() - line.find_last_not_of(" \t\r") - 1);
        const auto more = continued && line.ends_with('\\');
        if (more) line.remove_suffix(1);
        if (!goes_on) lines.push_back({number, ""});
        lines.back().text.append(line);
        goes_on = more;
    }
    for (auto& line : lines) line.text = formats::trimmed(line.text);
    std::erase_if(lines, [](const Line& line) { return line.text.empty(); });
    return lines;
}

Json json_of(const Text& text) try {
    return Json::parse(text.content);
} catch (const Json::SyntaxError& error) {
    text.fail(0, cat("is not JSON: something is wrong at character ", error.byte));
}

const Json& value_at(const Json& json, std::initializer_list<std::string_view> keys) {
    static const auto null = Json();
    const auto* at = &json;
    for (const auto key : keys) {
        if (!at->is_object() || !at->contains(key)) return null;
        at = &std::as_const(*at)[key];
    }
    return *at;
}

std::span<const Json> elements_of(const Json& json) {
    if (!json.is_array()) return {};
    return {json.begin(), json.end()};
}

std::string text_of(const Json& json) {
    if (json.is_string()) return json.text();
    return json.is_number() ? json.dump() : "";
}

Node& Nodes::add(std::string_view name, int count, int line) {
    if (name.empty() || !std::ranges::all_of(name, is_name_character))
        text_.fail(line, cat(in_quotes(name),
                             " is not a host name; names are letters, digits, '_', '-' or '.', without a "
                             "user or a port"));
    const auto [place, is_new] = places_.try_emplace(std::string(name), list.size());
    if (is_new) list.push_back({.name = std::string(name)});
    auto& node = list[place->second];
    if (count > std::numeric_limits<int>::max() - node.count)
        text_.fail(line, cat("the devices of ", in_quotes(name), " are more than 2147483647"));
    node.count += count;
    return node;
}

Levels levels_of_nodes(const Text& text, std::vector<Node> nodes, const std::vector<std::string>& around) {
    const auto is_bare = [](const Node& node) { return node.count == 0; };
    if (!std::ranges::all_of(nodes, is_bare)) text.leave_out(nodes, "they have no devices", is_bare);
    if (nodes.empty()) text.fail(0, "has no nodes");
    using Numbers =
        std::map<std::string, std::size_t, std::less<>>;  // of the units, as they are first listed
    auto numbers = std::vector<Numbers>(around.size());
    auto outer = std::map<std::pair<std::size_t, std::string>, std::string>{};  // of each unit
    for (const auto& node : nodes)
        for (std::size_t level = 0; level < around.size(); ++level) {
            const auto& unit = node.around[level];
            numbers[level].emplace(unit, numbers[level].size());
            if (level == 0) continue;
            const auto& now = outer.emplace(std::pair(level, unit), node.around[level - 1]).first->second;
            if (now != node.around[level - 1])
                text.fail(0, cat(around[level], " ", in_quotes(unit), " is in ", around[level - 1], " ",
                                 in_quotes(now), " and in ", in_quotes(node.around[level - 1]),
                                 "; a unit must be inside one other"));
        }
    auto order = std::vector<std::pair<std::vector<std::size_t>, std::size_t>>{};  // of the nodes
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        order.push_back({{}, i});
        for (std::size_t level = 0; level < around.size(); ++level)
            order.back().first.push_back(numbers[level].at(nodes[i].around[level]));
    }
    std::ranges::sort(order);
    auto sorted = std::vector<Node>{};
    for (const auto& [units, i] : order) sorted.push_back(std::move(nodes[i]));
    nodes = std::move(sorted);
    auto kept = std::vector<std::size_t>{};
    for (std::size_t level = 0; level < around.size(); ++level) {
        const auto count = numbers[level].size();
        if (count == 1 || count == nodes.size()) continue;
        if (!kept.empty() && count == numbers[kept.back()].size()) kept.pop_back();
        kept.push_back(level);
    }
    auto levels = Levels{};
    for (std::size_t i = 0; i < kept.size(); ++i) {
        auto& level = levels.emplace_back(Cluster::Level{.name = around[kept[i]]});
        for (const auto& node : nodes) {
            const auto* last = &node == nodes.data() ? nullptr : &node - 1;
            const auto begins = [&](std::size_t of) {
                return last == nullptr || last->around[of] != node.around[of];
            };
            if (begins(kept[i])) level.units.push_back({node.around[kept[i]], 0});
            if (i + 1 == kept.size() || begins(kept[i + 1])) ++level.units.back().count;
        }
    }
    auto& level = levels.emplace_back(Cluster::Level{.name = "node"});
    for (auto& node : nodes) level.units.push_back({std::move(node.name), node.count});
    return levels;
}

int number_of(const Text& text, int line, std::string_view digits, std::string_view of, int least) {
    const auto number = detail::number_in(digits);
    constexpr auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!number && !digits.empty() && std::ranges::all_of(digits, is_digit))
        text.fail(line, cat(of, " is ", detail::excerpt(digits), ", more than 2147483647, the limit"));
    if (!number || *number < least)
        text.fail(line,
                  cat(of, " is ", in_quotes(digits), ", which is not a whole number of ", least, " or more"));
    return *number;
}

void UniqueNames::add(const std::string& name, int line) {
    const auto [found, is_new] = lines_.emplace(name, line);
    if (!is_new)
        text_.fail(line, cat(what_, " ", in_quotes(name), " is listed twice, first in line ", found->second));
}

Levels levels_of(const Text& text, const std::vector<Division>& divisions, const std::string& device,
                 int devices) {
    // Keep a division if it splits the units of the last kept division, but not down to devices.
    auto kept = std::vector<Division>{};
    auto last = std::vector<int>(static_cast<std::size_t>(devices));  // the unit of each device, renumbered
    auto count = 1;
    for (const auto& [name, units] : divisions) {
        auto renumbered = std::vector<int>{};
        auto seen = std::set<std::pair<int, int>>{};
        for (std::size_t i = 0; i < last.size(); ++i) {
            const auto begins = i == 0 || units[i] != units[i - 1] || last[i] != last[i - 1];
            if (begins && !seen.insert({last[i], units[i]}).second)
                text.fail(0, cat("the devices of one ", name, " are not contiguous: ", device, " ", i,
                                 " is in the same as one before ", device, " ", i - 1,
                                 ", so the devices in their order fill no tree"));
            renumbered.push_back((i == 0 ? -1 : renumbered.back()) + (begins ? 1 : 0));
        }
        const auto now = renumbered.empty() ? 0 : renumbered.back() + 1;
        if (now == count || now == devices) continue;
        kept.push_back({name, renumbered});
        last = std::move(renumbered);
        count = now;
    }
    auto levels = Levels{};
    auto outside = 1;  // units
    auto above = std::vector<int>(static_cast<std::size_t>(devices));
    kept.push_back({device, {}});
    for (int i = 0; i < devices; ++i) kept.back().units.push_back(i);
    for (const auto& [name, units] : kept) {
        auto inside = std::vector<int>(static_cast<std::size_t>(outside));  // of each unit outside
        for (std::size_t i = 0; i < units.size(); ++i)
            if (i == 0 || units[i] != units[i - 1]) ++inside[static_cast<std::size_t>(above[i])];
        if (std::ranges::count(inside, inside.front()) != static_cast<std::ptrdiff_t>(inside.size()))
            for (std::size_t unit = 0; unit < inside.size(); ++unit)
                levels.back().units.push_back({std::to_string(unit), inside[unit]});
        levels.push_back({.name = name, .count = inside.front()});
        outside = units.empty() ? 0 : units.back() + 1;
        above = units;
    }
    return levels;
}

}  // namespace rankmesh::cluster_files
