// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>

#include <rankmesh/view/text.hpp>

#include "framework_output.hpp"
#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_show {

struct Arguments : Common {
    std::optional<std::string> on;
    std::string rank;
    std::string as;
    std::string color = "auto";
    std::optional<int> width;
};

Json json_of(const view::Scene& scene, const std::vector<view::Fold>& folds) {
    auto out = Json::array();
    for (const auto& fold : folds)
        out.push_back({{"axis", scene.axes[static_cast<std::size_t>(fold.axis)].name},
                       {"first", fold.first},
                       {"last", fold.last}});
    return out;
}

Json names_of(const view::Scene& scene, const std::vector<int>& axes) {
    auto out = Json::array();
    for (auto axis : axes) out.push_back(scene.axes[static_cast<std::size_t>(axis)].name);
    return out;
}

Json json_of(const view::Scene& scene) {
    auto out = Json{{"mesh", scene.mesh}, {"size", scene.size}, {"focus", scene.focus}};
    for (const auto& entry : scene.axes)
        out["axes"].push_back({{"name", entry.name},
                               {"size", entry.size},
                               {"stride", entry.stride.empty() ? Json() : Json(entry.stride)}});
    out["on"] = scene.cluster ? Json(to_string(*scene.cluster)) : Json();
    out["boxed"] = scene.boxed.empty() ? Json() : Json(scene.boxed);
    out["boxes"] = Json::object();
    for (const auto& [box, label] : scene.labels) out["boxes"][std::to_string(box)] = label;
    out["row_axes"] = names_of(scene, scene.row_axes);
    out["column_axes"] = names_of(scene, scene.column_axes);
    out["wrapped"] = scene.wrapped;
    out["columns"] = Json::array();
    for (const auto& column : scene.columns)
        out["columns"].push_back(column.folded ? Json() : Json(column.indices));
    out["rows"] = Json::array();
    auto folded = json_of(scene, scene.folded_columns);
    for (const auto& row : scene.rows) {
        auto ranks = Json::array();
        auto boxes = Json::array();
        for (const auto& cell : row.cells) {
            ranks.push_back(cell.rank < 0 ? Json() : Json(cell.rank));
            boxes.push_back(cell.box < 0 ? Json() : Json(cell.box));
        }
        out["rows"].push_back({{"indices", row.indices},
                               {"ranks", ranks},
                               {"boxes", boxes},
                               {"folded_before", json_of(scene, row.folded_before)}});
    }
    out["folded_after"] = json_of(scene, scene.folded_after);
    out["folded_columns"] = folded;
    return out;
}

int run(const Arguments& arguments, Output& output) {
    const auto style = view::TextStyle{.width = std::max(40, arguments.width.value_or(terminal_width())),
                                       .color = wants_color(arguments.color)};
    const auto words = arguments.as.empty()
                           ? std::nullopt
                           : std::optional(in_words(arguments.as, arguments.mesh, arguments.world));
    const auto cluster = cluster_of(arguments.on);
    const auto job = words ? Job{{{{Placement(words->mesh)}}}} : arguments.job(cluster);
    const auto focus = arguments.rank.empty() ? std::nullopt : std::optional(rank_of(job, arguments.rank));
    auto list = Json::Array{};
    auto separator = "";
    for (const auto& mesh : job.meshes()) {
        auto subject = view::Subject{.cluster = cluster, .others = job.size() - mesh.size()};
        if (focus && mesh.contains(*focus)) subject.focus = focus;
        const auto scene = view::draw_for_text(mesh, subject, style);
        if (arguments.json) {
            auto& json = list.emplace_back(json_of(scene));
            if (words) json["as"] = words->framework;
            if (words) json["kinds"] = json_of_kinds(*words, scene.focus);
            continue;
        }
        output.print("{}{}", std::exchange(separator, "\n"), view::paint_text(scene, style));
        if (words) print_kinds(*words, scene.focus, style.width, output);
    }
    if (arguments.json) print_json(job, "meshes", list, output);
    return 0;
}

}  // namespace of_show

Subcommand show() {
    const auto arguments = std::make_shared<of_show::Arguments>();
    return {.name = "show",
            .help = "Print a mesh as a grid, with a box around each node.",
            .options = arguments->options(
                {{"--on", "the cluster, such as 'node:32 gpu:8', or a file", &arguments->on, "CLUSTER"},
                 {"--rank", "colour the groups of this rank; default: the first rank", &arguments->rank, "R"},
                 {"--width", "width in columns; default: the terminal's", &arguments->width, "N",
                  Option::Range{40, 10000, false}},
                 as_option(arguments->as),
                 one_of({"auto", "always", "never"},
                        {"--color", "use colour: auto, always or never; default: auto", &arguments->color,
                         "WHEN"})}),
            .run = [arguments](Output& output) { return of_show::run(*arguments, output); },
            .examples = {"rankmesh show 'pp=4 dp=8 tp=8' --on 'node:32 gpu:8'",
                         "rankmesh show 'dp=8 tp=2; edp=4 ep=4 + servers=4 tp=2'"}};
}

}  // namespace rankmesh::cli
