// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include <rankmesh/cluster/place.hpp>
#include <rankmesh/report/text.hpp>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

/// What `place` answers, of operations of so many bytes.
struct PlacedBytes : Placed {
    std::int64_t bytes;
};

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

using AxisState = std::tuple<std::string, int, double, double, double>;
using PlacedState =
    std::tuple<std::variant<Mesh, Placement>, std::vector<Placed::Axis>, double, double, int, std::int64_t>;

PlacedBytes place_on(nb::handle given, nb::handle on, nb::handle weights, nb::handle bytes) {
    const auto topology = topology_of(given);
    const auto cluster = Cluster::parse(text_of(on, "the cluster"));
    auto length = std::int64_t{};
    if (!nb::try_cast(bytes, length))
        throw TypeFault(detail::cat("bytes is ", described(bytes), "; it must be an int"));
    const auto& mesh =
        std::visit([](const auto& known) -> const Mesh& { return detail::mesh_of(known); }, topology);
    const auto traffic = traffic_of(mesh, weights);
    const auto released = nb::gil_scoped_release();
    return std::visit(
        [&](const auto& known) {
            return PlacedBytes{place(cluster, known, traffic, length), length};
        },
        topology);
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
        .def("__repr__",
             [](const Placed::Axis& self) {
                 return detail::cat("<", self.traffic.axis, ": ", to_string(self.traffic.operation), ">");
             })
        .def("__getstate__",
             [](const Placed::Axis& self) {
                 const auto& [axis, operation, weight] = self.traffic;
                 return AxisState(axis, static_cast<int>(operation), weight, self.before, self.after);
             })
        .def("__setstate__", [](Placed::Axis& self, const AxisState& state) {
            const auto& [axis, operation, weight, before, after] = state;
            new (&self) Placed::Axis{{axis, static_cast<Collective>(operation), weight}, before, after};
        });
    nb::class_<PlacedBytes>(m, "Placed",
                            "Where the ranks of a mesh should be: rank r runs on device r. Its text is what "
                            "`rankmesh place` prints.")
        .def_ro("order", &Placed::order,
                "The mesh to use: the given one, or one of other strides or a placement.")
        .def_ro("axes", &Placed::axes, "Each axis of two ranks or more.")
        .def_ro("before", &Placed::before, "The seconds of all axes by weight, in the order that was given.")
        .def_ro("after", &Placed::after, "The same in the order that was found, never more.")
        .def_prop_ro(
            "devices", [](const PlacedBytes& self) { return self.devices(); },
            "The device of each position, the last axis fastest.")
        .def_prop_ro(
            "search", [](const PlacedBytes& self) { return std::string(to_string(self.search)); },
            "What is known of it: 'all', no placement is better; 'strided', no mesh whose strides fit the "
            "units is better; 'some', the best of some that were tried.")
        .def("__str__",
             [](const PlacedBytes& self) {
                 auto text = report::text_of(self, self.bytes);
                 text.pop_back();
                 return text;
             })
        .def("__repr__",
             [](const PlacedBytes& self) {
                 return detail::cat(
                     "<Placed as ",
                     std::visit([](const auto& order) { return to_string(order); }, self.order), ">");
             })
        .def("__getstate__",
             [](const PlacedBytes& self) {
                 return PlacedState(self.order, self.axes, self.before, self.after,
                                    static_cast<int>(self.search), self.bytes);
             })
        .def("__setstate__", [](PlacedBytes& self, const PlacedState& state) {
            const auto& [order, axes, before, after, search, bytes] = state;
            new (&self) PlacedBytes{{order, axes, before, after, static_cast<Placed::Search>(search)}, bytes};
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
