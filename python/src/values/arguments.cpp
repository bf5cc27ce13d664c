// SPDX-License-Identifier: Apache-2.0
// The linker redirects nanobind's calls of PyErr_SetString to this file (--wrap in python/CMakeLists.txt).
// For wrong arguments nanobind would list every signature, and it has no hook for another text.
#include <string_view>

#include "values/convert.hpp"

extern "C" {
void set_python_error(PyObject* type, const char* text) __asm__("__real_PyErr_SetString");
void set_error(PyObject* type, const char* text) __asm__("__wrap_PyErr_SetString");
}

void set_error(PyObject* type, const char* text) {
    using namespace rankmesh::python;
    if (type != PyExc_TypeError ||
        std::string_view(text).find("(): incompatible function arguments.") == std::string_view::npos)
        return set_python_error(type, text);
    try {
        const nb::object said = nb::module_::import_("rankmesh._arguments").attr("in_a_sentence")(text);
        raise("UsageTypeError", text_of(said, "an error").c_str());
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const std::exception&) {
        set_python_error(type, text);
    }
}
