// SPDX-License-Identifier: Apache-2.0
#include "cluster/read/formats.hpp"

#include <algorithm>
#include <set>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

#include "cluster/names.hpp"
#include "formats/text.hpp"

namespace rankmesh::cluster_files {

using detail::cat;
using detail::in_quotes;

void Text::fail(int line, std::string_view why) const {
    throw UsageError(line > 0 ? cat(source, ":", line, ": ", why) : cat(source, ": ", why));
}

std::vector<std::string> Text::names(std::string_view list, int line) const {
    return detail::expanded(list, line > 0 ? cat(source, ":", line) : source, Cluster::most_names);
}

std::vector<std::string_view> Line::words() const {
    constexpr auto blanks = " \t\r";
    auto words = std::vector<std::string_view>{};
    const auto all = std::string_view(text);
    for (auto at = all.find_first_not_of(blanks); at != std::string_view::npos;
         at = all.find_first_not_of(blanks, at)) {
        const auto end = std::min(all.find_first_of(blanks, at), all.size());
        words.push_back(all.substr(at, end - at));
        at = end;
    }
    return words;
}

std::vector<Line> lines_of(std::string_view text, bool continued) {
    auto lines = std::vector<Line>{};
    auto number = 0;
    auto goes_on = false;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        auto line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        ++number;
        line = formats::trimmed(line.substr(0, line.find('#')));
        const auto more = continued && line.ends_with('\\');
        if (more) line.remove_suffix(1);
        if (goes_on)
            lines.back().text.append(" ").append(line);
        else if (!line.empty() || more)
            lines.push_back({number, std::string(line)});
        goes_on = more;
    }
    return lines;
}

int number_of(const Text& text, int line, std::string_view digits, std::string_view of, int least) {
    const auto number = detail::number_in(digits);
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
