// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/place.hpp>

#include <cmath>

#include "cluster/objective.hpp"

namespace rankmesh {

namespace {

/// Returns the mesh with the same axes over positions 0, 1, 2, ...
Mesh plain(const Mesh& mesh) {
    auto axes = std::vector<Axis>{};
    for (int a = 0; a < mesh.axis_count(); ++a) axes.push_back({mesh.name(AxisId{a}), mesh.size(AxisId{a})});
    return Mesh(axes);
}

void check_speeds(const Cluster& cluster) {
    for (const auto& level : cluster.levels())
        if (!level.bandwidth)
            throw UsageError(detail::cat("cluster ", to_string(cluster), " gives no bandwidth for level '",
                                         level.name, "', which place requires; add it to the level, as in ",
                                         level.name, ":8(50GB/s,5us)"));
}

/// Returns the traffic of the axes of two or more ranks: from `given`, else typical.
std::vector<AxisTraffic> traffic_of(const Mesh& mesh, const std::vector<AxisTraffic>& given) {
    auto all = typical_traffic(mesh);
    for (const auto& one : given) {
        const auto axis = mesh.axis(one.axis);
        if (!(one.weight >= 0.0 && std::isfinite(one.weight)))
            throw UsageError(detail::cat("axis '", one.axis, "' has weight ", one.weight,
                                         "; weights are numbers of 0 or more"));
        for (auto& of : all)
            if (of.axis == mesh.name(axis)) of = one;
    }
    return all;
}

/// Up to so many ranks, placements are also tried if a mesh with strides is good.
constexpr auto most_packed_too = 2048;

/// Returns true if `a` is less than `b` by more than rounding errors.
bool is_less(double a, double b) { return a < b * (1 - 1e-9); }

}  // namespace

std::vector<AxisTraffic> typical_traffic(const Mesh& mesh) {
    auto all = std::vector<AxisTraffic>{};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        if (mesh.size(AxisId{a}) == 1) continue;
        const auto name = std::string(mesh.name(AxisId{a}));
        all.push_back(name == "tp" || name == "etp" ? AxisTraffic{name, Collective::all_reduce, 100}
                      : name == "ep"                ? AxisTraffic{name, Collective::all_to_all, 30}
                      : name == "cp"                ? AxisTraffic{name, Collective::shift, 30}
                      : name == "pp"                ? AxisTraffic{name, Collective::shift, 1}
                      : name == "servers"           ? AxisTraffic{name, Collective::shift, 0}
                                                    : AxisTraffic{name, Collective::all_reduce, 10});
    }
    return all;
}

std::vector<int> Placed::devices() const { return order.ranks().list(); }

Placed place(const Cluster& cluster, const Placement& given, const std::vector<AxisTraffic>& traffic,
             std::int64_t bytes) {
    check_speeds(cluster);
    const auto objective = detail::Objective{.cluster = cluster,
                                             .plain = plain(given.mesh()),
                                             .traffic = traffic_of(given.mesh(), traffic),
                                             .bytes = bytes};
    auto result = Placed{.order = given, .before = objective(given)};
    result.after = result.before;
    const auto take = [&](const Placement& order) {
        const auto seconds = objective(order);
        if (!is_less(seconds, result.after)) return;
        result.after = seconds;
        result.order = order;
    };
    auto complete = false;
    auto factors = std::optional<detail::Factors>{};
    if (cluster.is_even()) {
        auto fan_outs = std::vector<int>{};
        for (const auto& level : cluster.levels()) fan_outs.push_back(level.count);
        factors = detail::best_factors(objective, fan_outs, complete);
        if (factors) take(detail::mesh_of_factors(cluster, objective.plain, *factors));
        if (factors && complete) result.search = Placed::Search::strided;
    }
    if (const auto best = detail::best_of_all(objective)) {
        take(Placement(objective.plain, *best));
        result.search = Placed::Search::all;
    } else if (!factors || given.mesh().size() <= most_packed_too) {
        take(Placement(objective.plain, detail::packed(objective)));
    }
    result.order = shortest(result.order);
    for (const auto& of : objective.traffic)
        result.axes.push_back({of, objective.seconds(given, of), objective.seconds(result.order, of)});
    return result;
}

std::string_view to_string(Placed::Search search) {
    constexpr std::string_view names[] = {"some", "strided", "all"};
    return names[static_cast<std::size_t>(search)];
}

}  // namespace rankmesh
