// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cluster.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <unordered_set>

#include <rankmesh/core/detail/reader.hpp>
#include <rankmesh/core/name.hpp>

#include "cluster/names.hpp"
#include "cluster/quantity.hpp"

namespace rankmesh {

namespace {

constexpr auto rates = "B/s, kB/s, MB/s, GB/s or TB/s (bytes: 8 Gb/s are 1 GB/s)";
constexpr auto times = "s, ms, us or ns";

constexpr auto device_level = std::string_view("device");  // the name of an inner level that is missing

/// Throws UsageError for invalid names and links.
void check(const std::vector<Cluster::Level>& levels) {
    if (levels.empty()) throw UsageError("a cluster without levels; name at least one, as in 'node:2 gpu:8'");
    if (levels.size() > max_axes)
        throw UsageError(
            detail::cat("a cluster lists ", levels.size(), " levels; at most ", max_axes, " are possible"));
    auto names = std::vector<std::string_view>{};
    auto characters = 0;
    for (const auto& [name, count, bandwidth, latency, units] : levels) {
        checked_name(name);
        if (std::ranges::find(names, name) != names.end())
            throw UsageError(detail::cat("the level '", name, "' is listed twice; list every level once"));
        names.push_back(name);
        characters += static_cast<int>(name.size());
        if (characters > name_pool_size)
            throw UsageError(detail::cat("the levels up to '", name, "' have names of ", characters,
                                         " characters together; a cluster has room for ", name_pool_size));
        if (bandwidth && !(*bandwidth >= 1.0 && *bandwidth <= 1e18))
            throw UsageError(detail::cat("level '", name, "' has a bandwidth of ", *bandwidth,
                                         " bytes per second; it must be 1B/s to 1000000TB/s"));
        if (latency && *latency != 0.0 && !(*latency >= 1e-12 && *latency <= 1e3))
            throw UsageError(detail::cat("level '", name, "' has a latency of ", *latency,
                                         " seconds; it must be 0s, or 0.001ns to 1000s"));
    }
    if (!levels.back().units.empty())
        throw UsageError(detail::cat(
            "level '", levels.back().name,
            "' lists its units by name, but no level is inside it; give only the number of devices"));
}

/// Throws UsageError unless unit names are unique and each unit holds something.
void check_units(const Cluster::Level& level) {
    if (level.units.size() > static_cast<std::size_t>(Cluster::most_names))
        throw UsageError(detail::cat("level '", level.name, "' lists ", level.units.size(),
                                     " units by name; at most ", Cluster::most_names, " are possible"));
    auto seen = std::unordered_set<std::string_view>{};
    seen.reserve(level.units.size());
    for (const auto& [name, count] : level.units) {
        if (name.empty() || name.size() > Cluster::longest_name ||
            !std::ranges::all_of(name, [](char c) { return is_name_character(c); }))
            throw UsageError(detail::cat("level '", level.name, "' has a unit named ",
                                         detail::in_quotes(name), "; names are 1 to ", Cluster::longest_name,
                                         " letters, digits, '_', '-' or '.'"));
        if (!seen.insert(name).second)
            throw UsageError(detail::cat("level '", level.name, "' lists ", detail::in_quotes(name),
                                         " twice; list every unit once"));
        if (count < 1)
            throw UsageError(detail::cat("level '", level.name, "' says that ", detail::in_quotes(name),
                                         " holds ", count, " units; it must hold 1 or more"));
    }
}

/// Returns the count of a level, checked against what the `outside` units of the next outer level hold.
std::int64_t counted(Cluster::Level& level, const Cluster::Level* outer, std::int64_t outside) {
    const auto& name = level.name;
    const auto named = static_cast<std::int64_t>(level.units.size());
    if (outer != nullptr && !outer->units.empty()) {
        auto held = std::int64_t{0};
        level.count = 0;
        for (const auto& unit : outer->units) {
            held += unit.count;
            level.count = std::max(level.count, unit.count);
        }
        if (named > 0 && named != held)
            throw UsageError(detail::cat("the units of level '", outer->name, "' hold ", held, " of level '",
                                         name, "', which lists ", named, " by name"));
        return held;
    }
    if (named > 0) {
        if (named % outside != 0)
            throw UsageError(detail::cat(
                "level '", name, "' lists ", named, " units by name, which ", outside, " of level '",
                outer->name, "' cannot share evenly; give the number that each holds, as in ", outer->name,
                "[", outer->name, "1]:16 ", outer->name, "[", outer->name, "2]:15"));
        level.count = static_cast<int>(named / outside);
        return named;
    }
    if (level.count < 1)
        throw UsageError(detail::cat("level '", name, "' has count ", level.count, "; counts are 1 or more"));
    return outside * level.count;
}

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
                                std::span<const detail::Unit> units) {
    for (const auto& unit : units)
        if (reader.accept(unit.name)) {
            const auto value = detail::decimal(digits, unit.exponent);
            if (value < 0) reader.fail(detail::cat("a number within range, not ", detail::excerpt(digits)));
            return value;
        }
    return std::nullopt;
}

/// Reads `(25GB/s,5us)`; either value may be missing.
void read_link(detail::Reader& reader, Cluster::Level& level) {
    reader.blanks();
    const auto digits = read_digits(reader);
    level.bandwidth = read_unit(reader, digits, detail::bandwidth_units);
    if (!level.bandwidth) {
        level.latency = read_unit(reader, digits, detail::latency_units);
        if (!level.latency) reader.fail(detail::cat("a bandwidth in ", rates, " or a latency in ", times));
    }
    reader.blanks();
    if (level.bandwidth && reader.accept(",")) {
        reader.blanks();
        level.latency = read_unit(reader, read_digits(reader), detail::latency_units);
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
        if (same.units.size() > static_cast<std::size_t>(Cluster::most_names)) check_units(same);
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

/// Returns a cluster as text for errors.
std::string text_of(const Cluster& cluster) { return detail::excerpt(to_string(cluster), 400); }

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

Cluster::Cluster(std::vector<Level> levels) : levels_(std::move(levels)) {
    check(levels_);
    auto total = std::int64_t{1};
    for (std::size_t i = 0; i < levels_.size(); ++i) {
        auto& level = levels_[i];
        check_units(level);
        total = counted(level, i > 0 ? &levels_[i - 1] : nullptr, total);
        if (total > std::numeric_limits<int>::max())
            throw UsageError(detail::cat("the levels up to '", level.name, "' make ", total,
                                         " units; a cluster has at most ", std::numeric_limits<int>::max(),
                                         " devices"));
        shapes_.push_back({.count = static_cast<int>(total)});
    }
    shapes_.back().size = 1;
    for (auto i = levels_.size() - 1; i-- > 0;) {
        const auto& units = levels_[i].units;
        const auto& inside = shapes_[i + 1];
        auto& shape = shapes_[i];
        const auto differs = [](const Unit& a, const Unit& b) { return a.count != b.count; };
        const auto same = std::ranges::adjacent_find(units, differs) == units.end();
        if (same && inside.size > 0) {
            shape.size = inside.size * (inside.count / shape.count);
            continue;
        }
        // There are at most as many entries as named units at this level or at inner levels.
        even_ = false;
        auto first = 0;  // the first unit of the inner level
        for (int unit = 0; unit < shape.count; ++unit) {
            shape.starts.push_back(inside.first_device(first));
            first += same ? inside.count / shape.count : units[static_cast<std::size_t>(unit)].count;
        }
        shape.starts.push_back(size());
        const auto each = shape.starts[1];
        auto equal = true;
        for (int unit = 0; unit < shape.count; ++unit)
            equal = equal && shape.starts[static_cast<std::size_t>(unit) + 1] -
                                     shape.starts[static_cast<std::size_t>(unit)] ==
                                 each;
        if (!equal) continue;
        shape.size = each;
        shape.starts.clear();
    }
}

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

int Cluster::level(std::string_view name) const {
    auto names = std::vector<std::string_view>{};
    for (const auto& level : levels_) {
        if (level.name == name) return static_cast<int>(names.size());
        names.push_back(level.name);
    }
    throw UsageError(detail::cat("cluster ", text_of(*this), " has no level ", detail::in_quotes(name),
                                 did_you_mean(name, names)));
}

const Cluster::Shape& Cluster::checked(int level) const {
    if (level < 0 || level >= level_count())
        throw UsageError(detail::cat("level number ", level, " was asked of cluster ", text_of(*this),
                                     "; it has levels 0..", level_count() - 1));
    return shapes_[static_cast<std::size_t>(level)];
}

const Cluster::Shape& Cluster::checked(int unit, int level) const {
    const auto& shape = checked(level);
    if (unit < 0 || unit >= shape.count)
        throw UsageError(detail::cat("unit ", unit, " of level '",
                                     levels_[static_cast<std::size_t>(level)].name, "' was asked of cluster ",
                                     text_of(*this), "; it has units 0..", shape.count - 1));
    return shape;
}

void Cluster::check_device(int device) const {
    if (device < 0 || device >= size())
        throw UsageError(detail::cat("device ", device, " is outside cluster ", text_of(*this),
                                     ", which has devices 0..", size() - 1));
}

int Cluster::Shape::unit(int device) const {
    if (size > 0) return device / size;
    return static_cast<int>(std::ranges::upper_bound(starts, device) - starts.begin()) - 1;
}

int Cluster::unit_count(int level) const { return checked(level).count; }

int Cluster::unit(int device, int level) const {
    check_device(device);
    return checked(level).unit(device);
}

int Cluster::first_device(int unit, int level) const { return checked(unit, level).first_device(unit); }

int Cluster::unit_size(int unit, int level) const {
    const auto& shape = checked(unit, level);
    if (shape.size > 0) return shape.size;
    return shape.first_device(unit + 1) - shape.first_device(unit);
}

int Cluster::number(int unit, int level) const {
    if (level == 0) return unit;
    const auto& shape = shapes_[static_cast<std::size_t>(level)];
    const auto& outer = shapes_[static_cast<std::size_t>(level) - 1];
    return unit - shape.unit(outer.first_device(outer.unit(shape.first_device(unit))));
}

std::string Cluster::unit_name(int unit, int level) const {
    const auto& shape = checked(unit, level);
    const auto& [name, count, bandwidth, latency, units] = levels_[static_cast<std::size_t>(level)];
    if (!units.empty()) return units[static_cast<std::size_t>(unit)].name;
    auto text = std::string{};
    if (level > 0) {
        const auto& outer = shapes_[static_cast<std::size_t>(level) - 1];
        text = unit_name(outer.unit(shape.first_device(unit)), level - 1) + " ";
    }
    return text + detail::cat(name, " ", number(unit, level));
}

Coordinate Cluster::path(int device) const {
    check_device(device);
    auto path = Coordinate({});
    for (int level = 0; level < level_count(); ++level) {
        const auto at = static_cast<std::size_t>(level);
        path.push_back(levels_[at].name, number(shapes_[at].unit(device), level));
    }
    return path;
}

std::string to_string(const Cluster& cluster) {
    auto out = std::string{};
    auto after_units = false;
    for (const auto& level : cluster.levels()) {
        const auto& [name, count, bandwidth, latency, units] = level;
        auto link = std::string{};
        if (bandwidth || latency) {
            link += '(';
            if (bandwidth) link += detail::quantity_to_string(*bandwidth, detail::bandwidth_units);
            if (bandwidth && latency) link += ',';
            if (latency) link += detail::quantity_to_string(*latency, detail::latency_units);
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
