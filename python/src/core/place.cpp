// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include <rankmesh/cluster/place.hpp>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

std::vector<AxisTraffic> traffic_of(const Mesh& mesh, nb::handle weights) {
    auto all = typical_traffic(mesh);
    if (weights.is_none()) return all;
    if (!nb::isinstance<nb::mapping>(weights))
        throw TypeFault(
            detail::cat("weights are ", described(weights), "; they map axes to numbers, {'tp': 100}"));
    for (auto [axis, weight] : nb::cast<nb::dict>(nb::module_::import_("builtins").attr("dict")(weights))) {
        const auto name = mesh.name(axis_of(mesh, axis));
        auto number = 0.0;
        if (!nb::try_cast(weight, number))
            throw TypeFault(
                detail::cat("the weight of '", name, "' is ", described(weight), "; it must be a number"));
        for (auto& of : all)
            if (of.axis == name) of.weight = number;
    }
    return all;
}

Placed place_on(nb::handle given, nb::handle on, nb::handle weights, nb::handle bytes) {
    const auto topology = topology_of(given);
    const auto cluster = Cluster::parse(text_of(on, "the cluster"));
    auto length = std::int64_t{};
    if (!nb::try_cast(bytes, length))
        throw TypeFault(detail::cat("bytes is ", described(bytes), "; it must be an int"));
    const auto& mesh =
        std::visit([](const auto& known) -> const Mesh& { return detail::mesh_of(known); }, topology);
    const auto traffic = traffic_of(mesh, weights);
    const auto released = nb::gil_scoped_release();
    return std::visit([&](const auto& known) { return place(cluster, known, traffic, length); }, topology);
}

}  // namespace

void bind_place(nb::module_& m) {
    nb::class_<Placed::Axis>(m, "PlacedAxis",
                             "What one operation of all groups along an axis takes, before and after.")
        .def_prop_ro(
            "axis", [](const Placed::Axis& self) { return self.traffic.axis; }, "The name of the axis.")
        .def_prop_ro(
            "operation",
            [](const Placed::Axis& self) { return std::string(to_string(self.traffic.operation)); },
            "The operation, as 'all_reduce'.")
        .def_prop_ro(
            "weight", [](const Placed::Axis& self) { return self.traffic.weight; },
            "How often it happens beside those of other axes.")
        .def_ro("before", &Placed::Axis::before, "The seconds in the order that was given.")
        .def_ro("after", &Placed::Axis::after, "The seconds in the order that was found.")
        .def("__repr__", [](const Placed::Axis& self) {
            return detail::cat("<", self.traffic.axis, ": ", to_string(self.traffic.operation), ">");
        });
    nb::class_<Placed>(m, "Placed", "Where the ranks of a mesh should be: rank r runs on device r.")
        .def_ro("order", &Placed::order,
                "The mesh to use: the given one, or one of other strides or a placement.")
        .def_ro("axes", &Placed::axes, "Each axis of two ranks or more.")
        .def_ro("before", &Placed::before, "The seconds of all axes by weight, in the order that was given.")
        .def_ro("after", &Placed::after, "The same in the order that was found, never more.")
        .def_prop_ro("devices", &Placed::devices, "The device of each position, the last axis fastest.")
        .def_prop_ro(
            "search", [](const Placed& self) { return std::string(to_string(self.search)); },
            "What is known of it: 'all', no placement is better; 'strided', no mesh whose strides fit the "
            "units is better; 'some', the best of some that were tried.")
        .def("__repr__", [](const Placed& self) {
            return detail::cat("<Placed as ",
                               std::visit([](const auto& order) { return to_string(order); }, self.order),
                               ">");
        });
    m.def(
        "place", &place_on, nb::arg("mesh").none(), nb::kw_only(), nb::arg("on").none(),
        nb::arg("weights").none() = nb::none(), nb::arg("bytes").none() = 64 << 20,
        nb::sig("def place(mesh: str | Mesh | Placement, *, on: str, weights: collections.abc.Mapping[str, "
                "float] | None = None, bytes: int = 67108864) -> Placed"),
        "The order of a mesh's ranks on the machines `on`, such as 'node:4(25GB/s) gpu:8(450GB/s)', in which "
        "its axes' operations, of `bytes` bytes a rank, take the least time by `weights`.");
}

}  // namespace rankmesh::python
