// SPDX-License-Identifier: Apache-2.0
#include "values/declaration.hpp"

#include <span>

namespace rankmesh::python {

using detail::cat;

namespace {

/// Returns the size of an axis: an int, or "*" if that is allowed.
Extent extent_of(nb::handle size, std::string_view axis) {
    if (nb::isinstance<nb::str>(size) && text_of(size, "a size") == "*") return rest;
    return int_from(size, [&] { return cat("the size of axis ", detail::in_quotes(axis)); });
}

bool truth_of(nb::handle value) {
    const auto truth = PyObject_IsTrue(value.ptr());
    if (truth < 0) throw nb::python_error();
    return truth != 0;
}

Axes axes_of(nb::handle given) {
    const auto has_options = nb::hasattr(given, "axes");
    const nb::object names = has_options                      ? nb::object(given.attr("axes"))
                             : nb::isinstance<nb::str>(given) ? given.attr("split")(",")
                                                              : nb::borrow(given);
    auto axes = Axes(std::span<const std::string>(texts_of(names, "a set of axes")));
    if (!has_options) return axes;
    const nb::object separate = given.attr("separate");
    const nb::object timeout = given.attr("timeout");
    if (const auto name = text_of(separate, "the name of a separate communicator"); !name.empty())
        axes = axes.separate(name);
    if (!timeout.is_none()) axes = axes.within(duration_of(timeout, "the timeout"));
    return axes;
}

Declaration declaration_of(nb::handle given) {
    const auto field = [&](const char* name) { return nb::object(given.attr(name)); };
    auto declaration = Declaration{};
    declaration.mesh = mesh_spec_of(field("mesh"));
    declaration.name = text_of(field("name"), "the name of a mesh");
    for (auto set : each_of(field("over"), "over must be a sequence of sets of axes, such as [('dp', 'cp')]"))
        declaration.over.push_back(axes_of(set));
    for (auto pick : each_of(field("picks"), "picks must be a sequence of rankmesh.Pick")) {
        if (!nb::hasattr(pick, "of") || !nb::hasattr(pick, "at") || !nb::hasattr(pick, "name"))
            throw TypeFault(cat("a pick is ", described(pick), "; it must be a rankmesh.Pick"));
        declaration.picks.push_back({.of = text_of(nb::object(pick.attr("of")), "the axis of a pick"),
                                     .at = ints_of(nb::object(pick.attr("at")), "the indices of a pick"),
                                     .as = text_of(nb::object(pick.attr("name")), "the name of a pick")});
    }
    declaration.local = text_of(field("local"), "the name of the local ranks");
    if (const auto axes = field("axes"); !axes.is_none()) declaration.axes = texts_of(axes, "the axes");
    declaration.placed = ints_of(field("placed"), "the placed ranks");
    declaration.partial = truth_of(field("partial"));
    declaration.lazy = truth_of(field("lazy"));
    if (const auto timeout = field("timeout"); !timeout.is_none())
        declaration.timeout = duration_of(timeout, "the timeout");
    return declaration;
}

}  // namespace

void NamedSizes::add(nb::handle name, nb::handle size) {
    names.push_back(text_of(name, "an axis"));
    sizes.push_back(extent_of(size, names.back()));
}

std::vector<Axis> NamedSizes::all() const {
    auto axes = std::vector<Axis>{};
    for (std::size_t i = 0; i < names.size(); ++i) axes.push_back({names[i], sizes[i]});
    return axes;
}

NamedSizes axes_from(nb::handle given, const nb::kwargs& keywords) {
    auto axes = NamedSizes{};
    if (given.is_valid()) {
        const auto pairs =
            nb::hasattr(given, "items") ? nb::object(given.attr("items")()) : nb::borrow(given);
        if (!nb::hasattr(pairs, "__iter__"))
            throw TypeFault(cat("a mesh is ", described(given), "; it must be a str, a mapping, or pairs"));
        for (auto pair : pairs) {
            if (nb::isinstance<nb::str>(pair) || !nb::hasattr(pair, "__len__") || nb::len(pair) != 2)
                throw TypeFault(cat("an axis is ", described(pair), "; it must be a pair such as ('tp', 8)"));
            axes.add(pair[0], pair[1]);
        }
    }
    for (auto [name, size] : keywords) axes.add(name, size);
    return axes;
}

MeshSpec mesh_spec_in(const std::string& text) {
    if (const auto at = text.find_first_of(";+"); at != std::string::npos)
        throw UsageError(cat("the mesh ", detail::in_quotes(text), " has a '", text.substr(at, 1),
                             "', but one mesh is needed here; rankmesh.convert takes several"));
    return MeshSpec::parse(text);
}

MeshSpec mesh_spec_of(nb::handle given) {
    if (nb::isinstance<Mesh>(given)) return nb::cast<Mesh>(given);
    if (nb::isinstance<nb::str>(given)) return mesh_spec_in(text_of(given, "a mesh"));
    return MeshSpec(axes_from(given, nb::kwargs()).all());
}

Plan plan_of(nb::handle declarations) {
    auto plan = Plan{};
    for (auto declaration : declarations) plan.push_back(declaration_of(declaration));
    return plan;
}

}  // namespace rankmesh::python
