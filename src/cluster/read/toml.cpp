// SPDX-License-Identifier: Apache-2.0
// Reads rankmesh's TOML: the levels as tables, outermost first.
#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

namespace of_toml {

/// Returns the lines in which the tables of levels begin; empty if they use another syntax.
std::vector<int> lines_of_levels(std::string_view content) {
    auto lines = std::vector<int>{};
    for (const auto& line : lines_of(content))
        if (line.text.starts_with("[[level]]")) lines.push_back(line.number);
    return lines;
}

/// One table; errors contain its place.
struct Table {
    const Text& text;
    const Json& json;
    int line;
    std::string what;  // `level number 2`

    [[noreturn]] void fail(std::string_view why) const { text.fail(line, cat(what, " ", why)); }

    void check_keys(const std::vector<std::string_view>& known) const {
        if (!json.is_object()) fail("is not a table");
        for (const auto& [key, value] : json.items())
            if (std::ranges::find(known, std::string_view(key)) == known.end()) {
                auto words = std::vector<std::string>(known.begin(), known.end());
                fail(cat("has no key ", in_quotes(key), "; keys are ", detail::listed(words),
                         did_you_mean(key, known)));
            }
    }
    std::optional<std::string> word(std::string_view key) const {
        if (!json.contains(key)) return std::nullopt;
        if (!json[key].is_string()) fail(cat("has a ", key, " that is not a string in quotes"));
        return json[key].text();
    }
    std::optional<int> count() const {
        if (!json.contains("count")) return std::nullopt;
        const auto& value = json["count"];
        if (!value.is_number_integer() || value < 1 || value > std::numeric_limits<int>::max())
            fail(cat("has the count ", formats::excerpt(value),
                     "; counts must be whole numbers of 1 or more"));
        return value.get<int>();
    }
};

/// Reads a link like the notation: `50GB/s` and `5us`.
void read_link(const Table& table, Cluster::Level& level) {
    for (const auto* key : {"bandwidth", "latency"}) {
        const auto value = table.word(key);
        if (!value) continue;
        auto read = std::optional<Cluster::Level>{};
        try {
            if (value->find_first_of("(), ") == std::string::npos)
                read = Cluster::parse(cat("x:1(", *value, ")")).levels().front();
        } catch (const UsageError&) {
        }
        const auto is_bandwidth = std::string_view(key) == "bandwidth";
        const auto given = !read ? std::nullopt : is_bandwidth ? read->bandwidth : read->latency;
        if (!given)
            table.fail(
                cat("has the ", key, " ", in_quotes(*value), "; ",
                    is_bandwidth
                        ? "it must be 1B/s to 1000000TB/s, in B/s, kB/s, MB/s, GB/s or TB/s, such as 50GB/s"
                        : "it must be 0s, or 0.001ns to 1000s, in s, ms, us or ns, such as 5us"));
        (is_bandwidth ? level.bandwidth : level.latency) = given;
    }
}

/// `names = "a01-a31"`, or `units = [{names = "a01-a31", count = 8}, {names = "b01", count = 4}]`.
void read_units(const Table& table, Cluster::Level& level) {
    const auto add = [&](std::string_view list, int count) {
        for (auto& name : table.text.names(list, table.line)) level.units.push_back({std::move(name), count});
    };
    if (const auto names = table.word("names")) {
        if (table.json.contains("units")) table.fail("has names and units; give one of them");
        add(*names, 0);
    }
    if (!table.json.contains("units")) return;
    const auto& units = table.json["units"];
    if (!units.is_array() || units.size() == 0) table.fail("has units that are not a list of tables");
    for (const auto& unit : units) {
        const auto inner = Table{table.text, unit, table.line, table.what + " in its units"};
        inner.check_keys({"names", "count"});
        const auto names = inner.word("names");
        const auto count = inner.count();
        if (!names || !count) inner.fail("has no names or no count");
        add(*names, *count);
    }
}

}  // namespace of_toml

Levels read_toml(const Text& text) {
    using namespace of_toml;
    const auto json = formats::parse_toml(text.content, cat("the levels in ", text.source));
    const auto top = Table{text, json, 0, "the file"};
    top.check_keys({"level"});
    if (!json.contains("level") || !json["level"].is_array() || json["level"].size() == 0)
        text.fail(0, "has no [[level]]; list levels outermost first, each with a name and a count");
    const auto lines = lines_of_levels(text.content);
    auto levels = Levels{};
    for (const auto& one : json["level"]) {
        const auto number = levels.size();
        const auto line = lines.size() == json["level"].size() ? lines[number] : 0;
        const auto table = Table{text, one, line, cat("level number ", number + 1)};
        table.check_keys({"name", "count", "bandwidth", "latency", "names", "units"});
        auto level = Cluster::Level{};
        const auto name = table.word("name");
        if (!name) table.fail("has no name");
        level.name = *name;
        read_link(table, level);
        read_units(table, level);
        const auto count = table.count();
        level.count = count.value_or(0);
        const auto* outer = levels.empty() ? nullptr : &levels.back();
        if (!level.units.empty() && count) table.fail("has a count and units by name; remove the count");
        if (level.units.empty() && !count && (outer == nullptr || outer->units.empty()))
            table.fail("has neither a count nor units by name");
        if (outer != nullptr)
            for (auto& unit : levels.back().units) {
                const auto all = outer->units.size();
                if (unit.count == 0 && !level.units.empty() && level.units.size() % all == 0)
                    unit.count = static_cast<int>(level.units.size() / all);
                if (unit.count == 0) unit.count = level.count;
                if (unit.count == 0)
                    table.fail(cat("has no count, and ", in_quotes(unit.name),
                                   " of the level outside gives no number either"));
                if (count && unit.count != *count)
                    table.fail(cat("has the count ", *count, ", and ", in_quotes(unit.name),
                                   " of the level outside holds ", unit.count, "; give it once"));
            }
        levels.push_back(std::move(level));
    }
    return levels;
}

}  // namespace rankmesh::cluster_files
