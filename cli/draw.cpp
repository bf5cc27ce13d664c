// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <rankmesh/view/page.hpp>
#include <rankmesh/view/svg.hpp>
#include <rankmesh/view/text.hpp>

#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_draw {

struct Arguments {
    std::string mesh;
    std::optional<int> world;
    std::optional<std::string> on;
    std::string rank;
    std::string color_by;
    std::string out;
    std::string format;
    std::optional<int> width;
};

std::string picture_of(std::string_view title, const std::vector<std::pair<Placement, view::Subject>>& meshes,
                       std::optional<int> width, PictureFormat format) {
    const auto style = view::TextStyle{.width = width.value_or(80)};
    auto documents = std::vector<std::string>{};
    auto scenes = std::vector<std::vector<view::Scene>>{};
    for (const auto& [placement, subject] : meshes)
        if (format == PictureFormat::html)
            documents.push_back(view::draw_page(placement, subject));
        else if (format == PictureFormat::txt)
            documents.push_back(view::paint_text(view::draw_for_text(placement, subject, style), style));
        else
            scenes.push_back({width ? view::draw_for_text(placement, subject, style)
                                    : view::draw_for_svg(placement, subject)});
    if (format == PictureFormat::html) return view::join_pages(title, documents);
    return format == PictureFormat::txt ? joined(documents, "\n") : view::paint_svg(scenes);
}

int run(const Arguments& arguments, Output& output) {
    const auto format = picture_format(arguments.out, arguments.format, {"html", "svg", "txt"});
    if (!arguments.color_by.empty() && format == PictureFormat::txt)
        throw UsageError(
            "--color-by requires html or svg, because text has no colours; remove it, or change the "
            "format");
    const auto cluster = cluster_of(arguments.on);
    const auto job = Common{.mesh = arguments.mesh, .world = arguments.world}.job(cluster);
    const auto focus = arguments.rank.empty() ? std::nullopt : std::optional(rank_of(job, arguments.rank));
    auto meshes = std::vector<std::pair<Placement, view::Subject>>{};
    if (!arguments.color_by.empty()) static_cast<void>(meshes_with(job, {arguments.color_by}));
    for (auto& placement : job.meshes()) {
        auto subject = view::Subject{.cluster = cluster,
                                     .color_by = placement.mesh().find(arguments.color_by),
                                     .others = job.size() - placement.size()};
        if (focus && placement.contains(*focus)) subject.focus = focus;
        meshes.emplace_back(std::move(placement), subject);
    }
    const auto picture = picture_of(to_string(job), meshes, arguments.width, format);
    if (arguments.out.empty())
        output.write(picture);
    else
        write_file(arguments.out, picture);
    return 0;
}

}  // namespace of_draw

Subcommand draw() {
    const auto arguments = std::make_shared<of_draw::Arguments>();
    return {.name = "draw",
            .help = "Write a picture of a mesh: an interactive HTML page, SVG, or text.",
            .options =
                {{"MESH", "the mesh, such as 'pp=4 dp=8 tp=8'; one size may be '*'", &arguments->mesh},
                 world_option(arguments->world, "number of ranks, for a size '*'"),
                 {"--on", "the cluster, such as 'node:32 gpu:8', or a file", &arguments->on, "CLUSTER"},
                 {"--rank", "colour the groups of this rank; the HTML page selects the rank",
                  &arguments->rank, "R"},
                 {"--color-by", "colour each rank by its index along AXIS", &arguments->color_by, "AXIS"},
                 {"--out", "write the picture to FILE.html, FILE.svg or FILE.txt", &arguments->out, "FILE"},
                 one_of({"html", "svg", "txt"},
                        {"--format", "without --out, print the picture as html, svg or txt",
                         &arguments->format, "FORMAT"}),
                 {"--width", "width in columns of text; default: 80 for text, the shape of a screen for SVG",
                  &arguments->width, "N", Option::Range{40, 10000, false}}},
            .run = [arguments](Output& output) { return of_draw::run(*arguments, output); },
            .examples = {"rankmesh draw 'pp=4 dp=8 tp=8' --on 'node:32 gpu:8' --out mesh.html",
                         "rankmesh draw 'pp=2 dp=2 tp=4' --on 'node:2 gpu:8' --format svg > mesh.svg"}};
}

}  // namespace rankmesh::cli
