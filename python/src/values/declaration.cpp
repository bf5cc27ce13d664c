// SPDX-License-Identifier: Apache-2.0
#include "values/declaration.hpp"

#include <algorithm>
#include <span>

#include "values/mesh_spec.hpp"

namespace rankmesh::python {

using detail::cat;

namespace {

bool truth_of(nb::handle value) {
    const auto truth = PyObject_IsTrue(value.ptr());
    if (truth < 0) throw nb::python_error();
    return truth != 0;
}

/// Returns a sequence. Throws TypeFault for a str and for objects that are not sequences; `what` begins its
/// text.
nb::object each_of(nb::handle given, const char* what) {
    if (nb::isinstance<nb::str>(given) || !nb::hasattr(given, "__iter__"))
        throw TypeFault(cat(what, ", not ", described(given)));
    return nb::borrow(given);
}

/// The axes of `dp,cp`.
std::vector<std::string> split(const std::string& text) {
    auto names = std::vector<std::string>{};
    for (std::size_t begin = 0; begin <= text.size();) {
        const auto end = std::min(text.find(',', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

Axes axes_of(nb::handle given) {
    if (nb::isinstance<nb::str>(given))
        return Axes(std::span<const std::string>(split(text_of(given, "a set of axes"))));
    if (!nb::hasattr(given, "axes"))
        return Axes(std::span<const std::string>(texts_of(given, "a set of axes")));
    auto axes = Axes(std::span<const std::string>(texts_of(nb::object(given.attr("axes")), "a set of axes")));
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

Plan plan_of(nb::handle declarations) {
    auto plan = Plan{};
    for (auto declaration : declarations) plan.push_back(declaration_of(declaration));
    return plan;
}

}  // namespace rankmesh::python
