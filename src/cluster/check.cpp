// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/check.hpp>

#include <algorithm>

namespace rankmesh {

namespace {

constexpr const char* kept_by_default[] = {"tp", "etp", "cp", "ep"};

/// True for an axis whose groups exchange activations within each layer, and so always have a rule.
bool is_tensor(std::string_view axis) { return axis == "tp" || axis == "etp"; }

AxisSet set_of(const Mesh& mesh, const std::vector<std::string>& axes) {
    auto set = AxisSet{};
    for (const auto& axis : axes) set.insert(mesh.axis(axis));
    return set;
}

/// Returns the number of units of a level that may differ; 1 on an even cluster, where one unit represents
/// all.
int different_units(const Cluster& cluster, int level) {
    return cluster.is_even() ? 1 : cluster.unit_count(level);
}

int largest_unit(const Cluster& cluster, int level) {
    auto largest = 0;
    for (int unit = 0; unit < different_units(cluster, level); ++unit)
        largest = std::max(largest, cluster.unit_size(unit, level));
    return largest;
}

ClusterReport::Rule judged(const Cluster& cluster, const Placement& placement, const Keep& keep) {
    const auto set = set_of(placement.mesh(), keep.axes);
    const auto level = cluster.level(keep.level);
    const auto traffic = Traffic(cluster, placement, set);
    auto rule = ClusterReport::Rule{.keep = keep,
                                    .group_size = traffic.group_size(),
                                    .unit_size = largest_unit(cluster, level),
                                    .groups = traffic.group_count(),
                                    .straddling = traffic.straddling(level)};
    for (int unit = 0; unit < different_units(cluster, level); ++unit)
        if (cluster.unit_size(unit, level) % rule.group_size != 0) rule.divides = false;
    if (const auto number = traffic.first_straddling(level)) {
        rule.first = placement.of(placement.mesh().partition(set)[*number]).list();
        for (auto rank : rule.first) rule.units.push_back(cluster.unit(rank, level));
    }
    return rule;
}

}  // namespace

ClusterReport check_on(const Cluster& cluster, const Placement& placement,
                       const ClusterQuestions& questions) {
    const auto& mesh = placement.mesh();
    auto report = ClusterReport{.ranks = mesh.size(),
                                .last_rank = placement.extent() - 1,
                                .devices = cluster.size(),
                                .bytes = questions.bytes};
    auto sets = questions.sets;
    for (int a = 0; questions.sets.empty() && a < mesh.axis_count(); ++a)
        if (mesh.size(AxisId{a}) > 1) sets.push_back({std::string(mesh.name(AxisId{a}))});
    // Unknown names are errors even if nothing is counted.
    for (const auto& set : sets) set_of(mesh, set);
    for (const auto& [axes, level] : questions.keep) set_of(mesh, axes), cluster.level(level);
    if (!report.fits()) return report;

    for (const auto& keep : questions.keep.empty() ? default_keeps(cluster, mesh) : questions.keep) {
        report.rules.push_back(judged(cluster, placement, keep));
        report.rules.back().is_default = questions.keep.empty();
    }
    for (const auto* name : kept_by_default) {
        const auto has_rule = std::ranges::any_of(
            report.rules, [&](const auto& rule) { return rule.keep.axes == std::vector<std::string>{name}; });
        const auto axis = mesh.find(name);
        if (questions.keep.empty() && axis && mesh.size(*axis) > 1 && !has_rule && cluster.level_count() > 1)
            report.unruled.push_back(name);
    }
    for (const auto& set : sets) {
        const auto traffic = Traffic(cluster, placement, set_of(mesh, set));
        auto& costs = report.costs.emplace_back();
        costs.axes = set;
        costs.groups = traffic.group_count();
        costs.group_size = traffic.group_size();
        for (int l = 0; l < cluster.level_count(); ++l) costs.straddling.push_back(traffic.straddling(l));
        for (std::size_t i = 0; i < collectives.size(); ++i) {
            costs.alone[i] = traffic.cost(collectives[i], questions.bytes, Busy::one_group);
            costs.together[i] = traffic.cost(collectives[i], questions.bytes);
        }
    }
    return report;
}

Keep Keep::parse(std::string_view text) {
    const auto fail = [&](std::string_view what) {
        throw UsageError(detail::cat("the rule ", detail::in_quotes(text), " ", what,
                                     "; write axes and a level, such as tp:node or tp,cp:node"));
    };
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) fail("has no ':'");
    auto keep = Keep{.level = std::string(text.substr(colon + 1))};
    if (keep.level.empty()) fail("names no level");
    auto axes = text.substr(0, colon);
    while (true) {
        const auto comma = axes.find(',');
        keep.axes.emplace_back(axes.substr(0, comma));
        if (keep.axes.back().empty()) fail("has an empty axis");
        if (comma == std::string_view::npos) return keep;
        axes.remove_prefix(comma + 1);
    }
}

bool ClusterReport::right() const { return fits() && std::ranges::all_of(rules, &Rule::holds); }

std::optional<int> fastest_level(const Cluster& cluster) {
    auto level = cluster.level_count() - 2;
    if (level < 0) return std::nullopt;
    const auto speed = [&](int l) { return cluster.levels()[static_cast<std::size_t>(l)].bandwidth; };
    const auto device = speed(level + 1);
    while (level > 0 && device && speed(level) && *speed(level) >= *device) --level;
    return level;
}

std::vector<Keep> default_keeps(const Cluster& cluster, const Mesh& mesh) {
    auto keeps = std::vector<Keep>{};
    const auto level = fastest_level(cluster);
    if (!level) return keeps;
    const auto room = largest_unit(cluster, *level);
    auto taken = std::int64_t{1};
    for (const auto* name : kept_by_default) {
        const auto axis = mesh.find(name);
        if (!axis || mesh.size(*axis) == 1) continue;
        taken *= mesh.size(*axis);
        if (taken > room && !is_tensor(name)) break;
        keeps.push_back({{name}, cluster.levels()[static_cast<std::size_t>(*level)].name});
    }
    return keeps;
}

}  // namespace rankmesh
