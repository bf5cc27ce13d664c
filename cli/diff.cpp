// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>
#include <optional>

#include <rankmesh/view/diff.hpp>
#include <rankmesh/view/svg.hpp>
#include <rankmesh/view/terms.hpp>

#include "file.hpp"
#include "output.hpp"
#include "picture.hpp"
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

Sides sides_of(const Arguments& arguments) {
    if (arguments.b.empty() && !arguments.on_b)
        throw UsageError("one mesh on one cluster has nothing to differ from; add another mesh, or --on-b");
    if (arguments.on_b && !arguments.on)
        throw UsageError(
            "--on-b says where the second mesh runs, and nothing where the first does; add --on");
    const auto topology_of = [&](const std::string& text) {
        return Common{.mesh = text, .world = arguments.world}.topology();
    };
    return {{topology_of(arguments.a), cluster_of(arguments.on)},
            {topology_of(arguments.b.empty() ? arguments.a : arguments.b),
             cluster_of(arguments.on_b ? arguments.on_b : arguments.on)}};
}

std::string text_of(const view::Side& side) {
    return std::visit([](const auto& known) { return to_string(known); }, side.topology);
}
bool has(const view::Side& side, int rank) {
    return std::visit([&](const auto& known) { return known.contains(rank); }, side.topology);
}
Coordinate coord_of(const view::Side& side, int rank) {
    return std::visit([&](const auto& known) { return known.coord(rank); }, side.topology);
}

/// The group of a rank along an axis; without the axis the rank alone, and none where the side has not the
/// rank.
std::vector<int> group_of(const view::Side& side, int rank, const std::string& axis) {
    if (!has(side, rank)) return {};
    return std::visit(
        [&](const auto& known) {
            const auto found = mesh_of(known).find(axis);
            if (!found) return std::vector{rank};
            auto set = AxisSet{};
            set.insert(*found);
            const auto group = known.group(rank, set);
            return std::vector<int>(group.begin(), group.end());
        },
        side.topology);
}

// --- Text

/// `8`, or `8 -> 16` where the sides differ.
std::string text_of(const Both& both) {
    return both.a == both.b ? std::to_string(both.a) : fmt::format("{} -> {}", both.a, both.b);
}

std::string place_of(const view::Side& side, int rank) {
    if (!has(side, rank)) return "-";
    auto text = to_string(coord_of(side, rank));
    if (side.cluster) text += fmt::format(" on {}", host_text(*side.cluster, rank));
    return text;
}

std::string brief(const std::vector<int>& group) {
    constexpr auto most = 8;
    if (group.empty()) return "-";
    auto text = std::string("{");
    auto terms = 0;
    auto left = static_cast<std::ptrdiff_t>(group.size());
    view::for_each_term(group, 0, [&](const view::Term& term) {
        text += (terms > 0 ? ", " : "") + to_string(term);
        left -= term.count;
        return ++terms < most;
    });
    if (left > 0) text += fmt::format(", … {} more", left);
    return text + "}";
}

void print_more(std::size_t shown, std::int64_t all, std::string_view what, Output& output) {
    const auto left = all - static_cast<std::int64_t>(shown);
    if (left > 0) output.print("  ... {}\n", detail::counted(left, detail::cat("more ", what)));
}

/// What the groups of one axis do, and how many more there are than are listed.
void print_axes(const Sides& sides, const view::Difference& found, Output& output) {
    auto rows = std::vector<std::vector<std::string>>{
        {"  axis", "size", "groups", "same", "other order", "other ranks"}};
    for (const auto& level : found.levels) rows.front().push_back("inside one " + level.level);
    for (const auto& axis : found.axes) {
        const auto kept = axis.same + axis.reordered;
        rows.push_back({"  " + axis.axis, text_of(axis.size), text_of(axis.groups), std::to_string(axis.same),
                        std::to_string(axis.reordered),
                        text_of(Both{axis.groups.a - kept, axis.groups.b - kept})});
        for (const auto& inside : axis.inside) rows.back().push_back(text_of(inside));
    }
    output.write("\n");
    output.write(table(rows, 0, rows.front().size()));
    for (const auto& axis : found.axes) {
        if (axis.groups.a == axis.same) continue;
        output.print("\n  {}\n", axis.axis);
        auto groups = std::vector<std::vector<std::string>>{};
        for (auto rank : axis.changed)
            groups.push_back({"  ", brief(group_of(sides.a, rank, axis.axis)), "->",
                              brief(group_of(sides.b, rank, axis.axis))});
        if (!groups.empty()) output.write(table(groups, 0, groups.front().size()));
        print_more(axis.changed.size(), axis.groups.a - axis.same, "group", output);
    }
}

void print_text(const Sides& sides, const view::Difference& found, Output& output) {
    for (const auto& [name, side] : {std::pair("a", &sides.a), std::pair("b", &sides.b)})
        output.print("{}  {}{}\n", name, text_of(*side),
                     side->cluster ? " on " + to_string(*side->cluster) : std::string());
    output.write("\n");
    if (found.is_none()) {
        output.write("nothing differs\n");
        return;
    }
    output.print("{} of {} at another coordinate\n", found.moved, detail::counted(found.common, "rank"));
    for (const auto& level : found.levels)
        if (level.moved > 0) output.print("{} in another {}\n", level.moved, level.level);
    for (const auto& [name, all] : {std::pair("a", found.ranks.a), std::pair("b", found.ranks.b)})
        if (all > found.common)
            output.print("{} only in {}\n", detail::counted(all - found.common, "rank"), name);

    if (!found.first.empty()) {
        auto rows = std::vector<std::vector<std::string>>{{"  rank", "a", "b"}};
        for (auto rank : found.first)
            rows.push_back({"  " + std::to_string(rank), place_of(sides.a, rank), place_of(sides.b, rank)});
        output.write("\n");
        output.write(table(rows, 0, rows.front().size()));
        print_more(found.first.size(), found.differing, "rank", output);
    }
    print_axes(sides, found, output);
}

// --- JSON

Json json_of(const Both& both) { return {{"a", both.a}, {"b", both.b}}; }

Json json_of_place(const view::Side& side, int rank) {
    if (!has(side, rank)) return Json();
    auto coordinate = Json::object();
    const auto found = coord_of(side, rank);
    for (int i = 0; i < found.size(); ++i) coordinate[std::string(found.name(i))] = found[AxisId{i}];
    auto place = Json{{"coord", coordinate}};
    if (side.cluster) place["host"] = json_of_host(*side.cluster, rank);
    return place;
}

Json json_of(const std::vector<int>& group) { return group.empty() ? Json() : Json(group); }

Json json_of(const Sides& sides, const view::Difference& found) {
    auto json = Json{{"same", found.is_none()}};
    for (const auto& [name, side] : {std::pair("a", &sides.a), std::pair("b", &sides.b)})
        json[name] = {{"mesh", text_of(*side)},
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
            changed.push_back({{"a", json_of(group_of(sides.a, rank, axis.axis))},
                               {"b", json_of(group_of(sides.b, rank, axis.axis))}});
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
    const auto sides = sides_of(arguments);
    const auto found = view::diff(sides.a, sides.b, arguments.first);
    if (!arguments.out.empty()) {
        const auto [left, right] = view::draw(sides.a, sides.b, view::Limits{});
        write_file(arguments.out, view::paint_svg(left, right));
    }
    if (arguments.json) {
        output.print("{}\n", json_of(sides, found).dump());
    } else {
        print_text(sides, found, output);
    }
    return found.is_none() ? 0 : 1;
}

}  // namespace of_diff

Subcommand diff() {
    const auto arguments = std::make_shared<of_diff::Arguments>();
    return {.name = "diff",
            .help = "Say which ranks and groups differ between two meshes, or between two clusters.",
            .options = {{"A", "a mesh, such as 'pp=4 dp=8 tp=8'", &arguments->a},
                        {"B", "the mesh that it is compared with; the same if left out", &arguments->b},
                        world_option(arguments->world, "ranks in the world, for a size '*'"),
                        {"--json", "print JSON, as docs/json.md says", &arguments->json},
                        {"--on", "the machines, such as 'node:32 gpu:8'", &arguments->on, "CLUSTER"},
                        {"--on-b", "the machines of B, where they are others", &arguments->on_b, "CLUSTER"},
                        {"--first", "how many ranks, and groups of each axis, are listed; 8 if left out",
                         &arguments->first, "N", Option::Range{0, std::numeric_limits<int>::max(), false}},
                        {"--out", "draw both side by side into FILE.svg as well", &arguments->out, "FILE"}},
            .run = [arguments](Output& output) { return of_diff::run(*arguments, output); },
            .footer =
                "The exit status is 0 where nothing differs, 1 where something does.\n\n"
                "Examples:\n  rankmesh diff 'pp=2 dp=2 tp=4' 'pp=2 tp=4 dp=2' --on 'node:4 gpu:4'\n"
                "  rankmesh diff 'dp=4 tp=8' --on 'node:4 gpu:8' --on-b 'node:8 gpu:4'",
            .optional_positional = "B"};
}

}  // namespace rankmesh::cli
