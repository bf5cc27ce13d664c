// SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "core/core.hpp"

namespace rankmesh::python {

using detail::cat;

Placement placement_of(nb::handle given) {
    if (nb::isinstance<Placement>(given)) return nb::cast<Placement>(given);
    if (nb::isinstance<Mesh>(given)) return nb::cast<Mesh>(given);
    const auto text = text_of(given, "a mesh");
    if (text.find("@[") != std::string::npos) return Placement::parse(text);
    return Mesh::parse(text);
}

namespace {

/// Throws UnknownName for an axis that the mesh does not have.
void check_axes(const Mesh& mesh, const Coordinate& coordinate) {
    for (int i = 0; i < coordinate.size(); ++i)
        if (!mesh.find(coordinate.name(i))) axis_of(mesh, nb::cast(coordinate.name(i)));
}

const Mesh& mesh_in(const Mesh& mesh) { return mesh; }
const Mesh& mesh_in(const Placement& placement) { return placement.mesh(); }
Ranks ranks_in(const Group& group) { return Ranks(group); }
Ranks ranks_in(const PlacedRanks& ranks) { return Ranks(ranks.list()); }

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

Mesh mesh_from(const nb::args& args, const nb::kwargs& keywords) {
    if (args.size() > 2 || (args.size() > 0 && keywords.size() > 0))
        throw UsageError(
            "a mesh is text with the size of the world, or axes: Mesh('pp=4 tp=*', 32) or Mesh(pp=4, tp=8)");
    if (args.size() == 0) return MeshSpec(axes_from({}, keywords).all()).resolve();
    const auto spec = mesh_spec_of(args[0]);
    if (args.size() == 1 || nb::handle(args[1]).is_none()) return spec.resolve();
    const auto world = int_of(args[1], "the size of the world");
    const auto mesh = spec.resolve(world);
    if (mesh.extent() != world)
        throw UsageError(cat("mesh ", to_string(mesh), " makes a world of ", mesh.extent(), ", not of ",
                             world, "; leave out the number, or make a size '*'"));
    return mesh;
}

std::vector<std::string_view> names_of(const Mesh& mesh, const std::vector<AxisId>& axes) {
    auto names = std::vector<std::string_view>{};
    for (auto axis : axes) names.push_back(mesh.name(axis));
    return names;
}

nb::tuple all_names(const Mesh& mesh) {
    auto names = nb::list();
    for (int a = 0; a < mesh.axis_count(); ++a) names.append(nb::cast(mesh.name(AxisId{a})));
    return nb::tuple(names);
}

nb::dict dict_of(const Coordinate& coordinate) {
    auto dict = nb::dict();
    for (int i = 0; i < coordinate.size(); ++i) dict[nb::cast(coordinate.name(i))] = coordinate[AxisId{i}];
    return dict;
}

void bind_coordinate(nb::module_& m) {
    auto c = nb::class_<Coordinate>(
        m, "Coordinate", nb::sig("class Coordinate(collections.abc.Mapping[str, int])"),
        "The index of a rank on every axis: a read-only mapping from axis names, in mesh order.\n\n>>> "
        "Mesh('pp=4 dp=8 tp=8').coord(67)['pp']\n1");
    method(c,
           "def __init__(self, coordinate: str | collections.abc.Mapping[str, int] = ..., /, **index: int) "
           "-> None",
           "Makes a coordinate from text such as 'pp=1 tp=3', a mapping, or keywords.",
           [](Coordinate* self, nb::args args, nb::kwargs kwargs) {
               new (self) Coordinate(coordinate_of(args, kwargs));
           });
    method(c, "def __getitem__(self, axis: str, /) -> int", "", [](const Coordinate& self, nb::handle name) {
        const auto text = view_of(name);
        if (!text) throw UnknownName(cat("the coordinate has no axis ", described(name)));
        if (const auto i = self.find(*text); i >= 0) return self[AxisId{i}];
        try {
            return self[*text];
        } catch (const UsageError& error) {
            throw UnknownName(error.what());
        }
    });
    c.def("__len__", &Coordinate::size);
    method(c, "def __iter__(self) -> collections.abc.Iterator[str]", "",
           [](const Coordinate& self) { return nb::iter(dict_of(self)); });
    const nb::object mapping = nb::module_::import_("collections.abc").attr("Mapping");
    for (const auto* name : {"get", "keys", "values", "items", "__contains__", "__eq__"})
        c.attr(name) = mapping.attr(name);
    mapping.attr("register")(c);
    c.def("__hash__",
          [](const Coordinate& self) {  // equal coordinates have equal hashes in any order of axes
              auto hash = std::size_t{0};
              for (int i = 0; i < self.size(); ++i)
                  hash += std::hash<std::string_view>{}(self.name(i)) *
                          (2 * static_cast<std::size_t>(self[AxisId{i}]) + 1);
              return hash;
          })
        .def("__str__", [](const Coordinate& self) { return to_string(self); })
        .def("__repr__", [](const Coordinate& self) { return cat("Coordinate('", to_string(self), "')"); });
    method(c, "def __reduce__(self) -> tuple[typing.Any, ...]", "", [](nb::object self) {
        return nb::make_tuple(self.type(), nb::make_tuple(dict_of(nb::cast<Coordinate>(self))));
    });
}

/// The axes with their sizes, and the ranks.
void bind_sizes(nb::class_<Mesh>& c) {
    method(c,
           "def __init__(self, mesh: str | Mesh | collections.abc.Mapping[str, int | str] | "
           "collections.abc.Iterable[tuple[str, int | str]] = ..., world: int | None = None, /, **axes: int) "
           "-> None",
           "Makes a mesh from text, a mapping, pairs or keywords, outermost axis first. One size may be '*' "
           "if the number of ranks follows: Mesh('dp=* tp=8', 64). Raises UsageError for sizes below 1, "
           "repeated names, and a mesh that does not fill the world.",
           [](Mesh* self, nb::args args, nb::kwargs axes) { new (self) Mesh(mesh_from(args, axes)); });
    c.def_prop_ro(
         "size", [](const Mesh& self) { return self.size(); }, "The number of ranks.")
        .def_prop_ro("offset", &Mesh::offset, "The lowest rank.")
        .def_prop_ro("extent", &Mesh::extent,
                     "The highest rank plus 1: the size of the smallest world in which the mesh fits.")
        .def_prop_ro("is_plain", &Mesh::is_plain, "True if the ranks are 0..size-1 in the order of the axes.")
        .def_prop_ro("axes", &all_names, nb::sig("def axes(self) -> tuple[str, ...]"),
                     "The names of the axes, outermost first.")
        .def_prop_ro(
            "sizes",
            [](const Mesh& self) {
                auto sizes = nb::dict();
                for (int a = 0; a < self.axis_count(); ++a)
                    sizes[nb::cast(self.name(AxisId{a}))] = self.size(AxisId{a});
                return sizes;
            },
            nb::sig("def sizes(self) -> dict[str, int]"),
            "The size of each axis by its name, outermost first.")
        .def_prop_ro(
            "shape", [](const Mesh& self) { return nb::tuple(nb::cast(shape_of(self))); },
            nb::sig("def shape(self) -> tuple[int, ...]"), "The size of each axis, outermost first.");
    method(c, "def size_of(self, axis: str) -> int",
           "Returns the size of an axis. Raises UnknownName if the mesh does not have that axis.",
           [](const Mesh& self, nb::handle axis) { return self.size(axis_of(self, axis)); });
    method(c, "def numpy(self) -> typing.Any",
           "Returns the ranks as a new NumPy array of int32 with the shape of the mesh.",
           [](const Mesh& self) { return array_of(self); });
}

/// All groups along axes, other meshes of its ranks, and how it is shown.
void bind_parts(nb::class_<Mesh>& c) {
    method(c, "def partition(self, *axes: str) -> Partition",
           "Returns all groups along these axes, in the order of their first ranks.",
           [](const Mesh& self, nb::args args) {
               const auto axes = axes_of(self, args);
               return Groups{self, axes, false, self.partition(set_of(axes))};
           });
    method(c, "def partition_in_order(self, *axes: str) -> Partition",
           "Returns all groups along these axes. The first named axis varies slowest inside each group, as "
           "in some frameworks.",
           [](const Mesh& self, nb::args args) {
               const auto axes = axes_of(self, args);
               return Groups{self, axes, true, self.partition_in_order(std::span<const AxisId>(axes))};
           });
    method(c,
           "def slice(self, coordinate: Coordinate | collections.abc.Mapping[str, int] | str = ..., /, "
           "**index: int) -> Mesh",
           "Returns the mesh of the ranks at these indices, without these axes. Raises UsageError if no axis "
           "remains.",
           [](const Mesh& self, nb::args args, nb::kwargs kwargs) {
               const auto coordinate = coordinate_of(args, kwargs);
               check_axes(self, coordinate);
               return self.slice(coordinate);
           });
    method(c, "def flatten(self, *axes: str, into: str) -> Mesh",
           "Returns a mesh in which one axis `into`, at the place of the first of these axes, replaces them. "
           "The axes need not be adjacent.",
           [](const Mesh& self, nb::args args, nb::handle as) {
               const auto axes = axes_of(self, args);
               return self.flatten(names_of(self, axes), text_of(as, "the flattened axis's name"));
           });
    method(c,
           "def split(self, axis: str, into: collections.abc.Mapping[str, int | str] | "
           "collections.abc.Iterable[tuple[str, int | str]] = ..., /, **sizes: int | str) -> Mesh",
           "Returns a mesh in which several axes, outermost first, replace one axis. One size may be '*'. "
           "Raises UsageError unless the product of the sizes is the size of the axis.",
           [](const Mesh& self, nb::handle axis, nb::args args, nb::kwargs keywords) {
               const auto name = self.name(axis_of(self, axis));
               if (args.size() > 1 || (args.size() == 1 && keywords.size() > 0))
                   throw UsageError("a split is a mapping or pairs, or keywords: split('tp', ep=2, etp=4)");
               const auto parts = axes_from(args.size() == 1 ? nb::handle(args[0]) : nb::handle(), keywords);
               return self.split(name, parts.all());
           });
    method(
        c, "def permuted(self, *axes: str) -> Mesh",
        "Returns a mesh with the same ranks at the same coordinates and the axes in this order.",
        [](const Mesh& self, nb::args args) { return self.permuted(names_of(self, axes_of(self, args))); });
    c.def("concatenate", &Mesh::concatenate, nb::arg("other").none(),
          "Returns a mesh with the axes of this mesh, then those of `other`, which must start at the same "
          "rank. Raises UsageError if they share a name or their strides overlap.");
    method(c, "def shifted(self, by: int) -> Mesh", "Returns the same mesh with `by` added to every rank.",
           [](const Mesh& self, nb::handle by) { return self.shifted(int_of(by, "the distance")); });
    method(c, "def __str__(self) -> str",
           "Returns the picture of the mesh if standard output is a terminal, else its text.",
           [](nb::object self) -> nb::object {
               const nb::object out = nb::module_::import_("sys").attr("stdout");
               if (out.is_none() || !nb::hasattr(out, "isatty") || !nb::cast<bool>(out.attr("isatty")()))
                   return self.attr("text");
               const nb::object width =
                   nb::module_::import_("shutil").attr("get_terminal_size")().attr("columns");
               const auto columns = std::clamp(nb::cast<int>(width), 40, 10000);
               return nb::module_::import_("rankmesh").attr("show")(self).attr("text")(columns);
           });
    method(c, "def _repr_html_(self) -> str", "",
           [](nb::object self) { return nb::module_::import_("rankmesh").attr("show")(self).attr("svg")(); });
    method(c, "def __format__(self, spec: str, /) -> str", "", [](const Mesh& self, nb::handle spec) {
        return nb::str(to_string(self).c_str()).attr("__format__")(spec);
    });
}

}  // namespace

void bind_mesh(nb::module_& m) {
    bind_coordinate(m);
    auto bound =
        nb::class_<Mesh>(m, "Mesh",
                         "An ordered list of named axes, outermost first, whose strides map coordinates to "
                         "ranks: pp=4 dp=8 tp=8.\n\nA mesh stores no list of ranks: 8 and 2^30 ranks cost "
                         "the same.\n\n>>> mesh = Mesh('pp=4 dp=8 tp=8')\n>>> mesh.size, "
                         "mesh.coord(67)['tp'], mesh.group(67, 'pp')\n(256, 3, Group('{3, 67, 131, 195}'))");
    bind_array(bound);
    bind_sizes(bound);
    bind_queries(bound);
    bind_parts(bound);
    bind_text(bound, "Mesh");
}

void bind_placement(nb::module_& m) {
    auto c = nb::class_<Placement>(
        m, "Placement",
        "A mesh with a list of the rank at each position, for layouts that strides cannot express.\n\n>>> "
        "Placement('a=2 b=2 @[3,1,2,0]').coord(3)\nCoordinate('a=0 b=0')");
    bind_array(c);
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
               const auto shape = shape_of(placement.mesh());
               return nb::ndarray<nb::numpy, const int>(placement.table().data(), shape.size(), shape.data(),
                                                        self)
                   .cast();
           });
    bind_queries(c);
    bind_text(c, "Placement");
}

}  // namespace rankmesh::python
