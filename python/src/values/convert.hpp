// SPDX-License-Identifier: Apache-2.0
// Converts between Python's values and the core's.
#pragma once

#include <chrono>
#include <functional>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::python {

namespace nb = nanobind;

/// An unknown name: rankmesh.UnknownName, which is also a KeyError.
class UnknownName : public UsageError {
public:
    using UsageError::UsageError;
};

/// An argument of the wrong type: rankmesh.UsageTypeError, which is also a TypeError.
class TypeFault : public Error {
public:
    using Error::Error;
};

/// Returns a value for an error text: `'x', which is str`. Long values are cut.
std::string described(nb::handle value);
/// Returns the result of PyObject_Str or PyObject_Repr as UTF-8, or `otherwise` if that raises an Exception.
std::string text_with(nb::handle value, PyObject* (*function)(PyObject*), std::string_view otherwise);

/// Converts a Python integer, or an object with `__index__`, to an int. Throws TypeFault for others, and
/// UsageError if it does not fit in an int.
int int_from(nb::handle value, const std::function<std::string()>& what);
inline int int_of(nb::handle value, const char* what) {
    // Fast path for small ints, because the query takes only some nanoseconds.
    if (PyLong_CheckExact(value.ptr()))
        if (const auto number = PyLong_AsLong(value.ptr()); number >= 0 && number <= Mesh::max_size)
            return static_cast<int>(number);
    PyErr_Clear();
    return int_from(value, [what] { return std::string(what); });
}
/// Returns an iterable. Throws TypeFault for a str and for others; `what` begins its text.
nb::object each_of(nb::handle given, std::string_view what);
/// Converts an iterable of integers.
std::vector<int> ints_of(nb::handle values, std::string_view what);
/// Returns a str as UTF-8, which lives as long as the str; nullopt for another object and for invalid
/// Unicode.
std::optional<std::string_view> view_of(nb::handle value);
/// Converts a str. Throws TypeFault for others, and UsageError for invalid Unicode.
std::string text_of(nb::handle value, std::string_view what);
/// Imports numpy. Throws ImportError with the remedy if it is not installed; `what` requires it.
nb::module_ numpy_for(std::string_view what);
/// Converts a str, bytes or os.PathLike to a path. Throws TypeFault for others, and UsageError for a name
/// that the filesystem cannot have.
std::string path_of(nb::handle value, std::string_view what);
/// A duration from a number of seconds, or a timedelta; throws UsageError for one that is not positive.
std::chrono::nanoseconds duration_of(nb::handle seconds, std::string_view what);
/// Converts an iterable of str. A single str is a list of one.
std::vector<std::string> texts_of(nb::handle values, std::string_view what);

/// Returns the axis of that name. Throws UnknownName, which suggests the nearest name.
AxisId axis_of(const Mesh& mesh, nb::handle name);
/// Returns the axes that the arguments name; at least one.
std::vector<AxisId> axes_of(const Mesh& mesh, const nb::args& names);
AxisSet set_of(const std::vector<AxisId>& axes);

/// Makes a coordinate from one mapping, text or Coordinate, or from keywords.
Coordinate coordinate_of(const nb::args& args, const nb::kwargs& kwargs);
/// Converts `open` or `wrap`.
Edge edge_of(nb::handle edge);

/// Axes with their sizes; one size may be `*`.
struct NamedSizes {
    std::vector<std::string> names;
    std::vector<Extent> sizes;

    void add(nb::handle name, nb::handle size);
    std::vector<Axis> all() const;
};

/// Converts axes from a mapping or pairs, if given, and from keywords.
NamedSizes axes_from(nb::handle given, const nb::kwargs& keywords);

/// Converts a mesh from text, a mapping, pairs or a Mesh. Throws TypeFault for others.
MeshSpec mesh_spec_of(nb::handle given);

/// The declarations of an iterable of rankmesh.Declaration; throws TypeFault for fields of other types.
Plan plan_of(nb::handle declarations);

/// Sets rankmesh's exception of that name as Python's current exception. `ranks`: the lists after its text.
void raise(const char* type, const char* text, std::initializer_list<std::vector<int>> ranks = {});
/// Translates C++ exceptions of rankmesh to Python exceptions.
void register_errors();

}  // namespace rankmesh::python
