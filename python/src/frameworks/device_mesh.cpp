// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/device_mesh.hpp>

#include "frameworks.hpp"

namespace rankmesh::python {

using frameworks::DeviceMesh;

namespace {

/// A dimension by its name or its number, which counts from the end if negative; nothing for None.
std::optional<std::string> dim_in(const DeviceMesh& mesh, nb::handle dim) {
    if (dim.is_none()) return std::nullopt;
    if (!nb::isinstance<nb::int_>(dim)) return text_of(dim, "mesh_dim");
    const auto number = int_of(dim, "mesh_dim"), i = number < 0 ? number + mesh.ndim() : number;
    if (i < 0 || i >= mesh.ndim()) throw nb::index_error("tuple index out of range");
    const auto names = mesh.mesh_dim_names();
    return names ? (*names)[static_cast<std::size_t>(i)] : "dim_" + std::to_string(i);
}

nb::typed<nb::tuple, nb::str, nb::ellipsis> tuple_of(const std::vector<std::string>& names) {
    return nb::tuple(nb::cast(names));
}

}  // namespace

void bind_device_mesh(nb::module_& parent) {
    auto m = parent.def_submodule("device_mesh", "As much of torch's DeviceMesh as frameworks ask of it.");
    auto own = nb::class_<DeviceMesh>(m, "DeviceMesh",
                                      "One rank's view of a mesh over the world, or of a part of it.");
    own.def(nb::init<const DeviceMesh&>(), nb::arg("of"))
        .def_prop_ro(
            "mesh_dim_names",
            [](const DeviceMesh& self) {
                const auto names = self.mesh_dim_names();
                return names ? std::optional(tuple_of(*names)) : std::nullopt;
            },
            "The names of the dimensions; None without names or without dimensions.")
        .def_prop_ro(
            "shape",
            [](const DeviceMesh& self) {
                return nb::typed<nb::tuple, int, nb::ellipsis>(nb::tuple(nb::cast(self.shape())));
            },
            "The sizes of the dimensions.")
        .def_prop_ro("ndim", &DeviceMesh::ndim, "The number of dimensions.")
        .def_prop_ro(
            "mesh", [](const DeviceMesh& self) { return Ranks(self.mesh()); },
            "The ranks, row-major. In torch this is a tensor.")
        .def_prop_ro("root", &DeviceMesh::root, "The mesh of the world. This mesh is a part of it.")
        .def("size", &DeviceMesh::size)
        .def("get_rank", &DeviceMesh::get_rank, "Returns this rank's world rank.")
        .def("get_coordinate", &DeviceMesh::get_coordinate, "This rank's index on every dimension.")
        .def_prop_ro(
            "flattened",
            [](const DeviceMesh& self) {
                auto all = nb::typed<nb::dict, nb::str, decltype(tuple_of({}))>(nb::dict());
                for (const auto& [name, axes] : self.flattened()) {
                    auto names = std::vector<std::string>{};
                    for (int a = 0; a < self.root().axis_count(); ++a)
                        if (axes.contains(AxisId{a})) names.emplace_back(self.root().name(AxisId{a}));
                    all[nb::cast(name)] = tuple_of(names);
                }
                return all;
            },
            "The names that flattening gave to parts of the root, with the axes of each.");
    method(own, "def part(self, names: str | collections.abc.Iterable[str]) -> DeviceMesh", "",
           [](const DeviceMesh& self, nb::handle names) { return self[texts_of(names, "mesh_dim_names")]; });
    method(own, "def get_group(self, mesh_dim: str | int | None = None) -> rankmesh._core.Group",
           "Returns the ranks along one dimension, which is optional if there is only one.",
           [](const DeviceMesh& self, nb::handle mesh_dim) {
               return Ranks(self.get_group(dim_in(self, mesh_dim)));
           });
    method(own, "def get_local_rank(self, mesh_dim: str | int | None = None) -> int",
           "Returns this rank's index along one dimension.", [](const DeviceMesh& self, nb::handle mesh_dim) {
               return self.get_local_rank(dim_in(self, mesh_dim));
           });
    method(own, "def flatten(self, name: str | None) -> DeviceMesh", "",
           [](const DeviceMesh& self, nb::handle name) {
               return self.flatten(name.is_none() ? "" : text_of(name, "mesh_dim_name"));
           });
    function(m,
             "def init_device_mesh(mesh_shape: collections.abc.Iterable[int], mesh_dim_names: "
             "collections.abc.Iterable[str] | None, rank: int, world_size: int) -> DeviceMesh",
             "", [](nb::handle shape, nb::handle names, nb::handle rank, nb::handle world_size) {
                 auto of_dims = frameworks::DimNames();
                 if (!names.is_none()) of_dims = texts_of(names, "mesh_dim_names");
                 return frameworks::init_device_mesh(ints_of(shape, "mesh_shape"), of_dims,
                                                     int_of(rank, "rank"), int_of(world_size, "world_size"));
             });
}

}  // namespace rankmesh::python
