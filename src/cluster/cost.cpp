// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cost.hpp>

#include <algorithm>
#include <limits>

namespace rankmesh {

namespace {

/// Throws UsageError if a rank has no device.
void check_devices(const Cluster& cluster, const std::string& mesh, int last) {
    if (last >= cluster.size())
        throw UsageError(detail::cat("mesh ", detail::excerpt(mesh), " reaches rank ", last, ", but cluster ",
                                     to_string(cluster), " has devices 0..", cluster.size() - 1,
                                     "; rank r runs on device r"));
}

std::int64_t product(std::int64_t a, std::int64_t b) {
    auto result = std::int64_t{0};
    if (__builtin_mul_overflow(a, b, &result))
        throw UsageError(detail::cat(a, " times ", b, " bytes would cross one link; at most ",
                                     std::numeric_limits<std::int64_t>::max(), " can be counted"));
    return result;
}

/// How the digits of a layout divide at the border of a unit.
struct Division {
    std::int64_t inside = 1;  ///< the indices within a unit
    std::int64_t reach = 0;   ///< the largest offset within a unit
    std::int64_t run = 1;     ///< so many indices, from any multiple of it on, stay in one unit
    bool leaves_units = false;
};

/// Returns the division of the digits, outermost first, over units of `unit` devices; nullopt if units
/// differ.
std::optional<Division> divided(const Layout& layout, std::int64_t unit) {
    auto division = Division{};
    for (int k = layout.digit_count(); k-- > 0;) {
        const auto size = std::int64_t{layout.digit(k).size};
        const auto stride = std::int64_t{layout.digit(k).stride};
        auto inside = size;
        if (stride >= unit) {
            if (stride % unit != 0) return std::nullopt;
            inside = 1;
        } else if (size * stride > unit) {
            if (unit % stride != 0 || size % (unit / stride) != 0) return std::nullopt;
            inside = unit / stride;
        }
        division.inside *= inside;
        division.reach += (inside - 1) * stride;
        if (!division.leaves_units) division.run *= inside;
        if (inside < size) division.leaves_units = true;
    }
    return division;
}

}  // namespace

std::string_view to_string(Collective collective) {
    constexpr auto names = std::array<std::string_view, collectives.size()>{
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift"};
    return names.at(static_cast<std::size_t>(collective));
}

Traffic::Traffic(const Cluster& cluster, const Partition& groups)
    : group_count_(groups.size()),
      group_size_(groups.group_size()),
      straddling_(cluster.levels().size()),
      first_(cluster.levels().size()),
      alone_(cluster.levels().size(), Levels(cluster.levels().size())),
      together_(cluster.levels().size()),
      outermost_(cluster.level_count()) {
    for (const auto& level : cluster.levels()) speeds_.push_back({level.bandwidth, level.latency});
}

Traffic::Traffic(const Cluster& cluster, const Placement& placement, AxisSet axes)
    : Traffic(cluster, placement.mesh().partition(axes)) {
    const auto& mesh = placement.mesh();
    check_devices(cluster, to_string(mesh), placement.extent() - 1);
    const auto groups = mesh.partition(axes);
    const auto has_table = !placement.table().empty();
    if (group_size_ == 1 || (!has_table && count_by_strides(cluster, groups, mesh.offset()))) return;
    auto ranks = std::vector<int>(groups.rank_count());
    groups.copy_to(ranks);
    if (has_table)
        for (auto& rank : ranks) rank = placement.table()[at(rank)];
    count_by_walking(cluster, ranks);
}

/// If all units with ranks hold the same ranks, counted from the unit's first device, one unit and one group
/// represent all.
bool Traffic::count_by_strides(const Cluster& cluster, const Partition& groups, int offset) {
    struct Level {
        Division along;
        std::int64_t ranks = 1;  // ranks of one unit
    };
    auto divisions = std::vector<Level>{};
    if (!cluster.is_even()) return false;
    for (int level = 0; level < cluster.level_count(); ++level) {
        const auto unit = cluster.unit_size(0, level);
        const auto along = divided(groups.along(), unit);
        const auto across = divided(groups.across(), unit);
        if (!along || !across || offset % unit + along->reach + across->reach >= unit) return false;
        divisions.push_back({*along, along->inside * across->inside});
    }
    for (int level = 0; level < cluster.level_count(); ++level) {
        const auto& [along, ranks] = divisions[at(level)];
        if (!along.leaves_units) continue;
        outermost_ = std::min(outermost_, level);
        straddling_[at(level)] = group_count_;
        first_[at(level)] = 0;
        const auto others = group_size_ - along.inside;
        alone_[at(outermost_)][at(level)] = {along.inside / along.run, along.inside * others};
        together_[at(level)] = {ranks / along.run, ranks * others};
    }
    return true;
}

void Traffic::count_by_walking(const Cluster& cluster, const std::vector<int>& ranks) {
    struct Unit {
        int members = 0;  // members of the counted group
        Crossings group;
        Crossings all;
    };
    const auto count = std::size_t{speeds_.size()};
    auto units = std::vector<std::vector<Unit>>(count);
    auto unit_of = std::vector<std::vector<int>>(count);  // by level, the unit of each entry of `ranks`
    for (std::size_t l = 0; l < count; ++l) {
        units[l].resize(at(cluster.unit_count(static_cast<int>(l))));
        for (auto rank : ranks) unit_of[l].push_back(cluster.unit(rank, static_cast<int>(l)));
    }
    const auto size = at(group_size_);
    for (int group = 0; group < group_count_; ++group) {
        const auto begin = at(group) * size;
        auto outermost = count;
        for (auto l = count; l-- > 0;) {
            const auto* of = unit_of[l].data() + begin;
            if (std::all_of(of, of + size, [&](int unit) { return unit == of[0]; })) break;
            outermost = l;
        }
        outermost_ = std::min(outermost_, static_cast<int>(outermost));
        for (auto l = outermost; l < count; ++l) {
            const auto* of = unit_of[l].data() + begin;
            if (straddling_[l]++ == 0) first_[l] = group;
            for (std::size_t i = 0; i < size; ++i) {
                auto& unit = units[l][at(of[i])];
                ++unit.members;
                if (of[i] != of[(i + 1) % size]) ++unit.group.ring;
            }
            auto& most = alone_[outermost][l];
            for (std::size_t i = 0; i < size; ++i) {
                auto& unit = units[l][at(of[i])];
                if (unit.members == 0) continue;  // already counted
                unit.group.pairs = std::int64_t{unit.members} * (group_size_ - unit.members);
                most.ring = std::max(most.ring, unit.group.ring);
                most.pairs = std::max(most.pairs, unit.group.pairs);
                unit.all.ring += unit.group.ring;
                unit.all.pairs += unit.group.pairs;
                unit.group = {};
                unit.members = 0;
            }
        }
    }
    for (std::size_t l = 0; l < count; ++l)
        for (const auto& unit : units[l]) {
            together_[l].ring = std::max(together_[l].ring, unit.all.ring);
            together_[l].pairs = std::max(together_[l].pairs, unit.all.pairs);
        }
}

std::optional<double> Traffic::seconds(std::int64_t steps, const std::vector<std::int64_t>& links,
                                       int outermost, std::optional<int>& slowest) const {
    auto start = 0.0;
    auto longest = -1.0;
    for (auto l = at(outermost); l < links.size(); ++l) {
        const auto& level = speeds_[l];
        if (!level.bandwidth) {
            slowest.reset();
            return std::nullopt;
        }
        start = std::max(start, level.latency.value_or(0.0));
        const auto time = static_cast<double>(links[l]) / *level.bandwidth;
        if (time > longest) slowest = static_cast<int>(l);
        longest = std::max(longest, time);
    }
    return static_cast<double>(steps) * start + std::max(longest, 0.0);
}

CollectiveCost Traffic::cost(Collective collective, std::int64_t bytes, Busy busy) const {
    if (bytes < 0)
        throw UsageError(detail::cat("the cost of ", to_string(collective), " of ", bytes,
                                     " bytes was asked for; bytes are 0 or more"));
    auto cost = CollectiveCost{.links = std::vector<std::int64_t>(speeds_.size())};
    if (group_size_ == 1) {
        cost.seconds = 0.0;
        return cost;
    }
    const auto part = bytes / group_size_ + (bytes % group_size_ != 0 ? 1 : 0);
    const auto rounds = collective == Collective::all_reduce ? 2 : 1;
    cost.steps = collective == Collective::shift ? 1 : rounds * (std::int64_t{group_size_} - 1);
    cost.sent = collective == Collective::shift ? bytes : product(cost.steps, part);
    const auto links_of = [&](const Levels& levels) {
        auto links = std::vector<std::int64_t>{};
        for (const auto& [ring, pairs] : levels)
            links.push_back(collective == Collective::all_to_all ? product(pairs, part)
                                                                 : product(ring, cost.sent));
        return links;
    };
    if (busy == Busy::all_groups) {
        cost.links = links_of(together_);
        cost.seconds = seconds(cost.steps, cost.links, outermost_, cost.slowest);
        return cost;
    }
    auto known = true;
    for (std::size_t l = 0; l < alone_.size(); ++l) {
        if (alone_[l].back().pairs == 0) continue;  // no group crosses this level or an outer level
        const auto links = links_of(alone_[l]);
        for (std::size_t i = 0; i < links.size(); ++i) cost.links[i] = std::max(cost.links[i], links[i]);
        auto slowest = std::optional<int>{};
        const auto time = seconds(cost.steps, links, static_cast<int>(l), slowest);
        known = known && time;
        if (!known || (cost.seconds && *cost.seconds >= *time)) continue;
        cost.seconds = time;
        cost.slowest = slowest;
    }
    if (!known) cost.seconds.reset();
    if (!known) cost.slowest.reset();
    return cost;
}

}  // namespace rankmesh
