// SPDX-License-Identifier: Apache-2.0
#include "core/core.hpp"

namespace rankmesh::python {

/// Gives nanobind's types of functions, methods and classes a `__signature__`, which `inspect.signature`
/// reads.
///
/// The types refuse new attributes; therefore this writes to the dictionary behind their read-only proxy.
static void add_signatures(nb::module_& m) {
    const auto signature = nb::cpp_function([](nb::handle function) {
        return nb::module_::import_("rankmesh._signatures").attr("signature_of")(function);
    });
    const nb::object property = nb::module_::import_("builtins").attr("property")(signature);
    const nb::object referents = nb::module_::import_("gc").attr("get_referents");
    const nb::object mesh = nb::cast(Mesh::parse("a=1"));
    for (const nb::object& one : {nb::object(m.attr("check")), nb::object(m.attr("Mesh")),
                                  nb::object(m.attr("Mesh").attr("group")), nb::object(mesh.attr("group"))}) {
        const auto type = one.type();
        const nb::object proxy = type.attr("__dict__");
        for (nb::handle dictionary : referents(proxy))
            if (nb::isinstance<nb::dict>(dictionary)) dictionary["__signature__"] = property;
        PyType_Modified(reinterpret_cast<PyTypeObject*>(type.ptr()));
    }
}

}  // namespace rankmesh::python

#define PyInit__core make_core  // PyInit__core itself is below
NB_MODULE(_core, m) {
    using namespace rankmesh::python;
    m.doc() = "The core of rankmesh: meshes, groups, placements, their pictures.";
    m.attr("version") = RANKMESH_VERSION;
    // Do not report objects that a thread or traceback still holds at exit; users cannot change that.
    nanobind::set_leak_warnings(false);
    register_errors();
    bind_groups(m);
    bind_mesh(m);
    bind_placement(m);
    bind_blueprint(m);
    bind_reshard(m);
    bind_view(m);
    bind_check(m);
    bind_place(m);
    add_signatures(m);
}
#undef PyInit__core

// nanobind's state belongs to one interpreter, and a second one would overwrite it. CPython refuses only
// subinterpreters with their own GIL, and only from 3.12 on.
namespace {

using Execute = int (*)(PyObject*);
Execute execute = nullptr;

int execute_in_main(PyObject* module) {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return execute(module);
    PyErr_SetString(PyExc_ImportError, "module rankmesh._core does not support loading in subinterpreters");
    return -1;
}

}  // namespace

extern "C" NB_EXPORT PyObject* PyInit__core() {
    auto* made = make_core();
    if (!made || execute) return made;
    for (auto* slot = reinterpret_cast<PyModuleDef*>(made)->m_slots; slot->slot != 0; ++slot)
        if (slot->slot == Py_mod_exec) {
            execute = reinterpret_cast<Execute>(slot->value);
            slot->value = reinterpret_cast<void*>(&execute_in_main);
        }
    return made;
}
