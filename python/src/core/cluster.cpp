// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/cluster/check.hpp>
#include <rankmesh/cluster/place.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/report/text.hpp>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

/// The result of `check`.
struct Report {
    std::string mesh;
    int world;
    int outside;
    std::vector<JoinCost::Set> sets;
    int communicators;
    std::int64_t connections;
    std::optional<std::int64_t> descriptor_limit;
    std::optional<std::int64_t> nccl_communicators;
    std::optional<std::int64_t> nccl_ids;
    std::string shortage;  // what does not fit; "" if everything fits
    std::string text;
    bool fits;
};

constexpr auto width = std::size_t{80};

/// A report without a cluster.
Report report_of(const Placement& placement, int world, const JoinCost& cost) {
    const auto needs = needs_of(cost);
    const auto amount = [&](std::string_view engine, std::string_view of) {
        const auto& need = *std::ranges::find(needs, engine, &EngineNeed::engine);
        return std::ranges::find(need.amounts, of, &EngineNeed::Amount::of)->count;
    };
    const auto lacking = std::ranges::find(needs, false, &EngineNeed::fits);
    const auto outside = world - placement.mesh().size();
    return {.mesh = to_string(placement),
            .world = world,
            .outside = outside,
            .sets = cost.sets,
            .communicators = cost.communicators,
            .connections = cost.connections,
            .descriptor_limit = amount("gloo", "descriptor_limit"),
            .nccl_communicators = amount("nccl", "communicators"),
            .nccl_ids = amount("nccl", "unique_ids"),
            .shortage = lacking == needs.end() ? "" : lacking->text,
            .text = report::text_of(to_string(placement), cost, needs, outside, width),
            .fits = lacking == needs.end()};
}

/// Adds how a mesh or placement fits a cluster.
void add_cluster(Report& report, const Cluster& cluster, const Placement& placement, const JoinCost& cost,
                 const std::vector<std::string>& rules) {
    auto questions = ClusterQuestions{.sets = report::timed_sets(cost)};
    for (const auto& rule : rules) questions.keep.push_back(Keep::parse(rule));
    const auto found = check_on(cluster, placement, questions);
    detail::append(report.text,
                   detail::cat("\n", report::text_of(cluster, placement.mesh(), found, false, width)));
    if (report.fits)
        report.shortage = found.fits() ? report::broken_rules(cluster, found, width)
                                       : detail::cat("rank ", found.last_rank, " has no device");
    if (report.shortage.ends_with('\n')) report.shortage.pop_back();
    report.fits = report.fits && found.right();
}

Report check(nb::handle given, nb::handle over, nb::handle axes, nb::handle world, nb::handle on,
             nb::handle keep) {
    const auto cluster =
        on.is_none() ? std::nullopt : std::optional(Cluster::parse(text_of(on, "the cluster")));
    const auto rules = texts_of(keep, "keep");
    if (!cluster && !rules.empty()) throw UsageError("keep requires a cluster; add on='node:4 gpu:8'");
    const auto placement = [&]() -> Placement {
        if (nb::isinstance<Placement>(given) ||
            (nb::isinstance<nb::str>(given) && text_of(given, "a mesh").find("@[") != std::string::npos))
            return placement_of(given);
        const auto spec = mesh_spec_of(given);
        return !world.is_none() ? spec.resolve(int_of(world, "the size of the world"))
               : cluster        ? spec.resolve(cluster->size())
                                : spec.resolve();
    }();
    const auto& mesh = placement.mesh();
    auto declaration = Declaration{.mesh = mesh, .partial = true};
    declaration.placed.assign(placement.table().begin(), placement.table().end());
    const auto known = [&](const std::vector<std::string>& names) {
        for (const auto& name : names) axis_of(mesh, nb::cast(name));
        return names;
    };
    if (!over.is_none())
        for (auto set : over)
            declaration.over.emplace_back(
                std::span<const std::string>(known(texts_of(set, "a set of axes"))));
    if (!axes.is_none()) declaration.axes = known(texts_of(axes, "axes"));
    const auto size = world.is_none() ? placement.extent() : int_of(world, "the size of the world");
    const auto cost = join_cost({declaration}, size, placement.ranks()[0]);
    auto report = report_of(placement, size, cost);
    if (cluster) add_cluster(report, *cluster, placement, cost, rules);
    report.text.pop_back();
    return report;
}

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

void bind_check(nb::module_& m) {
    auto set = nb::class_<JoinCost::Set>(m, "CheckedSet", "One declared set of axes and its groups.");
    set.def_ro("axes", &JoinCost::Set::text, "The axes, as in 'dp,cp'.")
        .def_ro("groups", &JoinCost::Set::groups, "The number of groups.")
        .def_ro("group_size", &JoinCost::Set::group_size, "The number of ranks in each group.")
        .def_ro("communicator", &JoinCost::Set::communicator,
                "The number of the rank's communicator, from 0. Sets with equal ranks share one. None for "
                "groups of one.")
        .def("__repr__", [](const JoinCost::Set& self) {
            return detail::cat("<", self.text, ": ", self.groups, " x ", self.group_size, ">");
        });
    using Set = JoinCost::Set;
    bind_pickle(set, &Set::axes, &Set::text, &Set::label, &Set::groups, &Set::group_size, &Set::communicator);
    auto bound = nb::class_<Report>(
        m, "Report",
        "The cost of joining a mesh for one rank, whether it fits into the limits of this "
        "process, and how the mesh fits the machines `on`. str() is the output of `rankmesh "
        "check`.");
    bound.def_ro("mesh", &Report::mesh, "The mesh as text.")
        .def_ro("world", &Report::world, "The number of ranks of the world.")
        .def_ro("outside", &Report::outside, "The number of ranks of the world that are not in the mesh.")
        .def_ro("sets", &Report::sets, "The declared sets of axes, each once, in the order of creation.")
        .def_ro("communicators", &Report::communicators,
                "The number of communicators of two or more ranks that a rank of the mesh gets.")
        .def_ro("connections", &Report::connections,
                "The number of connections of a rank on Gloo: one to each peer in each communicator.")
        .def_ro("descriptor_limit", &Report::descriptor_limit,
                "The most file descriptors that this process may open; None: no limit.")
        .def_ro("nccl_communicators", &Report::nccl_communicators,
                "The number of communicators on NCCL, including one of all ranks.")
        .def_ro("nccl_ids", &Report::nccl_ids,
                "The number of unique ids from which NCCL's communicator of all ranks is made.")
        .def_ro("shortage", &Report::shortage, "What does not fit, as text; '' if everything fits.")
        .def_ro("fits", &Report::fits,
                "True if a join fits into the limits of this process, and the mesh fits the machines "
                "`on` by every rule. bool(report) is the same.")
        .def("__bool__", [](const Report& self) { return self.fits; })
        .def("__str__", [](const Report& self) { return self.text; })
        .def("__repr__", [](const Report& self) {
            return detail::cat("<Report of ", self.mesh, ": ", self.communicators, " communicators a rank, ",
                               self.fits ? "fits>" : self.shortage + ">");
        });
    bind_pickle(bound, &Report::mesh, &Report::world, &Report::outside, &Report::sets, &Report::communicators,
                &Report::connections, &Report::descriptor_limit, &Report::nccl_communicators,
                &Report::nccl_ids, &Report::shortage, &Report::text, &Report::fits);
    function<1>(m,
                "def check(mesh: str | Mesh | Placement, *, over: collections.abc.Iterable[str | "
                "collections.abc.Iterable[str]] | None = None, axes: collections.abc.Iterable[str] | None = "
                "None, world: int | None = None, on: str | None = None, keep: collections.abc.Iterable[str] "
                "= ()) -> Report",
                "Computes the cost of joining a mesh for one rank, without joining. `over`: sets of axes to "
                "declare, such as [('dp', 'cp')]. `axes`: the single axes to declare; default: all. `world`: "
                "the number of ranks, which may exceed the ranks of the mesh. `on`: the machines, such as "
                "'node:4(25GB/s) gpu:8(450GB/s)'; the report then says which groups leave a node, and what "
                "collectives cost. `keep`: the rules instead of the default ones, such as ['tp,cp:node'].",
                &check);
}

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
