// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/placement.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "core/array.hpp"
#include "core/core.hpp"

namespace rankmesh::python {

using detail::cat;

Topology topology_of(nb::handle given) {
    if (nb::isinstance<Placement>(given)) return nb::cast<Placement>(given);
    if (nb::isinstance<Mesh>(given)) return nb::cast<Mesh>(given);
    const auto text = text_of(given, "a mesh");
    if (text.find("@[") != std::string::npos) return Placement::parse(text);
    return Mesh::parse(text);
}

namespace {

/// The mesh and its ranks.
void bind_places(nb::class_<Placement>& c) {
    c.def(
         "__init__",
         [](Placement* self, nb::object text) {
             new (self) Placement(Placement::parse(text_of(text, "a placement")));
         },
         nb::arg("text").none(), nb::sig("def __init__(self, text: str, /) -> None"),
         "Makes a placement from text such as 'a=2 b=2 @[3,1,2,0]'.")
        .def(
            "__init__",
            [](Placement* self, const Mesh& mesh, nb::object ranks) {
                new (self) Placement(mesh, ints_of(ranks, "the ranks"));
            },
            nb::arg("mesh").none(), nb::arg("ranks").none(),
            nb::sig("def __init__(self, mesh: Mesh, ranks: collections.abc.Iterable[int]) -> None"),
            "Makes a placement from a mesh of plain strides and the rank at each position, row by row; the "
            "last axis varies fastest.")
        .def_prop_ro("mesh", &Placement::mesh, nb::rv_policy::copy,
                     "The mesh whose positions hold the ranks.")
        .def_prop_ro("size", &Placement::size, "The number of ranks.")
        .def_prop_ro(
            "ranks",
            [](const Placement& self) {
                return Ranks(std::vector<int>(self.ranks().begin(), self.ranks().end()));
            },
            "The rank at each position.")
        .def(
            "numpy",
            [](nb::object self) {
                numpy_for("an array of ranks");
                const auto& placement = nb::cast<const Placement&>(self);
                const auto& mesh = placement.mesh();
                auto shape = std::vector<std::size_t>{};
                for (int a = 0; a < mesh.axis_count(); ++a)
                    shape.push_back(static_cast<std::size_t>(mesh.size(AxisId{a})));
                return nb::ndarray<nb::numpy, const int>(placement.ranks().data(), shape.size(), shape.data(),
                                                         self)
                    .cast();
            },
            nb::sig("def numpy(self) -> typing.Any"),
            "Returns the ranks as a read-only NumPy array of int32 with the shape of the mesh. The array is "
            "a view, which keeps the placement alive.");
}

/// Where ranks stand, and which ranks stand together.
void bind_queries(nb::class_<Placement>& c) {
    c.def(
         "__contains__",
         [](const Placement& self, nb::object rank) {
             try {
                 return PyIndex_Check(rank.ptr()) && self.contains(int_of(rank, "a rank"));
             } catch (const Error&) {
                 return false;  // a rank is never that large, and True is not a rank
             }
         },
         nb::arg("rank").none(), nb::sig("def __contains__(self, rank: object, /) -> bool"))
        .def(
            "coord",
            [](const Placement& self, nb::handle rank) { return self.coord(int_of(rank, "a rank")); },
            nb::arg("rank").none(), nb::sig("def coord(self, rank: int) -> Coordinate"),
            "Returns the index of a rank on every axis. Raises UsageError for a rank that is not placed.")
        .def(
            "rank",
            [](const Placement& self, nb::args args, nb::kwargs kwargs) {
                return self.rank(coordinate_of(args, kwargs));
            },
            nb::sig("def rank(self, coordinate: Coordinate | collections.abc.Mapping[str, int] | str = ..., "
                    "/, **index: int) -> int"),
            "Returns the rank at a coordinate of all axes, in any order. Raises UsageError if an axis is "
            "missing or an index is out of range.")
        .def(
            "index",
            [](const Placement& self, nb::handle rank, nb::handle axis) {
                return self.index(int_of(rank, "a rank"), axis_of(self.mesh(), axis));
            },
            nb::arg("rank").none(), nb::arg("axis").none(),
            nb::sig("def index(self, rank: int, axis: str) -> int"),
            "Returns the index of a rank on one axis.")
        .def(
            "group",
            [](const Placement& self, nb::handle rank, nb::args axes) {
                return Ranks(self.group(int_of(rank, "a rank"), set_of(axes_of(self.mesh(), axes))));
            },
            nb::sig("def group(self, rank: int, /, *axes: str) -> Group"),
            "Returns the ranks that differ from `rank` only along these axes, including `rank`, in mesh "
            "order.")
        .def(
            "neighbor",
            [](const Placement& self, nb::handle rank, nb::handle axis, nb::handle by, nb::handle edge) {
                return self.neighbor(int_of(rank, "a rank"), axis_of(self.mesh(), axis),
                                     int_of(by, "the distance"), edge_of(edge));
            },
            nb::arg("rank").none(), nb::arg("axis").none(), nb::arg("by").none(),
            nb::arg("edge").none() = "open",
            nb::sig("def neighbor(self, rank: int, axis: str, by: int, edge: typing.Literal['open', 'wrap'] "
                    "= 'open') -> int | None"),
            "Returns the rank `by` steps along an axis; negative steps go back. Past the end returns None, "
            "or with edge='wrap' continues at the other end.");
}

/// Equality, hash, texts and pickles.
void bind_value(nb::class_<Placement>& c) {
    bind_equality(c);
    c.def("__hash__", [](const Placement& self) { return std::hash<std::string>{}(to_string(self)); })
        .def_prop_ro(
            "text", [](const Placement& self) { return to_string(self); },
            "Returns the placement as text that Placement reads.")
        .def("__repr__", [](const Placement& self) { return cat("Placement('", to_string(self), "')"); })
        .def(
            "__reduce__",
            [](nb::object self) {
                return nb::make_tuple(self.type(),
                                      nb::make_tuple(to_string(nb::cast<const Placement&>(self))));
            },
            nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
}

}  // namespace

void bind_placement(nb::module_& m) {
    auto bound = nb::class_<Placement>(
        m, "Placement",
        "A mesh with a list of the rank at each position, for layouts that strides cannot express.\n\n>>> "
        "Placement('a=2 b=2 @[3,1,2,0]').coord(3)\nCoordinate('a=0 b=0')");
    bind_array(bound);
    bind_places(bound);
    bind_queries(bound);
    bind_value(bound);
}

}  // namespace rankmesh::python
