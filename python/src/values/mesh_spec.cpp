// SPDX-License-Identifier: Apache-2.0
#include "values/mesh_spec.hpp"

namespace rankmesh::python {

using detail::cat;

namespace {

/// Returns the size of an axis: an int, or "*" if that is allowed.
Extent extent_of(nb::handle size, std::string_view axis) {
    if (nb::isinstance<nb::str>(size) && text_of(size, "a size") == "*") return rest;
    return int_from(size, [&] { return cat("the size of axis ", detail::in_quotes(axis)); });
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

}  // namespace rankmesh::python
