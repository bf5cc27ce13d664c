// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include <rankmesh/cluster/check.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/report/text.hpp>

#include "core/core.hpp"
#include "values/mesh_spec.hpp"

namespace rankmesh::python {

namespace {

/// The result of `check`.
struct Report {
    std::string mesh;
    int world;
    JoinCost cost;
    std::vector<EngineNeed> needs;
    int outside;
    std::string cluster = {};  // how the mesh fits that, as text; "" without one
    std::string broken = {};   // its rules that do not hold
    bool right = true;         // it fits there, and every rule holds

    const EngineNeed& need(std::string_view engine) const {
        return *std::ranges::find(needs, engine, &EngineNeed::engine);
    }
    std::optional<std::int64_t> amount(std::string_view engine, std::string_view of) const {
        return std::ranges::find(need(engine).amounts, of, &EngineNeed::Amount::of)->count;
    }
    bool fits() const { return right && std::ranges::all_of(needs, &EngineNeed::fits); }
    /// Returns what does not fit, as text.
    std::string shortage() const {
        const auto found = std::ranges::find(needs, false, &EngineNeed::fits);
        return found == needs.end() ? broken : found->text;
    }
};

using AmountState = std::tuple<std::string, std::optional<std::int64_t>, std::optional<std::int64_t>>;
using NeedState =
    std::tuple<std::string, std::string, std::vector<AmountState>, bool, std::string, std::optional<int>>;
using ReportState = std::tuple<std::string, int, int, int, std::vector<JoinCost::Set>, bool, int,
                               std::int64_t, std::vector<NeedState>, std::string, std::string, bool>;

ReportState state_of(const Report& report) {
    auto needs = std::vector<NeedState>{};
    for (const auto& need : report.needs) {
        auto amounts = std::vector<AmountState>{};
        for (const auto& [of, count, outside] : need.amounts) amounts.emplace_back(of, count, outside);
        const auto by = need.by ? std::optional(static_cast<int>(*need.by)) : std::nullopt;
        needs.emplace_back(need.engine, need.text, amounts, need.fits, need.outside, by);
    }
    const auto& cost = report.cost;
    return {report.mesh, report.world,   report.outside,     cost.world,
            cost.sets,   cost.joins,     cost.communicators, cost.connections,
            needs,       report.cluster, report.broken,      report.right};
}

Report report_of(const ReportState& state) {
    auto report = Report{};
    auto needs = std::vector<NeedState>{};
    auto& cost = report.cost;
    std::tie(report.mesh, report.world, report.outside, cost.world, cost.sets, cost.joins, cost.communicators,
             cost.connections, needs, report.cluster, report.broken, report.right) = state;
    for (const auto& [engine, text, amounts, fits, outside, by] : needs) {
        auto need = EngineNeed{.engine = engine, .text = text, .fits = fits, .outside = outside};
        for (const auto& [of, count, without] : amounts) need.amounts.push_back({of, count, without});
        if (by) need.by = static_cast<JoinBy>(*by);
        report.needs.push_back(std::move(need));
    }
    return report;
}

/// Adds how a mesh or placement fits a cluster.
void add_cluster(Report& report, const Cluster& cluster, const Placement& placement,
                 const std::vector<std::string>& rules) {
    auto questions = ClusterQuestions{.sets = report::timed_sets(report.cost)};
    for (const auto& rule : rules) questions.keep.push_back(Keep::parse(rule));
    const auto found = check_on(cluster, placement, questions);
    constexpr auto width = std::size_t{80};
    report.cluster = report::text_of(cluster, placement.mesh(), found, false, width);
    report.right = found.right();
    report.broken = found.fits() ? report::broken_rules(cluster, found, width)
                                 : detail::cat("rank ", found.last_rank, " has no device");
    if (report.broken.ends_with('\n')) report.broken.pop_back();
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
        const auto spec = nb::isinstance<Mesh>(given) ? MeshSpec(nb::cast<Mesh>(given))
                                                      : mesh_spec_in(text_of(given, "a mesh"));
        return !world.is_none() ? spec.resolve(int_of(world, "the size of the world"))
               : cluster        ? spec.resolve(cluster->size())
                                : spec.resolve();
    }();
    const auto& mesh = placement.mesh();
    auto declaration = Declaration{.mesh = mesh, .partial = true};
    declaration.placed.assign(placement.table().begin(), placement.table().end());
    auto report = Report{};
    report.mesh = to_string(placement);
    const auto known = [&](const std::vector<std::string>& names) {
        for (const auto& name : names) axis_of(mesh, nb::cast(name));
        return names;
    };
    if (!over.is_none())
        for (auto set : over)
            declaration.over.emplace_back(
                std::span<const std::string>(known(texts_of(set, "a set of axes"))));
    if (!axes.is_none()) declaration.axes = known(texts_of(axes, "axes"));
    report.world = world.is_none() ? placement.extent() : int_of(world, "the size of the world");
    report.outside = report.world - mesh.size();
    report.cost = join_cost({declaration}, report.world, placement.ranks()[0]);
    report.needs = needs_of(report.cost);
    if (cluster) add_cluster(report, *cluster, placement, rules);
    return report;
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
        .def("__repr__",
             [](const JoinCost::Set& self) {
                 return detail::cat("<", self.text, ": ", self.groups, " x ", self.group_size, ">");
             })
        .def("__getstate__",
             [](const JoinCost::Set& self) {
                 return std::tuple(self.axes, self.text, self.label, self.groups, self.group_size,
                                   self.communicator);
             })
        .def("__setstate__",
             [](JoinCost::Set& self, const std::tuple<std::vector<std::string>, std::string, std::string, int,
                                                      int, std::optional<int>>& state) {
                 new (&self) JoinCost::Set(std::make_from_tuple<JoinCost::Set>(state));
             });
    auto bound = nb::class_<Report>(
        m, "Report",
        "The cost of joining a mesh for one rank, whether it fits into the limits of this "
        "process, and how the mesh fits the machines `on`. str() is the output of `rankmesh "
        "check`.");
    bound.def_ro("mesh", &Report::mesh, "The mesh as text.")
        .def_ro("world", &Report::world, "The number of ranks of the world.")
        .def_ro("outside", &Report::outside, "The number of ranks of the world that are not in the mesh.")
        .def_prop_ro(
            "sets", [](const Report& self) { return self.cost.sets; },
            "The declared sets of axes, each once, in the order of creation.")
        .def_prop_ro(
            "communicators", [](const Report& self) { return self.cost.communicators; },
            "The number of communicators of two or more ranks that a rank of the mesh gets.")
        .def_prop_ro(
            "connections", [](const Report& self) { return self.cost.connections; },
            "The number of connections of a rank on Gloo: one to each peer in each communicator.")
        .def_prop_ro(
            "descriptor_limit", [](const Report& self) { return self.amount("gloo", "descriptor_limit"); },
            "The most file descriptors that this process may open; None: no limit.")
        .def_prop_ro(
            "nccl_communicators", [](const Report& self) { return self.amount("nccl", "communicators"); },
            "The number of communicators on NCCL, including one of all ranks.")
        .def_prop_ro(
            "nccl_ids", [](const Report& self) { return self.amount("nccl", "unique_ids"); },
            "The number of unique ids from which NCCL's communicator of all ranks is made.")
        .def_prop_ro("shortage", &Report::shortage, "What does not fit, as text; '' if everything fits.")
        .def_prop_ro("fits", &Report::fits,
                     "True if a join fits into the limits of this process, and the mesh fits the machines "
                     "`on` by every rule. bool(report) is the same.")
        .def("__bool__", &Report::fits)
        .def("__str__",
             [](const Report& self) {
                 constexpr auto width = std::size_t{80};
                 auto text = report::text_of(self.mesh, self.cost, self.needs, self.outside, width);
                 if (!self.cluster.empty()) detail::append(text, detail::cat("\n", self.cluster));
                 text.pop_back();
                 return text;
             })
        .def("__repr__",
             [](const Report& self) {
                 return detail::cat("<Report of ", self.mesh, ": ", self.cost.communicators,
                                    " communicators a rank, ", self.fits() ? "fits>" : self.shortage() + ">");
             })
        .def("__getstate__", &state_of)
        .def("__setstate__",
             [](Report& self, const ReportState& state) { new (&self) Report(report_of(state)); });
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

}  // namespace rankmesh::python
