// SPDX-License-Identifier: Apache-2.0
#include "frameworks.hpp"

namespace rankmesh::python {
namespace {

/// Raises rankmesh._originals.FrameworkError. The Python modules convert it to the originals' exceptions.
void register_framework_errors() {
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const frameworks::Error& error) {
            const auto* refusal = dynamic_cast<const frameworks::Refusal*>(&error);
            const nb::object type = nb::module_::import_("rankmesh._originals").attr("FrameworkError");
            const auto made = type(nb::str(error.what()), nb::cast(frameworks::to_string(error.fault)),
                                   nb::cast(refusal ? std::string_view(refusal->rule) : std::string_view()));
            PyErr_SetObject(type.ptr(), made.ptr());
        }
    });
}

}  // namespace
}  // namespace rankmesh::python

NB_MODULE(_frameworks, m) {
    using namespace rankmesh::python;
    m.doc() =
        "The vocabularies of other frameworks; rankmesh.megatron and so on give them their originals' "
        "signatures.";
    nanobind::module_::import_("rankmesh._core");
    register_framework_errors();
    bind_convert(m);
    bind_plan(m);
    bind_explain(m);
    bind_device_mesh(m);
    bind_topology(m);
    bind_rows(m);
}
