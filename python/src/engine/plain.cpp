// SPDX-License-Identifier: Apache-2.0
#include "engine/plain.hpp"

#include <cstdint>

namespace rankmesh::python {
namespace {

using detail::cat;

/// A type of a module that may or may not be imported.
class Imported {
public:
    Imported(const char* module, const char* name)
        : module_(PyUnicode_InternFromString(module)), name_(PyUnicode_InternFromString(name)) {}

    bool holds(nb::handle object) {
        if (!type_ && !find()) return false;
        return PyType_IsSubtype(Py_TYPE(object.ptr()), type_) != 0;
    }
    bool is_type_of(nb::handle object) const { return Py_TYPE(object.ptr()) == type_; }

private:
    bool find() {
        auto* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), module_);
        if (!module) return false;
        const nb::object found = nb::getattr(module, nb::handle(name_), nb::none());
        if (!PyType_Check(found.ptr())) return false;  // the import is not complete
        type_ = reinterpret_cast<PyTypeObject*>(nb::object(found).release().ptr());
        return true;
    }

    PyObject* module_;
    PyObject* name_;
    PyTypeObject* type_ = nullptr;
};

/// The attributes that are read from every tensor.
struct Torch {
    const nb::object keys = nb::module_::import_("torch").attr("_C").attr("_dispatch_keys");
    const nb::object note_write = nb::module_::import_("torch.autograd.graph").attr("increment_version");
    const nb::object grad_enabled = nb::module_::import_("torch").attr("is_grad_enabled");
    const std::uint64_t plain =
        nb::cast<std::uint64_t>(nb::module_::import_("rankmesh._tensors").attr("PLAIN"));
};

[[noreturn]] void refuse(nb::handle tensor, std::string_view what) {
    const nb::object fault = nb::module_::import_("rankmesh._tensors").attr("fault")(tensor);
    throw UsageError(cat(what, " ", text_of(fault, "the fault of a tensor")));
}

}  // namespace

bool is_plain_tensor(nb::handle object, std::string_view what, bool written) {
    // All of these live until the process ends.
    static auto& masked = *new Imported("numpy.ma", "MaskedArray");
    static auto& tensor = *new Imported("torch", "Tensor");
    static auto& parameter = *new Imported("torch.nn.parameter", "Parameter");
    if (masked.holds(object))
        throw UsageError(cat(what,
                             " is a masked array, whose masked elements would be moved as well; pass "
                             "x.filled(value), or x.data and x.mask"));
    if (!tensor.holds(object)) return false;
    static const Torch* torch = nullptr;
    if (!torch)
        torch = new Torch;  // without a static's guard, for which a thread would wait while it holds the GIL
    // A subclass may store its elements elsewhere, and a dispatch key may give them another meaning.
    if (!tensor.is_type_of(object) && !(parameter.holds(object) && parameter.is_type_of(object)))
        refuse(object, what);
    const auto keys = nb::cast<std::uint64_t>(torch->keys(object).attr("raw_repr")());
    if ((keys & ~torch->plain) != 0) refuse(object, what);
    if (nb::cast<bool>(object.attr("requires_grad")) && nb::cast<bool>(torch->grad_enabled()))
        refuse(object, what);
    if (written) torch->note_write(object);
    return true;
}

}  // namespace rankmesh::python
