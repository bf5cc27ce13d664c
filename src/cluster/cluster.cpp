// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cluster.hpp>

#include <limits>

#include <rankmesh/core/name.hpp>

#include "cluster/names.hpp"

namespace rankmesh {

namespace {

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

/// Returns a cluster as text for errors.
std::string text_of(const Cluster& cluster) { return detail::excerpt(to_string(cluster), 400); }

}  // namespace

Cluster::Cluster(std::vector<Level> levels) : levels_(std::move(levels)) {
    check(levels_);
    auto total = std::int64_t{1};
    for (std::size_t i = 0; i < levels_.size(); ++i) {
        auto& level = levels_[i];
        detail::check_units(level);
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

}  // namespace rankmesh
