// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/placement.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "core/array.hpp"
#include "core/places.hpp"

namespace rankmesh::python {

Placement placement_of(nb::handle given) {
    if (nb::isinstance<Placement>(given)) return nb::cast<Placement>(given);
    if (nb::isinstance<Mesh>(given)) return nb::cast<Mesh>(given);
    const auto text = text_of(given, "a mesh");
    if (text.find("@[") != std::string::npos) return Placement::parse(text);
    return Mesh::parse(text);
}

namespace {

/// The mesh and its table.
void bind_table(nb::class_<Placement>& c) {
    method(c, "def __init__(self, text: str, /) -> None",
           "Makes a placement from text such as 'a=2 b=2 @[3,1,2,0]'.", [](Placement* self, nb::object text) {
               new (self) Placement(Placement::parse(text_of(text, "a placement")));
           });
    method(c, "def __init__(self, mesh: Mesh, ranks: collections.abc.Iterable[int]) -> None",
           "Makes a placement from a mesh of plain strides and the rank at each position, row by row; the "
           "last axis varies fastest.",
           [](Placement* self, const Mesh& mesh, nb::object ranks) {
               new (self) Placement(mesh, ints_of(ranks, "the ranks"));
           });
    c.def_prop_ro("mesh", &Placement::mesh, nb::rv_policy::copy, "The mesh whose positions hold the ranks.")
        .def_prop_ro("size", &Placement::size, "The number of ranks.");
    method(c, "def numpy(self) -> typing.Any",
           "Returns the ranks as a read-only NumPy array of int32 with the shape of the mesh. The array is a "
           "view, which keeps the placement alive.",
           [](nb::object self) {
               numpy_for("an array of ranks");
               const auto& placement = nb::cast<const Placement&>(self);
               const auto& mesh = placement.mesh();
               auto shape = std::vector<std::size_t>{};
               for (int a = 0; a < mesh.axis_count(); ++a)
                   shape.push_back(static_cast<std::size_t>(mesh.size(AxisId{a})));
               return nb::ndarray<nb::numpy, const int>(placement.table().data(), shape.size(), shape.data(),
                                                        self)
                   .cast();
           });
}

}  // namespace

void bind_placement(nb::module_& m) {
    auto bound = nb::class_<Placement>(
        m, "Placement",
        "A mesh with a list of the rank at each position, for layouts that strides cannot express.\n\n>>> "
        "Placement('a=2 b=2 @[3,1,2,0]').coord(3)\nCoordinate('a=0 b=0')");
    bind_array(bound);
    bind_table(bound);
    bind_queries(bound);
    bind_text(bound, "Placement");
}

}  // namespace rankmesh::python
