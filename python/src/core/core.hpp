// SPDX-License-Identifier: Apache-2.0
// What is bound, each in the file of its name.
#pragma once

#include "values/ranks.hpp"

namespace rankmesh::python {

void bind_groups(nb::module_& m);
void bind_mesh(nb::module_& m);
void bind_placement(nb::module_& m);
void bind_reshard(nb::module_& m);
void bind_view(nb::module_& m);
void bind_check(nb::module_& m);

/// The groups of a mesh along some axes, which it was asked for in this order.
struct Groups {
    Mesh mesh;
    std::vector<AxisId> axes;
    bool in_order;
    Partition groups;
};

}  // namespace rankmesh::python
