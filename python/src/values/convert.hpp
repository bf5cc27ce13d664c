// SPDX-License-Identifier: Apache-2.0
// Between Python's values and those of the core.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <rankmesh/core/mesh.hpp>

namespace rankmesh::python {

namespace nb = nanobind;

/// A name that nothing has: rankmesh.UnknownName, which is a KeyError too.
class UnknownName : public UsageError {
public:
    using UsageError::UsageError;
};

/// An argument of the wrong type: rankmesh.UsageTypeError, which is a TypeError too.
class TypeFault : public Error {
public:
    using Error::Error;
};

/// `'x', which is str`: what a value is, for an error; long ones are cut.
std::string described(nb::handle value);
/// What PyObject_Str or PyObject_Repr says, as UTF-8; `otherwise` where that raises an Exception.
std::string text_with(nb::handle value, PyObject* (*function)(PyObject*), std::string_view otherwise);

/// A Python integer, or what has `__index__`, as an int; throws TypeFault for others, and UsageError where
/// an int cannot hold it.
int int_from(nb::handle value, const std::function<std::string()>& what);
inline int int_of(nb::handle value, const char* what) {
    // In practice it is an int of one machine word, and the query that it is for takes some nanoseconds.
    if (PyLong_CheckExact(value.ptr()))
        if (const auto number = PyLong_AsLong(value.ptr()); number >= 0 && number <= Mesh::max_size)
            return static_cast<int>(number);
    PyErr_Clear();
    return int_from(value, [what] { return std::string(what); });
}
/// The integers of any iterable of them.
std::vector<int> ints_of(nb::handle values, std::string_view what);
/// A str; throws TypeFault for others, and UsageError where it is no valid Unicode.
std::string text_of(nb::handle value, std::string_view what);
/// A path of the filesystem, from a str, bytes or os.PathLike; throws TypeFault for others, and UsageError
/// where the filesystem has no such name.
std::string path_of(nb::handle value, std::string_view what);
/// A duration from a number of seconds, or a timedelta; throws UsageError for one that is not positive.
std::chrono::nanoseconds duration_of(nb::handle seconds, std::string_view what);
/// The str of any iterable of them; one str alone is a list of one.
std::vector<std::string> texts_of(nb::handle values, std::string_view what);

/// The axis of that name; throws UnknownName that names the nearest.
AxisId axis_of(const Mesh& mesh, nb::handle name);
/// The axes that the arguments name, at least one.
std::vector<AxisId> axes_of(const Mesh& mesh, const nb::args& names);
AxisSet set_of(const std::vector<AxisId>& axes);

/// A coordinate from one mapping, text or Coordinate, or from keywords.
Coordinate coordinate_of(const nb::args& args, const nb::kwargs& kwargs);
/// What its name says: `open` or `wrap`.
Edge edge_of(nb::handle edge);

/// Sets the exception of rankmesh's of that name as Python's current one.
void raise(const char* type, const char* text);
/// Makes Python exceptions of rankmesh's.
void register_errors();

}  // namespace rankmesh::python
