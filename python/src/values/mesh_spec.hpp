// SPDX-License-Identifier: Apache-2.0
// A mesh as Python gives it: text, a Mesh, or axes with their sizes.
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

/// Axes from a mapping or pairs, if anything is given, and from keywords.
NamedSizes axes_from(nb::handle given, const nb::kwargs& keywords);

/// A mesh from text, a mapping or pairs, or a Mesh; throws TypeFault for others.
MeshSpec mesh_spec_of(nb::handle given);

}  // namespace rankmesh::python
