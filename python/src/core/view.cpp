// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/report/text.hpp>
#include <rankmesh/view/diff.hpp>
#include <rankmesh/view/page.hpp>
#include <rankmesh/view/svg.hpp>
#include <rankmesh/view/text.hpp>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

/// The picture of `show`. Makes a new scene for each width.
struct Picture {
    Placement placement;
    view::Subject subject;

    view::Scene scene(int width) const { return view::draw_for_text(placement, subject, {.width = width}); }
    std::string text(int width, bool color) const {
        return view::paint_text(scene(width), {.width = width, .color = color});
    }
    std::string svg(std::optional<int> width) const {
        return view::paint_svg(width ? scene(*width) : view::draw_for_svg(placement, subject));
    }
    std::string page() const { return view::draw_page(placement, subject); }
};

constexpr auto default_width = 80;

/// Writes the format of the path's suffix, such as "svg". Throws UsageError for other suffixes.
void write(nb::handle path, const std::map<std::string, std::function<std::string()>>& forms) {
    const auto name = path_of(path, "the path");
    const auto dot = name.rfind('.');
    const auto form = forms.find(dot == std::string::npos ? "" : name.substr(dot + 1));
    if (form == forms.end()) {
        auto known = std::string{};
        for (const auto& [ending, paint] : forms) known += (known.empty() ? "." : ", .") + ending;
        throw UsageError(detail::cat("the path is ", detail::in_quotes(name),
                                     ", which does not say what the picture is written as; it ends in ",
                                     known));
    }
    const auto text = form->second();
    nb::module_::import_("pathlib").attr("Path")(path).attr("write_bytes")(
        nb::bytes(text.data(), text.size()));
}

void write(const Picture& picture, nb::handle path) {
    write(path, {{"html", [&] { return picture.page(); }},
                 {"svg", [&] { return picture.svg(std::nullopt); }},
                 {"txt", [&] { return picture.text(default_width, false); }}});
}

Picture picture_of(nb::handle mesh, nb::handle on, nb::handle rank) {
    auto picture = Picture{placement_of(mesh), {}};
    if (!on.is_none()) picture.subject.cluster = Cluster::parse(text_of(on, "the cluster"));
    if (!rank.is_none()) picture.subject.focus = int_of(rank, "a rank");
    (void)picture.scene(default_width);  // throws now if it cannot be drawn
    return picture;
}

Picture drawn(nb::handle mesh, nb::handle out, nb::handle on, nb::handle rank, nb::handle color_by) {
    auto picture = picture_of(mesh, on, rank);
    if (!color_by.is_none()) picture.subject.color_by = axis_of(picture.placement.mesh(), color_by);
    if (!out.is_none()) write(picture, out);
    return picture;
}

/// The result of `diff`.
struct Difference : view::Difference {
    view::Side a;
    view::Side b;

    std::string text() const {
        auto text = report::text_of(a, b, *this);
        text.pop_back();
        return text;
    }
    std::string svg() const {
        const auto [left, right] = view::draw(a, b, view::Limits{});
        return view::paint_svg(left, right);
    }
};

Difference difference_of(nb::handle a, nb::handle b, nb::handle on, nb::handle on_b, nb::handle first) {
    if (b.is_none() && on_b.is_none())
        throw UsageError("one mesh on one cluster has nothing to differ from; pass another mesh, or on_b");
    if (on.is_none() && !on_b.is_none())
        throw UsageError("on_b says where the second mesh runs, but not where the first does; pass on too");
    const auto cluster_of = [](nb::handle given) {
        return given.is_none() ? std::nullopt : std::optional(Cluster::parse(text_of(given, "the cluster")));
    };
    const auto side_of = [&](nb::handle mesh, nb::handle cluster) {
        return view::Side{placement_of(mesh), cluster_of(cluster)};
    };
    const auto most = int_of(first, "the number of ranks to list");
    if (most < 0)
        throw UsageError(detail::cat("the number of ranks to list is ", most, "; it must be 0 or more"));
    const auto left = side_of(a, on);
    const auto right = side_of(b.is_none() ? a : b, on_b.is_none() ? on : on_b);
    return {view::diff(left, right, static_cast<std::size_t>(most)), left, right};
}

std::pair<int, int> pair_of(const view::Both& both) { return {both.a, both.b}; }

void bind_difference(nb::module_& m) {
    using Axis = view::AxisDifference;
    auto axis = nb::class_<Axis>(m, "AxisDifference", "How the groups along one axis differ.");
    axis.def_ro("axis", &Axis::axis, "The name of the axis.")
        .def_prop_ro(
            "size", [](const Axis& self) { return pair_of(self.size); },
            "The size of the axis on both sides; 1 on a side without the axis.")
        .def_prop_ro(
            "groups", [](const Axis& self) { return pair_of(self.groups); },
            "The number of groups on both sides.")
        .def_ro("same", &Axis::same, "The number of groups with the same ranks in the same order.")
        .def_ro("reordered", &Axis::reordered, "The number of groups with the same ranks in another order.")
        .def_ro("changed", &Axis::changed, "The first rank of each of the first groups that differ.")
        .def("__repr__", [](const Axis& self) {
            return detail::cat("<", self.axis, ": ", self.same, " of ", self.groups.a, " groups the same>");
        });
    auto difference =
        nb::class_<Difference>(m, "Difference",
                               "The differences between two meshes, or one mesh on two clusters; true if "
                               "anything differs. str() is the output of `rankmesh diff`.");
    difference
        .def_prop_ro(
            "ranks", [](const Difference& self) { return pair_of(self.ranks); },
            "The number of ranks on both sides.")
        .def_ro("common", &Difference::common, "The number of common ranks.")
        .def_ro("moved", &Difference::moved, "The number of common ranks at another coordinate.")
        .def_ro("first", &Difference::first, "The lowest ranks with any difference.")
        .def_prop_ro(
            "levels",
            [](const Difference& self) {
                auto levels = nb::dict();
                for (const auto& level : self.levels) levels[nb::cast(level.level)] = level.moved;
                return levels;
            },
            nb::sig("def levels(self) -> dict[str, int]"),
            "For each level that both clusters have: the number of ranks that run in another unit.")
        .def_ro("axes", &Difference::axes,
                "The axes of the first side, then those that only the second has.");
    method(difference, "def svg(self) -> str",
           "Returns both sides as one SVG document that marks the differing ranks.", &Difference::svg);
    method(
        difference, "def write(self, path: str | os.PathLike[str]) -> None",
        "Writes it to a file whose name ends in .svg or .txt.", [](const Difference& self, nb::handle path) {
            write(path, {{"svg", [&] { return self.svg(); }}, {"txt", [&] { return self.text() + "\n"; }}});
        });
    difference.def("__bool__", [](const Difference& self) { return !self.is_none(); })
        .def("__str__", &Difference::text)
        .def("__repr__",
             [](const Difference& self) {
                 return detail::cat("<Difference: ", self.moved, " of ", detail::counted(self.common, "rank"),
                                    " at another coordinate>");
             })
        .def("_repr_html_", &Difference::svg);
    function<2>(m,
                "def diff(a: str | Mesh | Placement, b: str | Mesh | Placement | None = None, *, on: str | "
                "None = None, on_b: str | None = None, first: int = 8) -> Difference",
                "Compares two meshes, or one mesh on two clusters. `on`: the machines; `on_b`: the machines "
                "of `b` if they differ. `first`: the most ranks, and groups of each axis, to list.",
                &difference_of);
}

int width_of(nb::handle width) {
    const auto columns = int_of(width, "the width");
    if (columns < 40 || columns > 10000)
        throw UsageError(detail::cat("the width is ", columns, "; it must be 40 to 10000 columns"));
    return columns;
}

}  // namespace

void bind_view(nb::module_& m) {
    auto picture =
        nb::class_<Picture>(m, "Picture", "A picture of a mesh: text when printed, SVG in a notebook.");
    method(
        picture, "def text(self, width: int = 80, color: bool = False) -> str",
        "Returns the picture as lines of text of at most `width` columns, 40 to 10000, optionally with "
        "terminal colours.",
        [](const Picture& self, nb::handle width, bool color) { return self.text(width_of(width), color); });
    method(picture, "def svg(self, width: int | None = None) -> str",
           "The picture as one SVG document in the shape of a screen, or as wide as text of `width` columns.",
           [](const Picture& self, nb::handle width) {
               return self.svg(width.is_none() ? std::nullopt : std::optional(width_of(width)));
           });
    method(
        picture, "def page(self) -> str",
        "Returns an interactive HTML document: zoom, search, highlighted groups. The document loads nothing.",
        &Picture::page);
    method(picture, "def write(self, path: str | os.PathLike[str]) -> None",
           "Writes the picture to a file whose name ends in .html, .svg or .txt.",
           [](const Picture& self, nb::handle path) { write(self, path); });
    method(picture, "def rows(self) -> list[list[int | None]]",
           "Returns the drawn ranks, row by row; None for an empty cell.", [](const Picture& self) {
               auto rows = nb::list();
               for (const auto& row : self.scene(default_width).rows) {
                   auto ranks = nb::list();
                   for (const auto& cell : row.cells)
                       ranks.append(cell.rank < 0 ? nb::none() : nb::object(nb::int_(cell.rank)));
                   rows.append(ranks);
               }
               return rows;
           });
    picture.def("__str__", [](const Picture& self) { return self.text(default_width, false); })
        .def("__repr__", [](const Picture& self) { return self.text(default_width, false); })
        .def("_repr_html_", [](const Picture& self) { return self.svg(std::nullopt); });
    bind_difference(m);
    function<2>(m,
                "def draw(mesh: str | Mesh | Placement, out: str | os.PathLike[str] | None = None, *, on: "
                "str | None = None, rank: int | None = None, color_by: str | None = None) -> Picture",
                "Returns the picture of a mesh, like `rankmesh draw`, and writes it to `out` if given, whose "
                "name ends in .html, .svg or .txt. `color_by`: the axis whose index is a rank's colour, in "
                "HTML and SVG; default: colours like `show`.",
                &drawn);
    function<1>(m,
                "def show(mesh: str | Mesh | Placement, *, on: str | None = None, rank: int | None = None) "
                "-> Picture",
                "Returns the picture of a mesh as a grid. `on`: the machines, such as 'node:32 gpu:8'; each "
                "gets a box. `rank`: the rank whose groups are listed and coloured; default: the first rank.",
                &picture_of);
}

}  // namespace rankmesh::python
