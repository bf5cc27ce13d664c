// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/diff.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "view/check_fits.hpp"

namespace rankmesh::view {

namespace {

using detail::cat;

/// One side with the axes of both sides; missing axes have size 1.
class Half {
public:
    using Indices = std::array<int, 2 * max_axes>;

    Half(const Side& side, const std::vector<std::string>& axes) : side_(side) {
        const auto& mesh = this->mesh();
        for (const auto& name : axes) {
            const auto axis = mesh.find(name);
            axis_.push_back(axis ? axis->index : -1);
        }
    }

    const Mesh& mesh() const { return side_.placement.mesh(); }
    const Cluster& cluster() const { return *side_.cluster; }
    int size(std::size_t axis) const { return axis_[axis] < 0 ? 1 : mesh().size(AxisId{axis_[axis]}); }
    bool contains(int rank) const { return side_.placement.contains(rank); }
    /// Returns the indices of a rank on the axes of both sides.
    Indices indices(int rank) const {
        auto own = std::array<int, max_axes>{};
        side_.placement.indices(rank, std::span(own).first(static_cast<std::size_t>(mesh().axis_count())));
        auto all = Indices{};
        for (std::size_t i = 0; i < axis_.size(); ++i)
            if (axis_[i] >= 0) all[i] = own[static_cast<std::size_t>(axis_[i])];
        return all;
    }
    /// Returns the group of a rank along an axis.
    std::vector<int> group(int rank, std::size_t axis) const {
        return axis_[axis] < 0 ? std::vector{rank} : side_.placement.group(rank, AxisId{axis_[axis]}).list();
    }
    /// Calls `visit(rank)` for all ranks, in the order of the axes.
    void each_rank(const auto& visit) const {
        for (const auto rank : side_.placement.ranks()) visit(rank);
    }
    /// Calls `visit(rank)` for the first rank of every group along an axis.
    void each_group(std::size_t axis, const auto& visit) const {
        each_rank([&](int rank) {
            if (axis_[axis] < 0 || indices(rank)[axis] == 0) visit(rank);
        });
    }
    void check_fits() const {
        if (side_.cluster) view::check_fits(side_.placement, *side_.cluster);
    }

private:
    const Side& side_;
    std::vector<int> axis_;  // the own mesh's axis for each axis of both
};

/// Returns the axes of a, then those that only b has.
std::vector<std::string> axes_of(const Side& a, const Side& b) {
    auto names = std::vector<std::string>{};
    for (const auto* side : {&a, &b}) {
        const auto& mesh = side->placement.mesh();
        for (int i = 0; i < mesh.axis_count(); ++i) {
            const auto name = std::string(mesh.name(AxisId{i}));
            if (std::ranges::find(names, name) == names.end()) names.push_back(name);
        }
    }
    return names;
}

/// A level of both clusters: its name, and its number in each.
struct Common {
    std::string name;
    int in_a = 0;
    int in_b = 0;
};

std::vector<Common> levels_of(const Side& a, const Side& b) {
    auto levels = std::vector<Common>{};
    if (!a.cluster || !b.cluster) return levels;
    for (int i = 0; i < a.cluster->level_count(); ++i)
        for (int k = 0; k < b.cluster->level_count(); ++k) {
            const auto& name = a.cluster->levels()[static_cast<std::size_t>(i)].name;
            const auto are_devices = i == a.cluster->level_count() - 1 && k == b.cluster->level_count() - 1;
            if (!are_devices && name == b.cluster->levels()[static_cast<std::size_t>(k)].name)
                levels.push_back({name, i, k});
        }
    return levels;
}

/// Compares two sides one rank at a time.
class Comparison {
public:
    Comparison(const Side& a, const Side& b)
        : axes(axes_of(a, b)), levels(levels_of(a, b)), a(a, axes), b(b, axes) {
        this->a.check_fits();
        this->b.check_fits();
    }

    bool has_moved(int rank) const { return a.indices(rank) != b.indices(rank); }
    bool has_moved(int rank, const Common& level) const {
        return a.cluster().unit(rank, level.in_a) != b.cluster().unit(rank, level.in_b);
    }
    /// Returns true if a picture of one side marks the rank.
    bool is_marked(int rank) const {
        return !a.contains(rank) || !b.contains(rank) || has_moved(rank) ||
               std::ranges::any_of(levels, [&](const Common& level) { return has_moved(rank, level); });
    }

    const std::vector<std::string> axes;
    const std::vector<Common> levels;
    const Half a;
    const Half b;
};

bool lies_inside(const std::vector<int>& group, const Cluster& cluster, int level) {
    const auto unit = cluster.unit(group.front(), level);
    return std::ranges::all_of(group, [&](int rank) { return cluster.unit(rank, level) == unit; });
}

AxisDifference compare(const Comparison& sides, std::size_t axis, std::size_t first) {
    auto found = AxisDifference{.axis = sides.axes[axis], .size = {sides.a.size(axis), sides.b.size(axis)}};
    found.inside.resize(sides.levels.size());
    auto group = std::vector<int>{};
    const auto compare = [&](int rank) {
        if (!sides.b.contains(rank) || found.size.a != found.size.b) return false;
        auto other = sides.b.group(rank, axis);
        if (group == other) {
            ++found.same;
            return true;
        }
        auto sorted = group;
        std::ranges::sort(sorted);
        std::ranges::sort(other);
        if (sorted == other) ++found.reordered;
        return false;
    };
    sides.a.each_group(axis, [&](int rank) {
        ++found.groups.a;
        group = sides.a.group(rank, axis);
        for (std::size_t i = 0; i < sides.levels.size(); ++i)
            if (lies_inside(group, sides.a.cluster(), sides.levels[i].in_a)) ++found.inside[i].a;
        if (!compare(rank) && found.changed.size() < first) found.changed.push_back(rank);
    });
    sides.b.each_group(axis, [&](int rank) {
        ++found.groups.b;
        if (sides.levels.empty()) return;
        group = sides.b.group(rank, axis);
        for (std::size_t i = 0; i < sides.levels.size(); ++i)
            if (lies_inside(group, sides.b.cluster(), sides.levels[i].in_b)) ++found.inside[i].b;
    });
    return found;
}

/// Returns the same ranks at the same coordinates; if both have the same axes, with the axes in the order of
/// `order`.
Placement in_order_of(const Mesh& order, const Placement& placement) {
    const auto& mesh = placement.mesh();
    if (!placement.table().empty() || mesh.axis_count() != order.axis_count()) return placement;
    auto names = std::vector<std::string_view>{};
    for (int a = 0; a < order.axis_count(); ++a) {
        if (!mesh.find(order.name(AxisId{a}))) return placement;
        names.push_back(order.name(AxisId{a}));
    }
    return mesh.permuted(names);
}

}  // namespace

std::vector<int> Side::group(int rank, std::string_view axis) const {
    if (!placement.contains(rank)) return {};
    const auto found = placement.mesh().find(axis);
    return found ? placement.group(rank, *found).list() : std::vector{rank};
}

Difference diff(const Side& a, const Side& b, std::size_t first) {
    const auto sides = Comparison(a, b);
    auto found = Difference{};
    auto lowest = std::set<int>{};
    const auto differs = [&](int rank) {
        ++found.differing;
        lowest.insert(rank);
        if (lowest.size() > first) lowest.erase(std::prev(lowest.end()));
    };
    for (const auto& level : sides.levels) found.levels.push_back({level.name});
    sides.a.each_rank([&](int rank) {
        ++found.ranks.a;
        if (!sides.b.contains(rank)) return differs(rank);
        ++found.common;
        auto any = sides.has_moved(rank);
        if (any) ++found.moved;
        for (std::size_t i = 0; i < sides.levels.size(); ++i)
            if (sides.has_moved(rank, sides.levels[i])) {
                ++found.levels[i].moved;
                any = true;
            }
        if (any) differs(rank);
    });
    sides.b.each_rank([&](int rank) {
        ++found.ranks.b;
        if (!sides.a.contains(rank)) differs(rank);
    });
    found.first.assign(lowest.begin(), lowest.end());
    for (std::size_t axis = 0; axis < sides.axes.size(); ++axis)
        found.axes.push_back(compare(sides, axis, first));
    return found;
}

std::pair<Scene, Scene> draw(const Side& a, const Side& b, const Limits& limits) {
    const auto sides = Comparison(a, b);
    const auto counts = diff(a, b, 0);
    const auto scene_of = [&](const Placement& placement, const Side& side) {
        auto scene = draw(placement, Subject{.cluster = side.cluster, .by_strides = false}, limits);
        scene.mesh = to_string(side.placement);
        for (auto& row : scene.rows)
            for (auto& cell : row.cells) cell.marked = cell.rank >= 0 && sides.is_marked(cell.rank);
        return scene;
    };
    auto left = scene_of(a.placement, a);
    auto right = scene_of(in_order_of(sides.a.mesh(), b.placement), b);
    left.mark = cat(counts.moved, " of ", detail::counted(counts.common, "rank"), " at another coordinate");
    right.mark = left.mark;
    for (const auto& level : counts.levels)
        if (level.moved > 0) detail::append(right.mark, cat(", ", level.moved, " in another ", level.level));
    left.mark = right.mark;
    if (counts.ranks.a > counts.common)
        detail::append(left.mark, cat(", ", counts.ranks.a - counts.common, " only here"));
    if (counts.ranks.b > counts.common)
        detail::append(right.mark, cat(", ", counts.ranks.b - counts.common, " only here"));
    return {std::move(left), std::move(right)};
}

}  // namespace rankmesh::view
