// SPDX-License-Identifier: Apache-2.0
#include "cluster_output.hpp"

#include <algorithm>
#include <array>

namespace rankmesh::cli {

namespace of_cluster_output {

using detail::counted;

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
            text += fmt::format("{}rank {} in {}", text.empty() ? "" : ", ", rule.first[i],
                                cluster.unit_name(rule.units[i], level));
    }
    return seen.size() > most ? fmt::format("{}, … {} more", text, seen.size() - most) : text;
}

/// `tp stays in one node`.
std::string rule_text(const ClusterReport::Rule& rule) {
    return fmt::format("{} in one {}", joined(rule.keep.axes, ","), rule.keep.level);
}

std::string verdict_text(const Cluster& cluster, const ClusterReport::Rule& rule) {
    const auto groups =
        fmt::format("{} of {}", counted(rule.groups, "group"), counted(rule.group_size, "rank"));
    auto text = fmt::format("{}{}: ", rule_text(rule), rule.is_default ? " (the default)" : "");
    if (rule.holds()) return text + fmt::format("all {}", groups);
    text += fmt::format("{} of {} reach further; the first has {}", rule.straddling, groups,
                        places_text(cluster, rule));
    if (rule.group_size > rule.unit_size)
        text += fmt::format("; a {} has {}", rule.keep.level, counted(rule.unit_size, "device"));
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
            lines.push_back(
                fmt::format("no axis is checked, because none is named tp, etp, cp or ep; to check one, "
                            "add --keep AXIS:{}",
                            name_of(cluster, *level)));
    auto axes = std::vector<std::string>{};
    auto flags = std::string{};
    for (const auto& rule : report.rules) {
        axes.push_back(joined(rule.keep.axes, ","));
        flags += fmt::format(" --keep {}:{}", axes.back(), rule.keep.level);
    }
    for (const auto& axis : report.unruled) {
        axes.push_back(axis);
        const auto level = name_of(cluster, fastest_level(cluster).value());
        lines.push_back(fmt::format(
            "{} is not checked: {} not fit into one {}; to check it, add{} --keep {}:{}", axis,
            axes.size() == 1 ? "it does" : joined(axes, ",") + " together do", level, flags, axis, level));
    }
    return lines;
}

/// Returns why a rule holds or fails, and what to do.
std::string why(const Mesh& mesh, const ClusterReport::Rule& rule) {
    const auto axes = joined(rule.keep.axes, ",");
    const auto& level = rule.keep.level;
    auto text = rule.is_default
                    ? fmt::format("No rule was given, so {} is kept inside a {}, where links are fastest. ",
                                  axes, level)
                    : std::string{};
    if (rule.holds()) return text + fmt::format("No group along {} needs the link of a {}.", axes, level);
    if (rule.group_size > rule.unit_size)
        return text + fmt::format(
                          "A group along {} has {}, the largest {} {}: no order of the ranks keeps "
                          "it inside. Make {} {} at most.",
                          axes, counted(rule.group_size, "rank"), level, counted(rule.unit_size, "device"),
                          axes, rule.unit_size);
    if (!rule.divides)
        return text + fmt::format(
                          "Groups along {} of {} do not fill each {}, of {} at most, so in the order "
                          "of the devices some reach into the next. rankmesh place leaves devices "
                          "idle instead, where there are enough.",
                          axes, counted(rule.group_size, "rank"), level, counted(rule.unit_size, "device"));
    auto inner = std::vector<std::string>{};
    for (int a = mesh.axis_count(); a-- > 0;) {
        const auto name = std::string(mesh.name(AxisId{a}));
        if (std::ranges::find(rule.keep.axes, name) != rule.keep.axes.end()) break;
        inner.push_back(name);
    }
    std::ranges::reverse(inner);
    text +=
        fmt::format("A group along {} has {} and would fit into a {} of {}, but its ranks are not contiguous",
                    axes, counted(rule.group_size, "rank"), level, counted(rule.unit_size, "device"));
    if (!inner.empty() && mesh.is_plain())
        text += fmt::format(": {} {}", joined(inner, ","),
                            inner.size() == 1 ? "is an inner axis" : "are inner axes");
    return text + fmt::format(". List {} last, or use the order that rankmesh place prints.", axes);
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
    auto text = fmt::format(
        "all_reduce along {}: each rank sends {} parts of {}, {} in total, to the next rank in its ring of "
        "{}.",
        joined(costs.axes, ","), cost.steps,
        megabytes_text((bytes + costs.group_size - 1) / costs.group_size), megabytes_text(cost.sent),
        costs.group_size);
    const auto level = decisive(cost);
    if (!level) return text;
    const auto at = static_cast<std::size_t>(*level);
    const auto rings = cost.links[at] / cost.sent;
    text += fmt::format(" {} the busiest link of a {}: {} each way.",
                        rings == 1 ? "One such ring crosses" : fmt::format("{} such rings cross", rings),
                        name_of(cluster, *level), megabytes_text(cost.links[at]));
    if (!cost.seconds) return text;
    const auto moving = static_cast<double>(cost.links[at]) / cluster.levels()[at].bandwidth.value();
    return text + fmt::format(" That takes {}, plus {} to start {} messages.", time_text(moving),
                              time_text(*cost.seconds - moving), cost.steps);
}

Json json_of(const Cluster& cluster, const CollectiveCost& cost) {
    auto links = Json::object();
    for (std::size_t l = 0; l < cost.links.size(); ++l)
        links[name_of(cluster, static_cast<int>(l))] = cost.links[l];
    return {{"seconds", cost.seconds ? Json(*cost.seconds) : Json()},
            {"slowest", cost.slowest ? Json(name_of(cluster, *cost.slowest)) : Json()},
            {"links", links}};
}

void print_costs(const Cluster& cluster, const ClusterReport& report, Output& output) {
    const auto inner = cluster.level_count() - 1;
    if (inner > 0) {
        auto rows = std::vector<std::vector<std::string>>{{"axes", ""}};
        for (int l = 0; l < inner; ++l) rows[0].push_back("> 1 " + name_of(cluster, l));
        for (const auto& costs : report.costs) {
            rows.push_back({joined(costs.axes, ","), fmt::format("{} x {}", costs.groups, costs.group_size)});
            for (int l = 0; l < inner; ++l)
                rows.back().push_back(std::to_string(costs.straddling[static_cast<std::size_t>(l)]));
        }
        rows[0][1] = "groups x ranks";
        output.print("\n{}", table(rows, 2, 0));
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
    output.print("\n{} of each rank:\n{}", bytes_text(static_cast<std::size_t>(report.bytes)),
                 table(rows, 2, 0));
    if (known) return;
    auto silent = std::vector<std::string>{};
    for (const auto& level : cluster.levels())
        if (!level.bandwidth) silent.push_back(level.name);
    output.print("no times where messages cross the link of a {}: the cluster gives no bandwidth for it\n",
                 joined(silent, " or "));
}

}  // namespace of_cluster_output

std::string megabytes_text(std::int64_t bytes) {
    const auto value = static_cast<double>(bytes);
    return value < 1e3    ? fmt::format("{} B", bytes)
           : value < 1e6  ? fmt::format("{:.1f} kB", value / 1e3)
           : value < 1e9  ? fmt::format("{:.1f} MB", value / 1e6)
           : value < 1e12 ? fmt::format("{:.1f} GB", value / 1e9)
                          : fmt::format("{:.1f} TB", value / 1e12);
}

std::vector<Option> OnCluster::options() {
    return {{"--on", "the cluster, such as 'node:32(50GB/s,5us) gpu:8(450GB/s,2us)'", &on, "CLUSTER"},
            {"--keep",
             "require that groups along AXES stay inside one unit of LEVEL, such as tp:node or tp,cp:node; "
             "may be repeated",
             &keep, "AXES:LEVEL"},
            {"--bytes", "buffer size for the timings, such as 1GiB; default: 64MiB", &bytes, "SIZE",
             Option::Range{1, 0x1p50, false}},
            {"--explain", "explain each result, and say what to change", &explain}};
}

std::optional<std::pair<Cluster, ClusterQuestions>> OnCluster::questions() const {
    if (!on) {
        const auto* idle = !keep.empty()     ? "--keep"
                           : bytes.count > 0 ? "--bytes"
                           : explain         ? "--explain"
                                             : nullptr;
        if (idle) throw UsageError(fmt::format("{} requires a cluster; add --on CLUSTER", idle));
        return std::nullopt;
    }
    auto questions = ClusterQuestions{};
    for (const auto& text : keep) questions.keep.push_back(Keep::parse(text));
    if (bytes.count > 0) questions.bytes = static_cast<std::int64_t>(bytes.count);
    return std::pair(*cluster_of(on), questions);
}

void print_report(const Cluster& cluster, const Topology& topology, const ClusterReport& report, bool explain,
                  Output& output) {
    const auto width = static_cast<std::size_t>(terminal_width());
    const auto line = [&](bool right, const std::string& text) {
        output.print("{}\n", folded(fmt::format("{} {}", right ? "ok" : "NO", text), 3, width));
    };
    output.print("\n{}\n\n", folded("on " + to_string(cluster), 3, width));
    const auto idle = report.devices - report.ranks;
    line(report.fits(),
         report.fits() ? fmt::format("{} on {}{}", detail::counted(report.ranks, "rank"),
                                     detail::counted(report.devices, "device"),
                                     idle > 0 ? fmt::format(", {} idle", idle) : "")
                       : fmt::format("{} on {}: rank {} has no device", detail::counted(report.ranks, "rank"),
                                     detail::counted(report.devices, "device"), report.last_rank));
    for (const auto& rule : report.rules) line(rule.holds(), of_cluster_output::verdict_text(cluster, rule));
    const auto& mesh = std::visit([](const auto& known) -> const Mesh& { return mesh_of(known); }, topology);
    for (const auto& text : of_cluster_output::unchecked(cluster, mesh, report))
        output.print("{}\n", folded(text, 3, width));
    if (!report.costs.empty()) of_cluster_output::print_costs(cluster, report, output);
    if (!explain) return;
    for (const auto& rule : report.rules)
        output.print(
            "\n{}\n",
            folded(of_cluster_output::rule_text(rule) + ": " + of_cluster_output::why(mesh, rule), 0, width));
    for (const auto& costs : report.costs)
        output.print("\n{}\n", folded(of_cluster_output::why(cluster, costs, report.bytes), 0, width));
}

std::string broken_rules(const Cluster& cluster, const Topology& topology) {
    const auto report = std::visit([&](const auto& known) { return check_on(cluster, known); }, topology);
    if (report.right()) return {};
    const auto width = static_cast<std::size_t>(terminal_width());
    auto text = std::string("rankmesh check refuses this placement:\n");
    for (const auto& rule : report.rules)
        if (!rule.holds())
            text += folded("NO " + of_cluster_output::verdict_text(cluster, rule), 3, width) + "\n";
    return text;
}

Json json_of(const Cluster& cluster, const ClusterReport& report) {
    auto out = Json{{"on", to_string(cluster)}, {"right", report.right()},   {"fits", report.fits()},
                    {"ranks", report.ranks},    {"devices", report.devices}, {"bytes", report.bytes},
                    {"rules", Json::array()},   {"costs", Json::array()}};
    for (const auto& rule : report.rules)
        out["rules"].push_back({{"axes", rule.keep.axes},
                                {"level", rule.keep.level},
                                {"default", rule.is_default},
                                {"holds", rule.holds()},
                                {"groups", rule.groups},
                                {"group_size", rule.group_size},
                                {"unit_size", rule.unit_size},
                                {"divides", rule.divides},
                                {"straddling", rule.straddling},
                                {"first", rule.first},
                                {"units", rule.units}});
    for (const auto& costs : report.costs) {
        auto straddling = Json::object();
        for (std::size_t l = 0; l < costs.straddling.size(); ++l)
            straddling[of_cluster_output::name_of(cluster, static_cast<int>(l))] = costs.straddling[l];
        auto operations = Json::object();
        for (std::size_t i = 0; i < collectives.size(); ++i)
            operations[std::string(to_string(collectives[i]))] = {
                {"steps", costs.together[i].steps},
                {"sent", costs.together[i].sent},
                {"alone", of_cluster_output::json_of(cluster, costs.alone[i])},
                {"together", of_cluster_output::json_of(cluster, costs.together[i])}};
        out["costs"].push_back({{"axes", costs.axes},
                                {"groups", costs.groups},
                                {"group_size", costs.group_size},
                                {"straddling", straddling},
                                {"operations", operations}});
    }
    return out;
}

}  // namespace rankmesh::cli
