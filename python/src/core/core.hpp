// SPDX-License-Identifier: Apache-2.0
// What is bound, each in the file of its name.
#pragma once

#include <variant>

#include <rankmesh/core/placement.hpp>

#include "values/ranks.hpp"

namespace rankmesh::python {

void bind_groups(nb::module_& m);
void bind_mesh(nb::module_& m);
void bind_placement(nb::module_& m);
void bind_blueprint(nb::module_& m);
void bind_reshard(nb::module_& m);
void bind_view(nb::module_& m);
void bind_check(nb::module_& m);
void bind_place(nb::module_& m);
void add_signatures(nb::module_& m);

/// What a picture or a cluster is asked about: a mesh, a placement, or the notation of either.
using Topology = std::variant<Mesh, Placement>;
Topology topology_of(nb::handle given);

/// The groups of a mesh along some axes, which it was asked for in this order.
struct Groups {
    Mesh mesh;
    std::vector<AxisId> axes;
    bool in_order;
    Partition groups;
};

}  // namespace rankmesh::python
