// SPDX-License-Identifier: Apache-2.0
#include "core/core.hpp"

NB_MODULE(_core, m) {
    using namespace rankmesh::python;
    m.doc() = "The core of rankmesh: meshes, groups, placements, their pictures.";
    m.attr("version") = RANKMESH_VERSION;
    // What a thread or a traceback holds at the end is no business of its user.
    nanobind::set_leak_warnings(false);
    register_errors();
    bind_groups(m);
    bind_mesh(m);
    bind_placement(m);
    bind_view(m);
    bind_check(m);
}
