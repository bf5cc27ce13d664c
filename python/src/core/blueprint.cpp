// SPDX-License-Identifier: Apache-2.0
#include "engine/join/blueprint.hpp"

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/core/placement.hpp>
#include <rankmesh/engine/world.hpp>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

using detail::MeshBlueprint;

/// An item of a mesh, with the names that it has there.
struct NamedItem : detail::Item {
    std::vector<std::string> axis_names;
    std::string text;
};

std::vector<NamedItem> items_of(const MeshBlueprint& self) {
    auto items = std::vector<NamedItem>{};
    for (const auto& item : self.items) items.push_back({item, self.axis_names(item), self.axes_text(item)});
    return items;
}

}  // namespace

void bind_blueprint(nb::module_& m) {
    auto item = nb::class_<NamedItem>(
        m, "Item", "A set of axes, a part of each group along one axis, or the ranks on one host.");
    item.def_prop_ro(
            "axes", [](const NamedItem& self) { return nb::tuple(nb::cast(self.axis_names)); },
            nb::sig("def axes(self) -> tuple[str, ...]"), "The names of the axes, in the order of the mesh.")
        .def_ro("at", &NamedItem::picked, "The indices of a pick; empty for whole groups.")
        .def_ro("name", &NamedItem::name, "The name of a pick, a separate set or the local ranks, else ''.")
        .def_ro("text", &NamedItem::text, "'dp,tp', or the name.")
        .def_ro("local", &NamedItem::local, "True for the ranks on one host.")
        .def_prop_ro("separate", &NamedItem::separate, "True if its group is never that of another item.")
        .def_ro("timeout", &NamedItem::timeout, "Its own timeout; None for the mesh's.");
    auto meshblueprint_ =
        nb::class_<MeshBlueprint>(m, "MeshBlueprint", "One mesh of a plan in a world of known size.");
    meshblueprint_.def_ro("name", &MeshBlueprint::name, "Its name in the plan.")
        .def_ro("mesh", &MeshBlueprint::mesh, "The mesh, every size known.")
        .def_prop_ro(
            "places",
            [](const MeshBlueprint& self) {
                return in_python(self.placed ? Placement(self.mesh, *self.placed) : Placement(self.mesh));
            },
            "Which rank is at which place of the mesh.")
        .def_prop_ro("items", &items_of, "What gets a communicator, in canonical order and without repeats.")
        .def_ro("lazy", &MeshBlueprint::lazy, "True if nothing is connected at join.")
        .def(
            "description",
            [](const MeshBlueprint& self, const std::vector<std::string>& words) {
                return self.description(words);
            },
            nb::arg("words"),
            "One line that is equal exactly if everything that ranks must agree on is equal. `words`: for "
            "each item, what else they must agree on.");
    function(m,
             "def make_blueprint(plan: collections.abc.Iterable[rankmesh._plan.Declaration], world: int) -> "
             "list[MeshBlueprint]",
             "The meshes of a plan as all ranks must agree on them; UsageError for an invalid plan.",
             [](nb::handle plan, int world) {
                 return detail::make_blueprint(plan_of(plan), world, std::chrono::minutes(30));
             });
    function(m, "def duration(timeout: float | datetime.timedelta | None) -> datetime.timedelta | None",
             "A timeout as a timedelta; None for none.", [](nb::handle given) {
                 return given.is_none() ? std::nullopt : std::optional(duration_of(given, "the timeout"));
             });
}

}  // namespace rankmesh::python
