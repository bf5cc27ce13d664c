// SPDX-License-Identifier: Apache-2.0
// What a mesh and a placement have in common: where ranks stand, and their texts.
#pragma once

#include "core/core.hpp"

namespace rankmesh::python {

/// Throws UnknownName for an axis that the mesh does not have.
void check_axes(const Mesh& mesh, const Coordinate& coordinate);

inline const Mesh& mesh_in(const Mesh& mesh) { return mesh; }
inline const Mesh& mesh_in(const Placement& placement) { return placement.mesh(); }
inline Ranks ranks_in(const Group& group) { return Ranks(group); }
inline Ranks ranks_in(const PlacedRanks& ranks) { return Ranks(ranks.list()); }

/// Where ranks stand, and which ranks stand together.
template <class T>
void bind_queries(nb::class_<T>& c) {
    method(c, "def coord(self, rank: int) -> Coordinate",
           "Returns the index of a rank on every axis. Raises UsageError for a rank outside the mesh.",
           [](const T& self, nb::handle rank) { return self.coord(int_of(rank, "a rank")); });
    method(c,
           "def rank(self, coordinate: Coordinate | collections.abc.Mapping[str, int] | str = ..., /, "
           "**index: int) -> int",
           "Returns the rank at a coordinate of all axes, in any order. Raises UsageError if an axis is "
           "missing or an index is out of range.",
           [](const T& self, nb::args args, nb::kwargs kwargs) {
               const auto coordinate = coordinate_of(args, kwargs);
               check_axes(mesh_in(self), coordinate);
               return self.rank(coordinate);
           });
    method(c, "def index(self, rank: int, axis: str) -> int", "Returns the index of a rank on one axis.",
           [](const T& self, nb::handle rank, nb::handle axis) {
               return self.index(int_of(rank, "a rank"), axis_of(mesh_in(self), axis));
           });
    method(
        c, "def group(self, rank: int, /, *axes: str) -> Group",
        "Returns the ranks that differ from `rank` only along these axes, including `rank`, in mesh order.",
        [](const T& self, nb::handle rank, nb::args axes) {
            return ranks_in(self.group(int_of(rank, "a rank"), set_of(axes_of(mesh_in(self), axes))));
        });
    method(c,
           "def neighbor(self, rank: int, axis: str, by: int, edge: typing.Literal['open', 'wrap'] = 'open') "
           "-> int | None",
           "Returns the rank `by` steps along an axis; negative steps go back. Past the end returns None, or "
           "with edge='wrap' continues at the other end.",
           [](const T& self, nb::handle rank, nb::handle axis, nb::handle by, nb::handle edge) {
               return self.neighbor(int_of(rank, "a rank"), axis_of(mesh_in(self), axis),
                                    int_of(by, "the distance"), edge_of(edge));
           });
    method(c, "def __contains__(self, rank: object, /) -> bool", "", [](const T& self, nb::object rank) {
        if (!PyIndex_Check(rank.ptr())) return false;
        try {
            return self.contains(int_of(rank, "a rank"));
        } catch (const Error&) {
            return false;  // a rank is never that large, and True is not a rank
        }
    });
    c.def_prop_ro(
        "ranks", [](const T& self) { return ranks_in(self.ranks()); },
        "All ranks, in the order of the axes.");
}

/// Equality, hash, text and pickles. `name` is that of the class.
template <class T>
void bind_text(nb::class_<T>& c, const char* name) {
    bind_equality(c);
    c.def("__hash__", [](const T& self) { return std::hash<std::string>{}(to_string(self)); })
        .def_prop_ro(
            "text", [](const T& self) { return to_string(self); },
            "The text from which the class makes an equal object.")
        .def("__repr__", [name](const T& self) { return detail::cat(name, "('", to_string(self), "')"); });
    method(c, "def __reduce__(self) -> tuple[typing.Any, ...]", "", [](nb::object self) {
        return nb::make_tuple(self.type(), nb::make_tuple(to_string(nb::cast<const T&>(self))));
    });
}

}  // namespace rankmesh::python
