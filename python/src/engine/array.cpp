// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>
#include <optional>

#include <nanobind/ndarray.h>

#include "engine/engine.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;

struct Element {
    DType dtype;
    std::size_t unit = 1;
};

std::optional<Element> integer(bool is_signed, std::size_t bytes) {
    if (bytes > 8 || !std::has_single_bit(bytes)) return std::nullopt;
    const auto first = static_cast<int>(is_signed ? DType::i8 : DType::u8);
    return Element{static_cast<DType>(first + std::countr_zero(bytes))};
}

std::optional<Element> floating(std::size_t bytes) {
    if (bytes == 2) return Element{DType::f16};
    if (bytes == 4) return Element{DType::f32};
    if (bytes == 8) return Element{DType::f64};
    return std::nullopt;
}

std::optional<Element> complex(std::size_t bytes) {
    auto element = floating(bytes / 2);
    if (!element || bytes < 8) return std::nullopt;
    element->unit = 2;
    return element;
}

/// Returns the type of a format of the struct module, which the buffer protocol uses.
std::optional<Element> element_of(std::string_view format, std::size_t bytes) {
    if (format.empty()) format = "B";
    if (format.front() == '@' || format.front() == '=' || format.front() == '<') format.remove_prefix(1);
    if (format.size() == 2 && format[0] == 'Z') return complex(bytes);
    if (format.size() != 1) return std::nullopt;
    const auto is_one_of = [&](std::string_view letters) { return letters.find(format[0]) != letters.npos; };
    // ctypes uses the format of a byte for types that it cannot describe.
    if (is_one_of("?cbB") && bytes != 1) return std::nullopt;
    if (is_one_of("?")) return Element{DType::boolean};
    if (is_one_of("c")) return Element{DType::byte};
    if (is_one_of("bhilqn")) return integer(true, bytes);
    if (is_one_of("BHILQN")) return integer(false, bytes);
    return is_one_of("efd") ? floating(bytes) : std::nullopt;
}

/// Returns the type of a DLPack element.
std::optional<Element> element_of(const nb::dlpack::dtype& type) {
    const auto bytes = std::size_t{type.bits} / 8;
    if (type.lanes != 1 || bytes == 0) return std::nullopt;
    using enum nb::dlpack::dtype_code;
    const auto is = [&](nb::dlpack::dtype_code code) { return type.code == static_cast<std::uint8_t>(code); };
    if (is(Int) || is(UInt)) return integer(is(Int), bytes);
    if (is(Float)) return floating(bytes);
    if (is(Complex)) return complex(bytes);
    if (is(Bfloat) && bytes == 2) return Element{DType::bf16};
    if (is(Bool) && bytes == 1) return Element{DType::boolean};
    if (is(Float8_E4M3FN)) return Element{DType::f8e4m3};
    if (is(Float8_E5M2)) return Element{DType::f8e5m2};
    return std::nullopt;
}

using Dimensions = std::vector<detail::MemoryLayout::Dimension>;

/// Returns the layout of an array; null if it is contiguous and row-major. Strides are in bytes.
template <class Shape, class Strides>
std::shared_ptr<const detail::MemoryLayout> layout_of(std::size_t dimensions, const Shape& shape,
                                                      const Strides& strides, std::size_t bytes,
                                                      Dimensions* all) {
    auto plain = static_cast<std::int64_t>(bytes);
    auto fits = true;
    auto is_empty = false;
    for (auto i = dimensions; i-- > 0;) {
        is_empty = is_empty || shape(i) == 0;
        fits = fits && (shape(i) == 1 || strides(i) == plain);
        plain *= shape(i);
    }
    for (std::size_t i = 0; all && i < dimensions; ++i) all->push_back({shape(i), strides(i)});
    if (fits || is_empty) return nullptr;
    auto layout = detail::MemoryLayout(bytes);
    for (std::size_t i = 0; i < dimensions; ++i) add_dimension(layout, shape(i), strides(i));
    end_dimensions(layout);
    return std::make_shared<const detail::MemoryLayout>(layout);
}

[[noreturn]] void throw_read_only(std::string_view what) {
    throw UsageError(cat(what, " is read-only; pass an array that can be written"));
}
[[noreturn]] void throw_type(std::string_view what, nb::handle object) {
    const nb::object type =
        nb::hasattr(object, "dtype") ? object.attr("dtype") : object.type().attr("__name__");
    throw UsageError(
        cat(what, " has elements of ", text_with(type, PyObject_Str, "a type without a name"),
            "; engines move bool, integers and floats of at most 64 bits and complex of at most 128, in "
            "the machine's byte order: view it as one of these"));
}

/// Keeps a Python object alive until it is destroyed, on any thread.
template <class T>
std::shared_ptr<void> kept(std::unique_ptr<T> held) {
    return std::shared_ptr<void>(held.release(), [](void* held) {
        if (!nb::is_alive()) return;
        const auto gil = nb::gil_scoped_acquire();
        delete static_cast<T*>(held);
    });
}

struct Lent {
    Py_buffer buffer{};
    ~Lent() { PyBuffer_Release(&buffer); }
};

std::optional<Array> from_buffer(nb::handle object, std::string_view what, bool written,
                                 Dimensions* dimensions) {
    if (!PyObject_CheckBuffer(object.ptr())) return std::nullopt;
    auto lent = std::make_unique<Lent>();
    if (PyObject_GetBuffer(object.ptr(), &lent->buffer, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
        auto error = nb::python_error();
        if (!error.matches(PyExc_Exception)) throw error;
        if (nb::hasattr(object, "dtype")) return std::nullopt;  // DLPack may know its type
        throw UsageError(cat(what, " lends no memory: ", text_with(error.value(), PyObject_Str, "")));
    }
    const auto& buffer = lent->buffer;
    const auto bytes = static_cast<std::size_t>(buffer.itemsize);
    const auto element = element_of(buffer.format ? buffer.format : "", bytes);
    if (!element) throw_type(what, object);
    auto layout = std::shared_ptr<const detail::MemoryLayout>{};
    if (buffer.shape && buffer.strides)  // otherwise the buffer is contiguous
        layout = layout_of(
            static_cast<std::size_t>(buffer.ndim), [&](std::size_t i) { return buffer.shape[i]; },
            [&](std::size_t i) { return buffer.strides[i]; }, bytes, dimensions);
    if (written && buffer.readonly) throw_read_only(what);
    const auto count = static_cast<std::size_t>(buffer.len) / bytes * element->unit;
    auto* data = buffer.buf;
    return Array{{data, count, element->dtype, element->unit}, kept(std::move(lent)), std::move(layout)};
}

Array from_dlpack(nb::handle object, std::string_view what, bool check_writable, Dimensions* dimensions) {
    using Readable = nb::ndarray<nb::ro>;
    auto tensor = std::make_unique<Readable>();
    const auto is_tensor = nb::hasattr(object, "__dlpack__");
    if (is_tensor && !nb::try_cast(object, *tensor)) {
        if (PyErr_Occurred()) {
            auto error = nb::python_error();
            if (!error.matches(PyExc_Exception)) throw error;
        }
        throw_type(what, object);
    }
    if (!is_tensor)
        throw TypeFault(
            cat(what, " is ", described(object),
                "; it must be a NumPy array, a tensor, or an object with the buffer protocol or DLPack"));
    if (tensor->device_type() != nb::device::cpu::value)
        throw UsageError(cat(what, " lies on device ", tensor->device_id(), " of DLPack's type ",
                             tensor->device_type(),
                             "; this world moves memory of the host: pass a copy on the CPU"));
    const auto element = element_of(tensor->dtype());
    if (!element) throw_type(what, object);
    const auto bytes = static_cast<std::int64_t>(tensor->itemsize());
    auto layout = layout_of(
        tensor->ndim(), [&](std::size_t i) { return static_cast<std::int64_t>(tensor->shape(i)); },
        [&](std::size_t i) { return tensor->stride(i) * bytes; }, tensor->itemsize(), dimensions);
    if (check_writable) {
        auto writable = nb::ndarray<>();
        if (!nb::try_cast(object, writable)) {
            PyErr_Clear();
            throw_read_only(what);
        }
    }
    auto* data = const_cast<void*>(static_cast<const void*>(tensor->data()));
    const auto count = tensor->size() * element->unit;
    return Array{{data, count, element->dtype, element->unit}, kept(std::move(tensor)), std::move(layout)};
}

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

/// Returns true for a torch tensor, which is then dense host memory. If it is `written`, counts the write for
/// autograd. Imports nothing, because a process without torch has no tensors.
///
/// Throws UsageError for other torch tensors, and for masked arrays of NumPy, whose memory is not their
/// elements.
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

Array found(nb::handle object, std::string_view what, bool written, Dimensions* dimensions = nullptr) {
    if (is_plain_tensor(object, what, written)) return from_dlpack(object, what, false, dimensions);
    if (auto array = from_buffer(object, what, written, dimensions)) return std::move(*array);
    return from_dlpack(object, what, written, dimensions);
}

}  // namespace

Array array_of(nb::handle object, std::string_view what, bool written) {
    return found(object, what, written);
}

Array contiguous_array_of(nb::handle object, std::string_view what, bool written) {
    auto dimensions = Dimensions{};
    auto array = found(object, what, written, &dimensions);
    if (!array.layout) return array;
    auto text = std::string{};
    const auto bytes = static_cast<std::ptrdiff_t>(size_of(array.dtype) * array.unit);
    for (const auto& of : dimensions) text += cat(text.empty() ? "" : ", ", of.stride / bytes);
    throw UsageError(cat(what, " has strides of (", text,
                         ") elements; its elements must lie one after the other: pass a contiguous copy, as "
                         "numpy.ascontiguousarray and Tensor.contiguous make"));
}

FieldArray field_of(nb::handle object, std::string_view what) {
    auto field = FieldArray{};
    static_cast<Array&>(field) = found(object, what, true, &field.dimensions);
    return field;
}

}  // namespace rankmesh::python
