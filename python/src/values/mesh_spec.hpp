// SPDX-License-Identifier: Apache-2.0
// Converts a mesh from Python: text, a Mesh, or axes with their sizes.
#pragma once

#include <string>
#include <vector>

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

}  // namespace rankmesh::python
