// SPDX-License-Identifier: Apache-2.0
// The notation of clusters: `node[a01-a31]:8(25GB/s,5us) gpu(450GB/s)`.
#include <algorithm>
#include <array>
#include <iterator>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/detail/reader.hpp>

#include "cluster/names.hpp"

namespace rankmesh {

namespace {

/// A unit and its power of ten: `{"GB/s", 9}`.
struct Unit {
    std::string_view name;
    int exponent;
};

constexpr Unit bandwidth_units[] = {{"TB/s", 12}, {"GB/s", 9}, {"MB/s", 6}, {"kB/s", 3}, {"B/s", 0}};
constexpr Unit latency_units[] = {{"s", 0}, {"ms", -3}, {"us", -6}, {"ns", -9}};

/// Returns `digits` times 10^`exponent`, rounded once; a negative number if `digits` is not a number such as
/// `25` or `2.5`.
double decimal(std::string_view digits, int exponent) {
    const auto text = detail::cat(digits, "e", exponent);
    return detail::number_in<double>(text).value_or(-1.0);
}

/// Returns the value in the largest of `units` in which it is 1 or more, with the fewest digits that read
/// back exactly.
///
/// Law: `decimal(digits, exponent)` of the two parts of the text equals the value.
std::string quantity_to_string(double value, std::span<const Unit> units) {
    if (value == 0.0) return detail::cat("0", units.front().name);
    auto unit = units.back();
    for (auto i = units.size(); i-- > 0;)
        if (value >= decimal("1", units[i].exponent)) unit = units[i];

    // Scientific notation has the fewest digits. Moving only its point avoids a second rounding.
    auto buffer = std::array<char, 64>{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
    const auto text = std::string_view(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    const auto e = text.find('e');
    auto digits = std::string(text.substr(0, 1));
    if (e > 2) digits += text.substr(2, e - 2);
    auto power = 0;
    const auto sign = text[e + 1] == '+' ? e + 2 : e + 1;
    std::from_chars(text.data() + sign, end, power);

    const auto point = 1 + power - unit.exponent;  // digits before the point
    if (point <= 0) digits.insert(0, static_cast<std::size_t>(1 - point), '0');
    const auto before = static_cast<std::size_t>(point <= 0 ? 1 : point);
    if (digits.size() < before) digits.append(before - digits.size(), '0');
    if (digits.size() > before) digits.insert(before, 1, '.');
    return digits + std::string(unit.name);
}

constexpr auto rates = "B/s, kB/s, MB/s, GB/s or TB/s (bytes: 8 Gb/s are 1 GB/s)";
constexpr auto times = "s, ms, us or ns";

constexpr auto device_level = std::string_view("device");  // the name of an inner level that is missing

/// Reads digits with an optional point.
std::string read_digits(detail::Reader& reader) {
    auto digits = std::string{};
    for (auto c = reader.peek(); (c >= '0' && c <= '9') || (c == '.' && !digits.empty()); c = reader.peek()) {
        digits += c;
        reader.accept(std::string_view(&c, 1));
    }
    if (digits.empty() || digits.back() == '.') reader.fail("a number such as 25 or 2.5");
    return digits;
}

/// Reads a unit and returns the value of `digits` in it; nullopt if it is not one of `units`.
std::optional<double> read_unit(detail::Reader& reader, const std::string& digits,
                                std::span<const Unit> units) {
    for (const auto& unit : units)
        if (reader.accept(unit.name)) {
            const auto value = decimal(digits, unit.exponent);
            if (value < 0) reader.fail(detail::cat("a number within range, not ", detail::excerpt(digits)));
            return value;
        }
    return std::nullopt;
}

/// Reads `(25GB/s,5us)`; either value may be missing.
void read_link(detail::Reader& reader, Cluster::Level& level) {
    reader.blanks();
    const auto digits = read_digits(reader);
    level.bandwidth = read_unit(reader, digits, bandwidth_units);
    if (!level.bandwidth) {
        level.latency = read_unit(reader, digits, latency_units);
        if (!level.latency) reader.fail(detail::cat("a bandwidth in ", rates, " or a latency in ", times));
    }
    reader.blanks();
    if (level.bandwidth && reader.accept(",")) {
        reader.blanks();
        level.latency = read_unit(reader, read_digits(reader), latency_units);
        if (!level.latency) reader.fail(detail::cat("a latency in ", times));
        reader.blanks();
    }
    reader.expect(")");
}

/// A level as written. Its count, and the counts of its units, may be missing; they are then 0.
struct Entry {
    Cluster::Level level;
    std::optional<int> count = {};
};

/// Reads `a01-a31]:8` into the units of the level; the count may be missing.
void read_units(detail::Reader& reader, Cluster::Level& level) {
    auto list = std::string{};
    auto depth = 0;
    for (auto c = reader.peek(); c != ']' || depth > 0; c = reader.peek()) {
        if (reader.done()) reader.fail("']', as in node[a01-a31]:8,");
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        list += c;
        reader.accept(std::string_view(&c, 1));
    }
    reader.expect("]");
    const auto count = reader.accept(":") ? std::optional(reader.number()) : std::nullopt;
    for (auto& name : detail::expanded(list, detail::cat("level '", level.name, "'"), Cluster::most_names)) {
        if (count && *count < 1)
            throw UsageError(detail::cat("level '", level.name, "' says that ", detail::in_quotes(name),
                                         " holds ", *count, " units; it must hold 1 or more"));
        level.units.push_back({std::move(name), count.value_or(0)});
    }
}

std::vector<Entry> read_entries(std::string_view text) {
    auto reader = detail::Reader("cluster", text);
    auto entries = std::vector<Entry>{};
    for (reader.blanks(); !reader.done(); reader.separator()) {
        const auto name = std::string(reader.name());
        auto entry = Entry{.level = {.name = name}};
        auto& level = entry.level;
        const auto after_units = !entries.empty() && !entries.back().level.units.empty();
        if (reader.accept("["))
            read_units(reader, level);
        else if (reader.accept(":"))
            level.count = entry.count.emplace(reader.number());
        else if (!after_units)
            reader.fail("':' and a count, as in node:8 gpu:8,");
        if (reader.accept("(")) read_link(reader, level);
        if (!reader.at_separator()) reader.fail("a blank, or a link such as (25GB/s,5us),");
        if (entry.count && entries.size() == 1 && after_units && entries.back().level.name == name)
            throw UsageError(detail::cat("'", name, "[...]' lists units of a level '", name,
                                         "', which is listed twice; if they are hosts, write 'node[",
                                         text.substr(0, text.find(' ')), "]:", *entry.count, "'"));
        if (!after_units || level.units.empty() || entries.back().level.name != name) {
            entries.push_back(std::move(entry));
            continue;
        }
        // More units of the same level; only one entry needs the link, or all links are equal.
        auto& same = entries.back().level;
        if (level.bandwidth || level.latency) {
            if ((same.bandwidth || same.latency) &&
                (same.bandwidth != level.bandwidth || same.latency != level.latency))
                throw UsageError(
                    detail::cat("level '", name, "' has two links; give all units of a level the same link"));
            same.bandwidth = level.bandwidth;
            same.latency = level.latency;
        }
        std::ranges::move(level.units, std::back_inserter(same.units));
        if (same.units.size() > static_cast<std::size_t>(Cluster::most_names)) detail::check_units(same);
    }
    return entries;
}

/// Sets the count of each named unit, from the unit itself or from the next inner level.
void count_inside(Cluster::Level& level, const Entry& inside) {
    const auto& name = level.name;
    const auto share = inside.count ? *inside.count
                       : inside.level.units.size() % level.units.size() == 0
                           ? static_cast<int>(inside.level.units.size() / level.units.size())
                           : 0;
    for (auto& unit : level.units) {
        if (unit.count == 0 && share == 0)
            throw UsageError(detail::cat("level '", name, "' does not say how many of level '",
                                         inside.level.name, "' ", detail::in_quotes(unit.name),
                                         " holds; add it, as in ", name, "[", unit.name, "]:8"));
        if (unit.count == 0) unit.count = share;
        if (inside.count && unit.count != *inside.count)
            throw UsageError(detail::cat("level '", name, "' says that ", detail::in_quotes(unit.name),
                                         " holds ", unit.count, " of level '", inside.level.name,
                                         "', which says ", *inside.count, "; give it once"));
    }
}

/// Returns `node[a01-a31]:8(25GB/s) node[b01]:4`: consecutive units of equal counts are one entry.
std::string units_to_string(const Cluster::Level& level, const std::string& link) {
    auto out = std::string{};
    auto names = std::vector<std::string_view>{};
    for (std::size_t i = 0; i < level.units.size(); ++i) {
        const auto& [name, count] = level.units[i];
        names.push_back(name);
        if (i + 1 < level.units.size() && level.units[i + 1].count == count) continue;
        detail::append(out, detail::cat(out.empty() ? "" : " ", level.name, "[", detail::folded(names),
                                        "]:", count, out.empty() ? link : std::string{}));
        names.clear();
    }
    return out;
}

}  // namespace

Cluster Cluster::parse(std::string_view text) {
    auto entries = read_entries(text);
    auto levels = std::vector<Level>{};
    for (std::size_t i = 0; i < entries.size(); ++i) {
        auto& level = entries[i].level;
        if (!level.units.empty()) {
            const auto last = i + 1 == entries.size();
            count_inside(level, last ? Entry{.level = {.name = std::string(device_level)}} : entries[i + 1]);
        }
        levels.push_back(std::move(level));
    }
    if (!levels.empty() && !levels.back().units.empty())
        levels.push_back({.name = std::string(device_level)});
    return Cluster(std::move(levels));
}

std::string to_string(const Cluster& cluster) {
    auto out = std::string{};
    auto after_units = false;
    for (const auto& level : cluster.levels()) {
        const auto& [name, count, bandwidth, latency, units] = level;
        auto link = std::string{};
        if (bandwidth || latency) {
            link += '(';
            if (bandwidth) link += quantity_to_string(*bandwidth, bandwidth_units);
            if (bandwidth && latency) link += ',';
            if (latency) link += quantity_to_string(*latency, latency_units);
            link += ')';
        }
        const auto blank = out.empty() ? "" : " ";
        if (!units.empty()) {
            detail::append(out, blank + units_to_string(level, link));
        } else if (!after_units) {
            detail::append(out, detail::cat(blank, name, ":", count, link));
        } else if (name != device_level || !link.empty() || &level != &cluster.levels().back()) {
            detail::append(out, detail::cat(blank, name, link));
        }
        after_units = !units.empty();
    }
    return out;
}

}  // namespace rankmesh
