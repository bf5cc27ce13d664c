// SPDX-License-Identifier: Apache-2.0
// The laws of a mesh, checked against a table of all its ranks that is made by counting.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <rankmesh/core/mesh.hpp>

namespace rankmesh::tests {

/// A mesh as brute force sees it: its ranks by position, the last axis fastest. Every rearrangement moves
/// ranks about; nothing is computed from strides.
struct Table {
    std::vector<std::string> names;
    std::vector<int> sizes;
    std::vector<int> ranks;

    std::vector<int> coordinate(int position) const {
        auto out = std::vector<int>(sizes.size());
        for (auto a = sizes.size(); a-- > 0; position /= sizes[a]) out[a] = position % sizes[a];
        return out;
    }
    int position(const std::vector<int>& coordinate) const {
        auto out = 0;
        for (std::size_t a = 0; a < sizes.size(); ++a) out = out * sizes[a] + coordinate[a];
        return out;
    }
    int at(const std::vector<int>& coordinate) const {
        return ranks[static_cast<std::size_t>(position(coordinate))];
    }
};

/// A mesh and the table of it; what is done to the one is done to the other.
struct Case {
    Mesh mesh;
    Table table;
};

inline Table counted(const std::vector<Axis>& axes) {
    auto table = Table{};
    auto count = 1;
    for (const auto& axis : axes) {
        table.names.emplace_back(axis.name);
        table.sizes.push_back(axis.size.size());
        count *= axis.size.size();
    }
    table.ranks.resize(static_cast<std::size_t>(count));
    std::iota(table.ranks.begin(), table.ranks.end(), 0);
    return table;
}

/// A mesh with plain strides, whose ranks are 0, 1, 2, ... as they are counted.
inline Case plain(const std::vector<Axis>& axes) { return {Mesh(axes), counted(axes)}; }

/// A mesh with a stride on every axis.
inline Case strided(const std::vector<Axis>& axes) {
    auto table = counted(axes);
    for (std::size_t p = 0; p < table.ranks.size(); ++p) {
        const auto coordinate = table.coordinate(static_cast<int>(p));
        table.ranks[p] = 0;
        for (std::size_t a = 0; a < axes.size(); ++a) table.ranks[p] += coordinate[a] * axes[a].stride;
    }
    return {Mesh(axes), table};
}

inline Case shifted(Case c, int by) {
    for (auto& rank : c.table.ranks) rank += by;
    return {c.mesh.shifted(by), c.table};
}

/// The table whose axes have these names and sizes, and at each coordinate the rank that `source` has where
/// `locate` says.
template <class Locate>
Table gathered(const Table& source, std::vector<std::string> names, std::vector<int> sizes, Locate locate) {
    auto out = Table{std::move(names), std::move(sizes), {}};
    const auto count = std::accumulate(out.sizes.begin(), out.sizes.end(), 1, std::multiplies<>());
    for (int p = 0; p < count; ++p) out.ranks.push_back(source.at(locate(out.coordinate(p))));
    return out;
}

/// One axis fixed at `index` and dropped.
inline Case sliced(const Case& c, int axis, int index) {
    auto names = c.table.names;
    auto sizes = c.table.sizes;
    names.erase(names.begin() + axis);
    sizes.erase(sizes.begin() + axis);
    const auto table = gathered(c.table, names, sizes, [&](std::vector<int> at) {
        at.insert(at.begin() + axis, index);
        return at;
    });
    return {c.mesh.slice({{c.table.names[static_cast<std::size_t>(axis)], index}}), table};
}

/// Axes first < second as one axis where the first stands.
inline Case flattened(const Case& c, int first, int second, const std::string& as) {
    const auto f = static_cast<std::size_t>(first);
    const auto s = static_cast<std::size_t>(second);
    auto names = c.table.names;
    auto sizes = c.table.sizes;
    const auto inner = sizes[s];
    names[f] = as;
    sizes[f] *= inner;
    names.erase(names.begin() + second);
    sizes.erase(sizes.begin() + second);
    const auto table = gathered(c.table, names, sizes, [&](std::vector<int> at) {
        at.insert(at.begin() + second, at[f] % inner);
        at[f] /= inner;
        return at;
    });
    return {c.mesh.flatten({c.table.names[s], c.table.names[f]}, as), table};
}

/// One axis as two, the outer one of size `outer`, the inner one inferred.
inline Case split(const Case& c, int axis, int outer, const std::string& a, const std::string& b) {
    const auto which = static_cast<std::size_t>(axis);
    auto names = c.table.names;
    auto sizes = c.table.sizes;
    const auto inner = sizes[which] / outer;
    names[which] = a;
    names.insert(names.begin() + axis + 1, b);
    sizes[which] = outer;
    sizes.insert(sizes.begin() + axis + 1, inner);
    const auto table = gathered(c.table, names, sizes, [&](std::vector<int> at) {
        at[which] = at[which] * inner + at[which + 1];
        at.erase(at.begin() + axis + 1);
        return at;
    });
    return {c.mesh.split(c.table.names[which], {{a, outer}, {b, rest}}), table};
}

/// The axes turned round: the innermost comes first.
inline Case reversed(const Case& c) {
    auto names = c.table.names;
    auto sizes = c.table.sizes;
    std::reverse(names.begin(), names.end());
    std::reverse(sizes.begin(), sizes.end());
    const auto table = gathered(c.table, names, sizes, [](std::vector<int> at) {
        std::reverse(at.begin(), at.end());
        return at;
    });
    const auto listed = std::vector<std::string_view>(names.begin(), names.end());
    return {c.mesh.permuted(listed), table};
}

/// True if `call` throws UsageError.
template <class Call>
bool refuses(Call call) {
    try {
        call();
    } catch (const UsageError&) {
        return true;
    }
    return false;
}

/// The sets of axes to ask about: all of them up to four axes, else none, all, each, and pairs of neighbours.
inline std::vector<AxisSet> sets_of_axes(const Mesh& mesh) {
    auto sets = std::vector<AxisSet>{};
    const auto add = [&](std::uint32_t bits) {
        auto set = AxisSet{};
        for (int a = 0; a < mesh.axis_count(); ++a)
            if ((bits >> a & 1U) != 0) set.insert({a});
        sets.push_back(set);
    };
    const auto count = mesh.axis_count();
    const auto all = (std::uint32_t{1} << count) - 1;
    if (count <= 4) {
        for (std::uint32_t bits = 0; bits <= all; ++bits) add(bits);
        return sets;
    }
    add(0);
    add(all);
    for (int a = 0; a < count; ++a) add(std::uint32_t{1} << a);
    for (int a = 0; a + 1 < count; ++a) add(std::uint32_t{3} << a);
    add(1U | std::uint32_t{1} << (count - 1));
    return sets;
}

/// The first law of one rank that does not hold: its coordinate, its index on each axis, its neighbours.
inline std::string broken_law_of_rank(const Mesh& mesh, const Table& table, int position) {
    const auto rank = table.ranks[static_cast<std::size_t>(position)];
    const auto expected = table.coordinate(position);
    const auto who = detail::cat("rank ", rank, " of ", to_string(mesh), ": ");
    auto indices = std::vector<int>(expected.size(), -1);
    mesh.indices(rank, indices);
    if (!mesh.contains(rank)) return who + "is not contained";
    if (indices != expected) return who + "indices are not those counted";
    if (mesh.rank_at(expected) != rank) return who + "rank_at(indices) is another rank";
    const auto coord = mesh.coord(rank);
    if (mesh.rank(coord) != rank) return who + "rank(coord) is another rank";
    if (Coordinate::parse(to_string(coord)) != coord) return who + "the coordinate does not parse back";
    for (std::size_t a = 0; a < expected.size(); ++a) {
        const auto axis = AxisId{static_cast<int>(a)};
        const auto& name = table.names[a];
        if (coord[name] != expected[a] || coord[axis] != expected[a]) return who + "coord differs";
        if (mesh.index(rank, name) != expected[a] || mesh.index(rank, axis) != expected[a])
            return who + "index differs on " + name;
        for (auto by :
             {-table.sizes[a] - 1, -2, -1, 0, 1, 2, table.sizes[a], max_axes * table.sizes[a] + 1}) {
            auto there = expected;
            there[a] += by;
            const auto inside = there[a] >= 0 && there[a] < table.sizes[a];
            const auto open = inside ? table.at(there) : -1;
            if (mesh.neighbor(rank, name, by).value_or(-1) != open ||
                mesh.neighbor(rank, axis, by).value_or(-1) != open)
                return detail::cat(who, "the neighbour ", by, " along ", name, " differs");
            while (there[a] < 0) there[a] += table.sizes[a];
            there[a] %= table.sizes[a];
            if (mesh.neighbor(rank, name, by, Edge::wrap) != table.at(there))
                return detail::cat(who, "the wrapping neighbour ", by, " along ", name, " differs");
        }
    }
    return {};
}

/// The first law of the groups along `axes`, listed with `order` (positions of axes, outermost first), that
/// does not hold. The groups are found by sorting all ranks by their coordinate on the other axes.
inline std::string broken_law_of_partition(const Mesh& mesh, const Table& table, AxisSet axes) {
    const auto what = detail::cat("axes ", axes.bits(), " of ", to_string(mesh), ": ");
    auto by_others = std::map<std::vector<int>, std::vector<int>>{};
    auto turned = std::map<std::vector<int>, std::map<std::vector<int>, int>>{};
    for (std::size_t p = 0; p < table.ranks.size(); ++p) {
        auto others = table.coordinate(static_cast<int>(p));
        auto along = std::vector<int>{};
        for (std::size_t a = others.size(); a-- > 0;)
            if (axes.contains({static_cast<int>(a)})) along.push_back(std::exchange(others[a], -1));
        by_others[others].push_back(table.ranks[p]);
        turned[others][along] = table.ranks[p];  // the innermost axis is compared first
    }
    const auto first = [](const std::vector<int>& a, const std::vector<int>& b) {
        return a.front() < b.front();
    };
    auto groups = std::vector<std::vector<int>>{};
    for (const auto& [others, ranks] : by_others) groups.push_back(ranks);
    std::sort(groups.begin(), groups.end(), first);

    const auto partition = mesh.partition(axes);
    if (partition.size() != static_cast<int>(groups.size())) return what + "the number of groups differs";
    auto written = std::vector<int>(table.ranks.size(), -1);
    partition.copy_to(written);
    auto flat = std::vector<int>{};
    for (int g = 0; g < partition.size(); ++g) {
        const auto& expected = groups[static_cast<std::size_t>(g)];
        const auto group = partition[g];
        flat.insert(flat.end(), expected.begin(), expected.end());
        if (!std::ranges::equal(group, expected)) return what + "a group of the partition differs";
        if (group.size() != partition.group_size()) return what + "group_size differs";
        if (group.front() != expected.front() || group.back() != expected.back())
            return what + "front or back differs";
        if (parse_ranks(to_string(group)) != expected) return what + "a group does not parse back";
        if (to_string(group) != ranks_to_string(expected)) return what + "a group prints as another list";
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto rank = expected[i];
            if (mesh.group(rank, axes) != group) return what + "two members have different groups";
            if (group.group_rank(rank) != static_cast<int>(i)) return what + "a position differs";
            const auto view = mesh.group_view(rank, axes);
            if (!std::ranges::equal(view, expected) || view.size() != group.size() || view.group() != group)
                return what + "a view lists another group";
            if (view.front() != group.front() || view.back() != group.back())
                return what + "front or back of a view differs";
        }
        const auto view = mesh.group_view(expected.back(), axes);
        for (auto rank = mesh.offset() - 1; rank <= mesh.extent(); ++rank)
            if (view.group_rank(rank) != group.group_rank(rank) ||
                view.contains(rank) != group.contains(rank))
                return what + "membership of a view differs";
        for (auto rank : table.ranks)
            if (group.contains(rank) != (std::ranges::find(expected, rank) != expected.end()))
                return what + "membership differs";
        auto steps = std::vector<int>{};
        for (std::size_t i = 1; i < expected.size(); ++i) steps.push_back(expected[i] - expected[i - 1]);
        const auto even = !steps.empty() && std::ranges::count(steps, steps[0]) == std::ssize(steps);
        if (group.step() != (even ? std::optional(steps[0]) : std::nullopt)) return what + "step differs";
        const auto ends = group.pick({-1, 0});
        const auto expected_ends =
            expected.size() == 1 ? std::vector{expected[0]} : std::vector{expected.front(), expected.back()};
        if (!std::ranges::equal(ends, expected_ends)) return what + "the pick of first and last differs";
    }
    if (written != flat) return what + "copy_to writes something else";

    auto order = std::vector<AxisId>{};
    for (int a = mesh.axis_count() - 1; a >= 0; --a)
        if (axes.contains({a})) order.push_back({a});
    groups.clear();
    for (const auto& [others, members] : turned) {
        groups.emplace_back();
        for (const auto& [along, rank] : members) groups.back().push_back(rank);
    }
    std::sort(groups.begin(), groups.end(), first);
    auto in_order = mesh.partition_in_order(std::span<const AxisId>(order));
    if (!std::ranges::equal(in_order, groups,
                            [](const auto& a, const auto& b) { return std::ranges::equal(a, b); }))
        return what + "partition_in_order differs";
    return {};
}

/// The first law that the mesh breaks, in words; "" if it keeps all of them.
inline std::string broken_law(const Case& c) {
    const auto& [mesh, table] = c;
    const auto text = to_string(mesh);
    const auto [low, high] = std::ranges::minmax(table.ranks);
    if (mesh.size() != static_cast<int>(table.ranks.size())) return text + ": size differs";
    if (mesh.offset() != low || mesh.extent() != high + 1) return text + ": offset or extent differs";
    if (mesh.axis_count() != static_cast<int>(table.names.size())) return text + ": axis_count differs";
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto& name = table.names[static_cast<std::size_t>(a)];
        if (mesh.name({a}) != name || mesh.axis(name) != AxisId{a} || mesh.find(name) != AxisId{a} ||
            mesh.size(name) != table.sizes[static_cast<std::size_t>(a)])
            return text + ": name or size differs on " + name;
    }
    if (!std::ranges::equal(mesh.ranks(), table.ranks)) return text + ": ranks differ";
    if (mesh.is_plain() != (low == 0 && std::ranges::is_sorted(table.ranks) && high + 1 == mesh.size()))
        return text + ": is_plain differs";
    if (Mesh::parse(text) != mesh) return text + ": does not parse back";
    const auto members = std::vector<int>(table.ranks);
    for (auto rank = low - 2; rank <= high + 2; ++rank) {
        if (std::ranges::find(members, rank) != members.end()) continue;
        if (mesh.contains(rank)) return detail::cat(text, ": contains ", rank);
        if (!refuses([&] { (void)mesh.coord(rank); })) return detail::cat(text, ": places ", rank);
        if (!refuses([&] { (void)mesh.group_view(rank, AxisId{0}); }))
            return detail::cat(text, ": views a group of ", rank);
        if (mesh.ranks().contains(rank)) return detail::cat(text, ": lists ", rank);
    }
    for (int p = 0; p < mesh.size(); ++p)
        if (const auto broken = broken_law_of_rank(mesh, table, p); !broken.empty()) return broken;
    for (auto axes : sets_of_axes(mesh))
        if (const auto broken = broken_law_of_partition(mesh, table, axes); !broken.empty()) return broken;
    return {};
}

}  // namespace rankmesh::tests
