// SPDX-License-Identifier: Apache-2.0
// The text of a mesh on a cluster: rules, and the costs of collectives.
#include <algorithm>
#include <array>
#include <cstdio>

#include <rankmesh/report/text.hpp>

#include "report/columns.hpp"

namespace rankmesh::report {

using detail::append;
using detail::cat;
using detail::counted;

namespace {

const std::string& name_of(const Cluster& cluster, int level) {
    return cluster.levels()[static_cast<std::size_t>(level)].name;
}

/// Returns the first rank in each unit: `rank 0 in node 0, rank 8 in node 1, … 6 more`.
std::string places_text(const Cluster& cluster, const ClusterReport::Rule& rule) {
    constexpr auto most = std::size_t{3};
    const auto level = cluster.level(rule.keep.level);
    auto seen = std::vector<int>{};
    auto text = std::string{};
    for (std::size_t i = 0; i < rule.first.size(); ++i) {
        if (std::ranges::find(seen, rule.units[i]) != seen.end()) continue;
        seen.push_back(rule.units[i]);
        if (seen.size() <= most)
            text += cat(text.empty() ? "" : ", ", "rank ", rule.first[i], " in ",
                        cluster.unit_name(rule.units[i], level));
    }
    return seen.size() > most ? cat(text, ", … ", seen.size() - most, " more") : text;
}

/// `tp stays in one node`.
std::string rule_text(const ClusterReport::Rule& rule) {
    return cat(joined(rule.keep.axes, ","), " in one ", rule.keep.level);
}

std::string verdict_text(const Cluster& cluster, const ClusterReport::Rule& rule) {
    const auto groups = cat(counted(rule.groups, "group"), " of ", counted(rule.group_size, "rank"));
    auto text = cat(rule_text(rule), rule.is_default ? " (the default)" : "", ": ");
    if (rule.holds()) return text + cat("all ", groups);
    text +=
        cat(rule.straddling, " of ", groups, " reach further; the first has ", places_text(cluster, rule));
    if (rule.group_size > rule.unit_size)
        text += cat("; a ", rule.keep.level, " has ", counted(rule.unit_size, "device"));
    return text;
}

/// Returns a sentence for each axis without a default rule. `--keep` replaces the default rules, so it
/// repeats them.
std::vector<std::string> unchecked(const Cluster& cluster, const Mesh& mesh, const ClusterReport& report) {
    auto lines = std::vector<std::string>{};
    const auto is_known = [&](const char* axis) { return mesh.find(axis).has_value(); };
    if (report.fits() && report.rules.empty() && mesh.axis_count() > 1 && !is_known("tp") &&
        !is_known("cp") && !is_known("ep"))
        if (const auto level = fastest_level(cluster); level && cluster.unit_count(*level) > 1)
            lines.push_back(cat(
                "no axis is checked, because none is named tp, etp, cp or ep; to check one, add --keep AXIS:",
                name_of(cluster, *level)));
    auto axes = std::vector<std::string>{};
    auto flags = std::string{};
    for (const auto& rule : report.rules) {
        axes.push_back(joined(rule.keep.axes, ","));
        flags += cat(" --keep ", axes.back(), ":", rule.keep.level);
    }
    for (const auto& axis : report.unruled) {
        axes.push_back(axis);
        const auto level = name_of(cluster, fastest_level(cluster).value());
        lines.push_back(
            cat(axis, " is not checked: ", axes.size() == 1 ? "it does" : joined(axes, ",") + " together do",
                " not fit into one ", level, "; to check it, add", flags, " --keep ", axis, ":", level));
    }
    return lines;
}

/// Returns why a rule holds or fails, and what to do.
std::string why(const Mesh& mesh, const ClusterReport::Rule& rule) {
    const auto axes = joined(rule.keep.axes, ",");
    const auto& level = rule.keep.level;
    auto text = rule.is_default ? cat("No rule was given, so ", axes, " is kept inside a ", level,
                                      ", where links are fastest. ")
                                : std::string{};
    if (rule.holds()) return text + cat("No group along ", axes, " needs the link of a ", level, ".");
    if (rule.group_size > rule.unit_size)
        return text + cat("A group along ", axes, " has ", counted(rule.group_size, "rank"), ", the largest ",
                          level, " ", counted(rule.unit_size, "device"),
                          ": no order of the ranks keeps it inside. Make ", axes, " ", rule.unit_size,
                          " at most.");
    if (!rule.divides)
        return text + cat("Groups along ", axes, " of ", counted(rule.group_size, "rank"),
                          " do not fill each ", level, ", of ", counted(rule.unit_size, "device"),
                          " at most, so in the order of the devices some reach into the next. rankmesh place "
                          "leaves devices idle instead, where there are enough.");
    auto inner = std::vector<std::string>{};
    for (int a = mesh.axis_count(); a-- > 0;) {
        const auto name = std::string(mesh.name(AxisId{a}));
        if (std::ranges::find(rule.keep.axes, name) != rule.keep.axes.end()) break;
        inner.push_back(name);
    }
    std::ranges::reverse(inner);
    text += cat("A group along ", axes, " has ", counted(rule.group_size, "rank"), " and would fit into a ",
                level, " of ", counted(rule.unit_size, "device"), ", but its ranks are not contiguous");
    if (!inner.empty() && mesh.is_plain())
        text += cat(": ", joined(inner, ","), " ", inner.size() == 1 ? "is an inner axis" : "are inner axes");
    return text + cat(". List ", axes, " last, or use the order that rankmesh place prints.");
}

std::string time_text_of(const CollectiveCost& cost) { return cost.seconds ? time_text(*cost.seconds) : "-"; }

/// Returns the level of the slowest link, else the outermost level with traffic.
std::optional<int> decisive(const CollectiveCost& cost) {
    if (cost.slowest) return cost.slowest;
    for (std::size_t l = 0; l < cost.links.size(); ++l)
        if (cost.links[l] > 0) return static_cast<int>(l);
    return std::nullopt;
}

/// Explains the time of an all_reduce along these axes.
std::string why(const Cluster& cluster, const ClusterReport::Costs& costs, std::int64_t bytes) {
    const auto& cost = costs.together.front();
    auto text =
        cat("all_reduce along ", joined(costs.axes, ","), ": each rank sends ", cost.steps, " parts of ",
            megabytes_text((bytes + costs.group_size - 1) / costs.group_size), ", ",
            megabytes_text(cost.sent), " in total, to the next rank in its ring of ", costs.group_size, ".");
    const auto level = decisive(cost);
    if (!level) return text;
    const auto at = static_cast<std::size_t>(*level);
    const auto rings = cost.links[at] / cost.sent;
    text += cat(" ", rings == 1 ? "One such ring crosses" : cat(rings, " such rings cross"),
                " the busiest link of a ", name_of(cluster, *level), ": ", megabytes_text(cost.links[at]),
                " each way.");
    if (!cost.seconds) return text;
    const auto moving = static_cast<double>(cost.links[at]) / cluster.levels()[at].bandwidth.value();
    return text + cat(" That takes ", time_text(moving), ", plus ", time_text(*cost.seconds - moving),
                      " to start ", cost.steps, " messages.");
}

/// Returns the tables of costs.
std::string costs_text(const Cluster& cluster, const ClusterReport& report) {
    auto text = std::string{};
    const auto inner = cluster.level_count() - 1;
    if (inner > 0) {
        auto rows = std::vector<std::vector<std::string>>{{"axes", ""}};
        for (int l = 0; l < inner; ++l) rows[0].push_back("> 1 " + name_of(cluster, l));
        for (const auto& costs : report.costs) {
            rows.push_back({joined(costs.axes, ","), cat(costs.groups, " x ", costs.group_size)});
            for (int l = 0; l < inner; ++l)
                rows.back().push_back(std::to_string(costs.straddling[static_cast<std::size_t>(l)]));
        }
        rows[0][1] = "groups x ranks";
        text += "\n" + table(rows, 2, 0);
    }
    auto rows = std::vector<std::vector<std::string>>{
        {"axes", "operation", "slowest link", "each way", "one group", "all at once"}};
    auto known = true;
    for (const auto& costs : report.costs)
        for (std::size_t i = 0; i < collectives.size(); ++i) {
            const auto& cost = costs.together[i];
            const auto level = decisive(cost);
            rows.push_back({i == 0 ? joined(costs.axes, ",") : "", std::string(to_string(collectives[i])),
                            level ? name_of(cluster, *level) : "-",
                            level ? megabytes_text(cost.links[static_cast<std::size_t>(*level)]) : "-",
                            time_text_of(costs.alone[i]), time_text_of(cost)});
            known = known && cost.seconds;
        }
    append(text, cat("\n", bytes_text(static_cast<std::size_t>(report.bytes)), " of each rank:\n",
                     table(rows, 2, 0)));
    if (known) return text;
    auto silent = std::vector<std::string>{};
    for (const auto& level : cluster.levels())
        if (!level.bandwidth) silent.push_back(level.name);
    return text + cat("no times where messages cross the link of a ", joined(silent, " or "),
                      ": the cluster gives no bandwidth for it\n");
}

}  // namespace

std::vector<std::vector<std::string>> timed_sets(const JoinCost& cost) {
    auto sets = std::vector<std::vector<std::string>>{};
    for (const auto& set : cost.sets)
        if (set.group_size > 1) sets.push_back(set.axes);
    return sets;
}

std::string text_of(const Cluster& cluster, const Mesh& mesh, const ClusterReport& report, bool explain,
                    std::size_t width) {
    auto text = cat(folded("on " + to_string(cluster), 3, width), "\n\n");
    const auto line = [&](bool right, const std::string& verdict) {
        append(text, cat(folded(cat(right ? "ok " : "NO ", verdict), 3, width), "\n"));
    };
    const auto idle = report.devices - report.ranks - report.others;
    const auto on = cat(counted(report.ranks, "rank"), " on ", counted(report.devices, "device"));
    line(report.fits(), !report.fits() ? cat(on, ": rank ", report.last_rank, " has no device")
                        : idle > 0     ? cat(on, ", ", idle, " idle")
                                       : on);
    for (const auto& rule : report.rules) line(rule.holds(), verdict_text(cluster, rule));
    for (const auto& sentence : unchecked(cluster, mesh, report))
        append(text, cat(folded(sentence, 3, width), "\n"));
    if (!report.costs.empty()) text += costs_text(cluster, report);
    if (!explain) return text;
    for (const auto& rule : report.rules)
        append(text, cat("\n", folded(cat(rule_text(rule), ": ", why(mesh, rule)), 0, width), "\n"));
    for (const auto& costs : report.costs)
        append(text, cat("\n", folded(why(cluster, costs, report.bytes), 0, width), "\n"));
    return text;
}

std::string broken_rules(const Cluster& cluster, const ClusterReport& report, std::size_t width) {
    auto text = std::string{};
    for (const auto& rule : report.rules)
        if (!rule.holds()) append(text, cat(folded("NO " + verdict_text(cluster, rule), 3, width), "\n"));
    return text;
}

}  // namespace rankmesh::report
