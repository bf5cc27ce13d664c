// SPDX-License-Identifier: Apache-2.0
#include "core/core.hpp"

namespace rankmesh::python {

/// Gives nanobind's types of functions, methods and classes a `__signature__`, which `inspect.signature` reads.
///
/// The types refuse new attributes; therefore this writes to the dictionary behind their read-only proxy.
void add_signatures(nb::module_& m) {
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
