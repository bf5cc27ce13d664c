// SPDX-License-Identifier: Apache-2.0
// The bindings; each is in the file of its name.
#pragma once

#include <rankmesh/core/placement.hpp>

#include "values/ranks.hpp"
#include "values/signature.hpp"

namespace rankmesh::python {

void bind_groups(nb::module_& m);
void bind_mesh(nb::module_& m);
void bind_placement(nb::module_& m);
void bind_blueprint(nb::module_& m);
void bind_reshard(nb::module_& m);
void bind_view(nb::module_& m);
void bind_check(nb::module_& m);
void bind_place(nb::module_& m);

/// Reads the argument of pictures and clusters: a mesh, a placement, or the text of either.
Placement placement_of(nb::handle given);
/// In Python a placement without a table is a mesh.
inline std::variant<Mesh, Placement> in_python(const Placement& placement) {
    if (placement.table().empty()) return placement.mesh();
    return placement;
}

/// The groups of a mesh along some axes, in the order of the request.
struct Groups {
    Mesh mesh;
    std::vector<AxisId> axes;
    bool in_order;
    Partition groups;
};

/// Binds `==` of a class; an object of another type is unequal.
template <class T>
void bind_equality(nb::class_<T>& c) {
    method(c, "def __eq__(self, other: object, /) -> bool", "", [](const T& self, nb::handle other) {
        return nb::isinstance<T>(other) && self == nb::cast<const T&>(other);
    });
}

/// Returns the sizes of the axes.
std::vector<std::size_t> shape_of(const Mesh& mesh);
/// Returns a new array of int32; for a mesh, with the shape of its axes.
nb::object array_of(const Ranks& ranks);
nb::object array_of(const Groups& groups);
nb::object array_of(const Mesh& mesh);
nb::object array_of(const Placement& placement);

/// Returns `array` like NumPy's `__array__`. It is never a view; therefore copy=False is an error.
nb::object converted(const nb::object& array, nb::handle dtype, nb::handle copy);

/// Binds `__array__`.
template <class T>
void bind_array(nb::class_<T>& bound) {
    method(bound, "def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any", "",
           [](const T& self, nb::handle dtype, nb::handle copy) {
               return converted(array_of(self), dtype, copy);
           });
}

}  // namespace rankmesh::python
