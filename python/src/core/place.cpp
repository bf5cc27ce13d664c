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

/// The result of `place`, for operations of so many bytes.
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
    const auto placement = placement_of(given);
    const auto cluster = Cluster::parse(text_of(on, "the cluster"));
    auto length = std::int64_t{};
    if (!nb::try_cast(bytes, length))
        throw TypeFault(detail::cat("bytes is ", described(bytes), "; it must be an int"));
    const auto traffic = traffic_of(placement.mesh(), weights);
    const auto released = nb::gil_scoped_release();
    return {place(cluster, placement, traffic, length), length};
}

}  // namespace

void bind_place(nb::module_& m) {
    auto axis = nb::class_<Placed::Axis>(
        m, "PlacedAxis", "The time of one operation of all groups along an axis, before and after.");
    axis.def_prop_ro(
            "axis", [](const Placed::Axis& self) { return self.traffic.axis; }, "The name of the axis.")
        .def_prop_ro(
            "operation",
            [](const Placed::Axis& self) { return std::string(to_string(self.traffic.operation)); },
            "The operation, such as 'all_reduce'.")
        .def_prop_ro(
            "weight", [](const Placed::Axis& self) { return self.traffic.weight; },
            "How often the operation runs relative to those of other axes.")
        .def_ro("before", &Placed::Axis::before, "The seconds in the given order.")
        .def_ro("after", &Placed::Axis::after, "The seconds in the new order.")
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
    auto placed_ =
        nb::class_<PlacedBytes>(m, "Placed",
                                "The best placement found for a mesh; rank r runs on device r. str() is the "
                                "output of `rankmesh place`.");
    placed_
        .def_prop_ro(
            "order", [](const PlacedBytes& self) { return in_python(self.order); },
            "The mesh to use: the given mesh, a mesh with other strides, or a placement.")
        .def_ro("axes", &Placed::axes, "The axes of two or more ranks.")
        .def_ro("before", &Placed::before,
                "The sum of weight times seconds over all axes, in the given order.")
        .def_ro("after", &Placed::after, "The same in the new order; at most `before`.")
        .def_prop_ro(
            "devices", [](const PlacedBytes& self) { return self.devices(); },
            "The device of each position; the last axis varies fastest.")
        .def_prop_ro(
            "search", [](const PlacedBytes& self) { return std::string(to_string(self.search)); },
            "Which placements were compared: 'all': no placement is better; 'strided': no regular order is "
            "better, in which strides and unit sizes divide each other; 'some': the best of some placements.")
        .def("__str__",
             [](const PlacedBytes& self) {
                 auto text = report::text_of(self, self.bytes);
                 text.pop_back();
                 return text;
             })
        .def("__repr__",
             [](const PlacedBytes& self) { return detail::cat("<Placed as ", to_string(self.order), ">"); })
        .def("__getstate__",
             [](const PlacedBytes& self) {
                 return PlacedState(in_python(self.order), self.axes, self.before, self.after,
                                    static_cast<int>(self.search), self.bytes);
             })
        .def("__setstate__", [](PlacedBytes& self, const PlacedState& state) {
            const auto& [order, axes, before, after, search, bytes] = state;
            const auto known = std::visit([](const auto& each) { return Placement(each); }, order);
            new (&self) PlacedBytes{{known, axes, before, after, static_cast<Placed::Search>(search)}, bytes};
        });
    function<1>(
        m,
        "def place(mesh: str | Mesh | Placement, *, on: str, weights: collections.abc.Mapping[str, float] | "
        "None = None, bytes: int = 67108864) -> Placed",
        "Finds the order of a mesh's ranks on the machines `on`, such as 'node:4(25GB/s) gpu:8(450GB/s)', "
        "with the least weighted time of its axes' operations. `bytes`: buffer size per rank.",
        &place_on);
}

}  // namespace rankmesh::python
