// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/svg.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include <rankmesh/core/detail/quote.hpp>

#include "view/markup.hpp"
#include "view/svg_picture.hpp"

namespace rankmesh::view {
namespace {

using detail::append;
using detail::cat;

/// Names of axes are darker than their cells on a light page, and lighter on a dark page. Text has a contrast
/// of at least 4.5 on white and on #0d1117.
constexpr std::string_view style =
    "<style>"
    "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}"
    ".dim{fill:#656d76}.cell{fill:#eaeef2}.frame{stroke:#656d76;stroke-width:1.5;stroke-linecap:round}"
    ".on{fill:#fff}.on-light{fill:#000}.focus{fill:#1f2328}.in-focus{fill:#fff;font-weight:bold}"
    ".ring{fill:none;stroke:#1f2328;stroke-width:1.5}.wide{stroke-width:4}.mark{fill:#1f2328}.axis{font-"
    "weight:bold}"
    ".axis0{fill:#0072b2}.axis1{fill:#8f5f00}.axis2{fill:#9c4475}.axis3{fill:#00724f}.axis4{fill:#a84800}"
    ".axis5{fill:#22709c}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#8b949e}.cell{fill:#30363d}"
    ".frame{stroke:#8b949e}.on{fill:#fff}.on-light{fill:#000}.focus{fill:#e6edf3}.in-focus{fill:#0d1117}"
    ".ring{stroke:#e6edf3}.axis0{fill:#4aa8e0}.axis1{fill:#e69f00}.axis2{fill:#cc79a7}.axis3{fill:#0fb082}"
    ".axis4{fill:#e8742a}.axis5{fill:#56b4e9}}"
    "</style>\n";

std::string document(std::string_view title, const Picture& picture) {
    return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", picture.width, " ", picture.height,
               "\" width=\"", picture.width, "\" height=\"", picture.height, "\" role=\"img\">\n<title>",
               escaped(detail::shortened(title, 2 * longest_title)), "</title>\n", style, picture.body,
               "</svg>\n");
}

/// The most cells of a picture that shows all ranks, and the ratio of its width to its height.
constexpr auto most_cells = 2048;
constexpr auto aspect = 1.4;

}  // namespace

Scene draw_for_svg(const Placement& placement, const Subject& subject) {
    auto best = Scene{};
    auto least = std::numeric_limits<double>::infinity();
    for (const auto columns : {4, 8, 16, 24, 32, 48, 64}) {
        auto scene = draw(placement, subject, Limits{.columns = columns, .rows = most_cells / columns});
        const auto picture = picture_of(scene);
        const auto folds =
            !scene.folded_columns.empty() || !scene.folded_after.empty() ||
            std::ranges::any_of(scene.rows, [](const Row& row) { return !row.folded_before.empty(); });
        const auto cost = std::abs(std::log(picture.width / (aspect * picture.height))) + (folds ? 100 : 0);
        if (cost >= least) continue;
        least = cost;
        best = std::move(scene);
    }
    return best;
}

std::string paint_svg(const Scene& scene) { return document(scene.mesh, picture_of(scene)); }

std::string paint_svg(const Scene& left, const Scene& right) {
    return paint_svg(std::vector<std::vector<Scene>>{{left, right}});
}

std::string paint_svg(const std::vector<std::vector<Scene>>& rows) {
    if (rows.size() == 1 && rows[0].size() == 1) return paint_svg(rows[0][0]);
    auto all = Picture{};
    auto title = std::string{};
    for (const auto& row : rows) {
        auto x = 0;
        const auto y = all.height;
        for (const auto& scene : row) {
            const auto one = picture_of(scene);
            append(title, cat(title.empty() ? "" : " and ", scene.mesh));
            append(all.body, x + y == 0
                                 ? cat("<g>\n", one.body, "</g>\n")
                                 : cat("<g transform=\"translate(", x, " ", y, ")\">\n", one.body, "</g>\n"));
            x += one.width;
            all.width = std::max(all.width, x);
            all.height = std::max(all.height, y + one.height);
        }
    }
    return document(title, all);
}

}  // namespace rankmesh::view
