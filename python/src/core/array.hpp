// SPDX-License-Identifier: Apache-2.0
// Ranks as NumPy arrays.
#pragma once

#include "core/core.hpp"

namespace rankmesh::python {

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
