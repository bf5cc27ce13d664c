// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"
#include "engine/interrupt.hpp"

NB_MODULE(_engine, m) {
    using namespace rankmesh::python;
    m.doc() = "The engines of rankmesh: worlds, members, communicators.";
    nanobind::module_::import_("rankmesh._core");
    note_main_thread();
    (void)forks();
    bind_communicator(m);
    bind_member(m);
    bind_world(m);
    bind_mpi4py(m);
    m.def("_end_all", [](bool by_exception) { Ending::end_all(by_exception); });
    const auto at_exit = nanobind::cpp_function([] {
        // What an uncaught exception ends, peers are told of, and nobody waits.
        Ending::end_all(nanobind::hasattr(nanobind::module_::import_("sys"), "last_type"));
    });
    nanobind::module_::import_("atexit").attr("register")(at_exit);
}
