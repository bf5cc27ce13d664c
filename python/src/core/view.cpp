// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <nanobind/stl/optional.h>

#include <rankmesh/view/page.hpp>
#include <rankmesh/view/svg.hpp>
#include <rankmesh/view/text.hpp>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

/// What `show` draws: a scene is made anew for each width, from what was asked.
struct Picture {
    Topology topology;
    view::Subject subject;

    view::Scene scene(int width) const {
        const auto style = view::TextStyle{.width = width};
        return std::visit([&](const auto& mesh) { return view::draw_for_text(mesh, subject, style); },
                          topology);
    }
    std::string text(int width, bool color) const {
        return view::paint_text(scene(width), {.width = width, .color = color});
    }
    std::string svg(std::optional<int> width) const {
        if (width) return view::paint_svg(scene(*width));
        return std::visit(
            [&](const auto& mesh) { return view::paint_svg(view::draw_for_svg(mesh, subject)); }, topology);
    }
    std::string page() const {
        return std::visit([&](const auto& mesh) { return view::draw_page(mesh, subject); }, topology);
    }
};

constexpr auto default_width = 80;

Picture picture_of(nb::handle mesh, nb::handle on, nb::handle rank) {
    auto picture = Picture{topology_of(mesh), {}};
    if (!on.is_none()) picture.subject.cluster = Cluster::parse(text_of(on, "the cluster"));
    if (!rank.is_none()) picture.subject.focus = int_of(rank, "a rank");
    (void)picture.scene(default_width);  // what cannot be drawn is said now
    return picture;
}

int width_of(nb::handle width) {
    const auto columns = int_of(width, "the width");
    if (columns < 40 || columns > 10000)
        throw UsageError(detail::cat("the width is ", columns, "; it must be 40 to 10000 columns"));
    return columns;
}

nb::object names_of(const view::Scene& scene, const std::vector<int>& axes) {
    auto names = nb::list();
    for (auto axis : axes) names.append(nb::cast(scene.axes[static_cast<std::size_t>(axis)].name));
    return names;
}

}  // namespace

void bind_view(nb::module_& m) {
    nb::class_<Picture>(m, "Picture", "A picture of a mesh: text where it is printed, SVG in a notebook.")
        .def(
            "text",
            [](const Picture& self, nb::handle width, bool color) {
                return self.text(width_of(width), color);
            },
            nb::arg("width").none() = default_width, nb::arg("color").none() = false,
            nb::sig("def text(self, width: int = 80, color: bool = False) -> str"),
            "The picture as lines of text of at most `width` columns, 40 to 10000, with the colours of a "
            "terminal if asked.")
        .def(
            "svg",
            [](const Picture& self, nb::handle width) {
                return self.svg(width.is_none() ? std::nullopt : std::optional(width_of(width)));
            },
            nb::arg("width").none() = nb::none(), nb::sig("def svg(self, width: int | None = None) -> str"),
            "The picture as one SVG document in the shape of a screen, or as wide as text of `width` "
            "columns.")
        .def("page", &Picture::page, nb::sig("def page(self) -> str"),
             "One HTML document to look around in: zoom, search, groups that light up. It loads nothing.")
        .def(
            "rows",
            [](const Picture& self) {
                auto rows = nb::list();
                for (const auto& row : self.scene(default_width).rows) {
                    auto ranks = nb::list();
                    for (const auto& cell : row.cells)
                        ranks.append(cell.rank < 0 ? nb::none() : nb::object(nb::int_(cell.rank)));
                    rows.append(ranks);
                }
                return rows;
            },
            nb::sig("def rows(self) -> list[list[int | None]]"),
            "The ranks that are drawn, row by row; None where a place is empty.")
        .def_prop_ro(
            "row_axes",
            [](const Picture& self) {
                const auto scene = self.scene(default_width);
                return names_of(scene, scene.row_axes);
            },
            nb::sig("def row_axes(self) -> list[str]"), "The axes along which rows differ.")
        .def_prop_ro(
            "column_axes",
            [](const Picture& self) {
                const auto scene = self.scene(default_width);
                return names_of(scene, scene.column_axes);
            },
            nb::sig("def column_axes(self) -> list[str]"), "The axes along which columns differ.")
        .def("__str__", [](const Picture& self) { return self.text(default_width, false); })
        .def("__repr__", [](const Picture& self) { return self.text(default_width, false); })
        .def("_repr_html_", [](const Picture& self) { return self.svg(std::nullopt); });
    m.def("show", &picture_of, nb::arg("mesh").none(), nb::kw_only(), nb::arg("on").none() = nb::none(),
          nb::arg("rank").none() = nb::none(),
          nb::sig("def show(mesh: str | Mesh | Placement, *, on: str | None = None, rank: int | None = None) "
                  "-> Picture"),
          "The picture of a mesh as a grid. `on`: the machines, such as 'node:32 gpu:8', each of which gets "
          "a box. `rank`: whose groups are listed and coloured, the first rank's unless said.");
}

}  // namespace rankmesh::python
