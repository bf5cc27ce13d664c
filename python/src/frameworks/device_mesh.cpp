// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/device_mesh.hpp>

#include "frameworks.hpp"

namespace rankmesh::python {

using dialect::DeviceMesh;
using Dim = std::optional<std::string_view>;

void bind_device_mesh(nb::module_& parent) {
    auto m = parent.def_submodule("device_mesh", "As much of torch's DeviceMesh as frameworks ask of it.");
    auto own = nb::class_<DeviceMesh>(m, "DeviceMesh",
                                      "One rank's view of a mesh over the world, or of a part of it.");
    own.def_prop_ro("mesh_dim_names", &DeviceMesh::mesh_dim_names)
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
    def_method(own, "get_group",
               +[](const DeviceMesh& self, Dim mesh_dim) { return Ranks(self.get_group(mesh_dim)); },
               {"mesh_dim"});
    def_method(own, "get_local_rank", &DeviceMesh::get_local_rank, {"mesh_dim"});
    def_method(own, "flatten",
               +[](const DeviceMesh& self, Dim name) { return self.flatten(name.value_or("")); },
               {Parameter("name", "mesh_dim_name")});
    def_named(m, "init_device_mesh",
              +[](std::vector<int> shape, dialect::DimNames names, int rank, int world_size) {
                  return dialect::init_device_mesh(shape, names, rank, world_size);
              },
              {"mesh_shape", "mesh_dim_names", "rank", "world_size"});
}

}  // namespace rankmesh::python
