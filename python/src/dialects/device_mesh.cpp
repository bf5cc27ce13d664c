// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/device_mesh.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using dialect::DeviceMesh;

namespace {

std::optional<std::string> optional_text(nb::handle value, const char* what) {
    return value.is_none() ? std::nullopt : std::optional(text_of(value, what));
}

}  // namespace

void bind_device_mesh(nb::module_& parent) {
    auto m = parent.def_submodule("device_mesh", "As much of torch's DeviceMesh as frameworks ask of it.");
    nb::class_<DeviceMesh>(m, "DeviceMesh", "One rank's view of a mesh over the world, or of a part of it.")
        .def_prop_ro("mesh_dim_names", &DeviceMesh::mesh_dim_names)
        .def_prop_ro("shape", &DeviceMesh::shape)
        .def_prop_ro("ndim", &DeviceMesh::ndim)
        .def("size", &DeviceMesh::size)
        .def("ranks", [](const DeviceMesh& self) { return Ranks(self.mesh()); })
        .def("get_rank", &DeviceMesh::get_rank)
        .def("get_coordinate", &DeviceMesh::get_coordinate)
        .def(
            "part",
            [](const DeviceMesh& self, nb::handle names) { return self[texts_of(names, "mesh_dim_names")]; },
            nb::arg("names").none())
        .def(
            "get_group",
            [](const DeviceMesh& self, nb::handle mesh_dim) {
                return Ranks(self.get_group(optional_text(mesh_dim, "mesh_dim")));
            },
            nb::arg("mesh_dim").none())
        .def(
            "get_local_rank",
            [](const DeviceMesh& self, nb::handle mesh_dim) {
                return self.get_local_rank(optional_text(mesh_dim, "mesh_dim"));
            },
            nb::arg("mesh_dim").none())
        .def(
            "flatten",
            [](const DeviceMesh& self, nb::handle name) {
                return self.flatten(optional_text(name, "mesh_dim_name").value_or(""));
            },
            nb::arg("name").none())
        .def_prop_ro("root", &DeviceMesh::root)
        .def_prop_ro(
            "flattened",
            [](const DeviceMesh& self) {
                auto all =
                    nb::typed<nb::dict, nb::str, nb::typed<nb::tuple, nb::str, nb::ellipsis>>(nb::dict());
                for (const auto& [name, axes] : self.flattened()) {
                    auto names = nb::list();
                    for (int a = 0; a < self.root().axis_count(); ++a)
                        if (axes.contains(AxisId{a})) names.append(self.root().name(AxisId{a}));
                    all[nb::cast(name)] = nb::tuple(names);
                }
                return all;
            },
            "The names that `flatten` gave to parts of the root, with the axes of each.")
        .def(
            "new_groups",
            [](const DeviceMesh& self) {
                auto made = std::vector<std::pair<std::string, IntLists>>{};
                for (const auto& groups : dialect::new_groups(self))
                    made.emplace_back(groups.group_desc, lists_of(groups.groups));
                return made;
            },
            "Every group that torch has made for the root of this mesh, in its order.");
    m.def(
        "init_device_mesh",
        [](nb::handle shape, nb::handle names, nb::handle rank, nb::handle world_size) {
            return dialect::init_device_mesh(
                ints_of(shape, "mesh_shape"),
                names.is_none() ? dialect::DimNames{} : dialect::DimNames(texts_of(names, "mesh_dim_names")),
                int_of(rank, "rank"), int_of(world_size, "world_size"));
        },
        nb::arg("mesh_shape").none(), nb::arg("mesh_dim_names").none(), nb::arg("rank").none(),
        nb::arg("world_size").none());
}

}  // namespace rankmesh::python
