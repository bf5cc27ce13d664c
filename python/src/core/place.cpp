// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/cluster/place.hpp>
#include <rankmesh/report/text.hpp>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

/// The seconds of one operation of all groups along an axis, in the given order and in the new one.
struct AxisTimes {
    std::string axis;
    std::string operation;
    double weight;
    double before;
    double after;
};

/// The result of `place`.
struct Found {
    std::variant<Mesh, Placement> order;
    std::vector<AxisTimes> axes;
    double before;
    double after;
    std::string search;
    std::string text;
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

Found place_on(nb::handle given, nb::handle on, nb::handle weights, nb::handle bytes) {
    const auto placement = placement_of(given);
    const auto cluster = Cluster::parse(text_of(on, "the cluster"));
    auto length = std::int64_t{};
    if (!nb::try_cast(bytes, length))
        throw TypeFault(detail::cat("bytes is ", described(bytes), "; it must be an int"));
    const auto traffic = traffic_of(placement.mesh(), weights);
    const auto released = nb::gil_scoped_release();
    const auto placed = place(cluster, placement, traffic, length);
    auto axes = std::vector<AxisTimes>{};
    for (const auto& [of, before, after] : placed.axes)
        axes.push_back({of.axis, std::string(to_string(of.operation)), of.weight, before, after});
    auto text = report::text_of(placed, length);
    text.pop_back();
    return {in_python(placed.order),
            axes,
            placed.before,
            placed.after,
            std::string(to_string(placed.search)),
            text};
}

}  // namespace

void bind_place(nb::module_& m) {
    auto axis = nb::class_<AxisTimes>(
        m, "PlacedAxis", "The time of one operation of all groups along an axis, before and after.");
    axis.def_ro("axis", &AxisTimes::axis, "The name of the axis.")
        .def_ro("operation", &AxisTimes::operation, "The operation, such as 'all_reduce'.")
        .def_ro("weight", &AxisTimes::weight, "How often the operation runs relative to those of other axes.")
        .def_ro("before", &AxisTimes::before, "The seconds in the given order.")
        .def_ro("after", &AxisTimes::after, "The seconds in the new order.")
        .def("__repr__",
             [](const AxisTimes& self) { return detail::cat("<", self.axis, ": ", self.operation, ">"); });
    bind_pickle(axis, &AxisTimes::axis, &AxisTimes::operation, &AxisTimes::weight, &AxisTimes::before,
                &AxisTimes::after);
    auto found = nb::class_<Found>(m, "Placed",
                                   "The best placement found for a mesh; rank r runs on device r. str() is "
                                   "the output of `rankmesh place`.");
    found
        .def_prop_ro(
            "order", [](const Found& self) { return self.order; },
            "The mesh to use: the given mesh, a mesh with other strides, or a placement.")
        .def_ro("axes", &Found::axes, "The axes of two or more ranks.")
        .def_ro("before", &Found::before,
                "The sum of weight times seconds over all axes, in the given order.")
        .def_ro("after", &Found::after, "The sum in the new order; at most `before`.")
        .def_prop_ro(
            "devices",
            [](const Found& self) {
                return std::visit([](const auto& order) { return Placed{.order = order}.devices(); },
                                  self.order);
            },
            "The device of each position; the last axis varies fastest.")
        .def_ro(
            "search", &Found::search,
            "Which placements were compared: 'all': no placement is better; 'strided': no regular order is "
            "better, in which strides and unit sizes divide each other; 'some': the best of some placements.")
        .def("__str__", [](const Found& self) { return self.text; })
        .def("__repr__", [](const Found& self) {
            return std::visit(
                [](const auto& order) { return detail::cat("<Placed as ", to_string(order), ">"); },
                self.order);
        });
    bind_pickle(found, &Found::order, &Found::axes, &Found::before, &Found::after, &Found::search,
                &Found::text);
    function<1>(
        m,
        "def place(mesh: str | Mesh | Placement, *, on: str, weights: collections.abc.Mapping[str, float] | "
        "None = None, bytes: int = 67108864) -> Placed",
        "Finds the order of a mesh's ranks on the machines `on`, such as 'node:4(25GB/s) gpu:8(450GB/s)', "
        "with the least weighted time of its axes' operations. `bytes`: buffer size per rank.",
        &place_on);
}

}  // namespace rankmesh::python
