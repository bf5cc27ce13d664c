// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <rankmesh/report/text.hpp>
#include <rankmesh/view/diff.hpp>
#include <rankmesh/view/svg.hpp>

#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_diff {

using view::Both;

struct Arguments {
    std::string a;
    std::string b;
    std::optional<int> world;
    bool json = false;
    std::optional<std::string> on;
    std::optional<std::string> on_b;
    std::size_t first = 8;
    std::string out;
};

struct Sides {
    view::Side a;
    view::Side b;
};

/// Returns the meshes of both, in pairs.
std::vector<Sides> sides_of(const Arguments& arguments) {
    if (arguments.b.empty() && !arguments.on_b)
        throw UsageError("diff has only one mesh on one cluster; add a second mesh, or --on-b CLUSTER");
    if (arguments.on_b && !arguments.on)
        throw UsageError(
            "--on-b gives the cluster of the second mesh, but the first has none; add --on CLUSTER");
    const auto job_of = [&](const std::string& text) {
        return Common{.mesh = text, .world = arguments.world}.job();
    };
    const auto a = job_of(arguments.a);
    const auto b = job_of(arguments.b.empty() ? arguments.a : arguments.b);
    const auto is_like = [](const auto& one, const auto& other) {
        return one.meshes.size() == other.meshes.size();
    };
    if (!std::ranges::equal(a.parts, b.parts, is_like))
        throw UsageError(
            fmt::format("{} and {} have other numbers of parts or meshes, and diff compares them one by one; "
                        "leave out what only one has",
                        to_string(a), to_string(b)));
    const auto on_a = cluster_of(arguments.on);
    const auto on_b = cluster_of(arguments.on_b ? arguments.on_b : arguments.on);
    auto sides = std::vector<Sides>{};
    const auto of_b = b.meshes();
    for (const auto& mesh : a.meshes()) sides.push_back({{mesh, on_a}, {of_b[sides.size()], on_b}});
    return sides;
}

// --- JSON

Json json_of(const Both& both) { return {{"a", both.a}, {"b", both.b}}; }

Json json_of_place(const view::Side& side, int rank) {
    if (!side.placement.contains(rank)) return Json();
    auto coordinate = Json::object();
    const auto found = side.placement.coord(rank);
    for (int i = 0; i < found.size(); ++i) coordinate[std::string(found.name(i))] = found[AxisId{i}];
    auto place = Json{{"coord", coordinate}};
    if (side.cluster) place["host"] = json_of_host(*side.cluster, rank);
    return place;
}

Json json_of(const std::vector<int>& group) { return group.empty() ? Json() : Json(group); }

Json json_of(const Sides& sides, const view::Difference& found) {
    auto json = Json{{"same", found.is_none()}};
    for (const auto& [name, side] : {std::pair("a", &sides.a), std::pair("b", &sides.b)})
        json[name] = {{"mesh", to_string(side->placement)},
                      {"on", side->cluster ? Json(to_string(*side->cluster)) : Json()}};
    json["ranks"] = json_of(found.ranks);
    json["common"] = found.common;
    json["moved"] = found.moved;
    json["levels"] = Json::array();
    for (const auto& level : found.levels)
        json["levels"].push_back({{"level", level.level}, {"moved", level.moved}});
    json["first"] = Json::array();
    for (auto rank : found.first)
        json["first"].push_back(
            {{"rank", rank}, {"a", json_of_place(sides.a, rank)}, {"b", json_of_place(sides.b, rank)}});
    json["axes"] = Json::array();
    for (const auto& axis : found.axes) {
        auto inside = Json::object();
        for (std::size_t i = 0; i < axis.inside.size(); ++i)
            inside[found.levels[i].level] = json_of(axis.inside[i]);
        auto changed = Json::array();
        for (auto rank : axis.changed)
            changed.push_back({{"a", json_of(sides.a.group(rank, axis.axis))},
                               {"b", json_of(sides.b.group(rank, axis.axis))}});
        json["axes"].push_back({{"axis", axis.axis},
                                {"size", json_of(axis.size)},
                                {"groups", json_of(axis.groups)},
                                {"same", axis.same},
                                {"reordered", axis.reordered},
                                {"inside", inside},
                                {"first", changed}});
    }
    return json;
}

int run(const Arguments& arguments, Output& output) {
    if (!arguments.out.empty()) static_cast<void>(picture_format(arguments.out, "", {"svg"}));
    auto same = true;
    auto scenes = std::vector<std::vector<view::Scene>>{};
    auto list = Json::Array{};
    auto texts = std::vector<std::string>{};
    for (const auto& sides : sides_of(arguments)) {
        const auto found = view::diff(sides.a, sides.b, arguments.first);
        same = same && found.is_none();
        if (arguments.json)
            list.push_back(json_of(sides, found));
        else
            texts.push_back(report::text_of(sides.a, sides.b, found));
        if (arguments.out.empty()) continue;
        auto [left, right] = view::draw(sides.a, sides.b, view::Limits{});
        scenes.push_back({std::move(left), std::move(right)});
    }
    if (!arguments.out.empty()) write_file(arguments.out, view::paint_svg(scenes));
    if (arguments.json)
        output.print("{}\n", (list.size() == 1 ? list[0] : Json{{"same", same}, {"meshes", list}}).dump());
    else
        output.write(joined(texts, "\n"));
    return same ? 0 : 1;
}

}  // namespace of_diff

Subcommand diff() {
    const auto arguments = std::make_shared<of_diff::Arguments>();
    return {
        .name = "diff",
        .help = "List the ranks and groups that differ between two meshes, or between two clusters.",
        .options = {{"A", "the first mesh, such as 'pp=4 dp=8 tp=8'", &arguments->a},
                    {"B", "the second mesh; default: the same as A", &arguments->b},
                    world_option(arguments->world, "number of ranks, for a size '*'"),
                    {"--json", "print JSON; docs/json.md describes it", &arguments->json},
                    {"--on", "the cluster, such as 'node:32 gpu:8', or a file", &arguments->on, "CLUSTER"},
                    {"--on-b", "the cluster of B; default: the same as --on", &arguments->on_b, "CLUSTER"},
                    {"--first", "number of ranks to list, and of groups of each axis; default: 8",
                     &arguments->first, "N", Option::Range{0, std::numeric_limits<int>::max(), false}},
                    {"--out", "also draw both meshes side by side into FILE.svg", &arguments->out, "FILE"}},
        .run = [arguments](Output& output) { return of_diff::run(*arguments, output); },
        .examples = {"rankmesh diff 'pp=2 dp=2 tp=4' 'pp=2 tp=4 dp=2' --on 'node:4 gpu:4'",
                     "rankmesh diff 'dp=4 tp=8' --on 'node:4 gpu:8' --on-b 'node:8 gpu:4'"},
        .notes = "Exit status 1: there are differences.",
        .optional_positional = "B"};
}

}  // namespace rankmesh::cli
