// SPDX-License-Identifier: Apache-2.0
// Converts a mesh from Python: text, a Mesh, or axes with their sizes; and what a program declares before it
// joins.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/engine/plan.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// Axes with their sizes; one size may be `*`.
struct NamedSizes {
    std::vector<std::string> names;
    std::vector<Extent> sizes;

    void add(nb::handle name, nb::handle size);
    std::vector<Axis> all() const;
};

/// Converts axes from a mapping or pairs, if given, and from keywords.
NamedSizes axes_from(nb::handle given, const nb::kwargs& keywords);

/// Reads a mesh from text.
MeshSpec mesh_spec_in(const std::string& text);

/// Converts a mesh from text, a mapping, pairs or a Mesh. Throws TypeFault for others.
MeshSpec mesh_spec_of(nb::handle given);

/// The declarations of an iterable of rankmesh.Declaration; throws TypeFault for fields of other types.
Plan plan_of(nb::handle declarations);

}  // namespace rankmesh::python
