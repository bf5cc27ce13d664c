// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <string>

#include <rankmesh/core/error.hpp>
#include <rankmesh/interop/detail/dlpack_impl.hpp>

namespace rankmesh::detail {
namespace {

// Values of DLDataTypeCode. Older headers lack bool (added in 0.8) and 8-bit floats (added in 1.1).
constexpr std::uint8_t int_code = 0;
constexpr std::uint8_t uint_code = 1;
constexpr std::uint8_t float_code = 2;
constexpr std::uint8_t bfloat_code = 4;
constexpr std::uint8_t bool_code = 6;
constexpr std::uint8_t e4m3fn_code = 10;
constexpr std::uint8_t e5m2_code = 12;
constexpr std::string_view code_names[] = {"int",
                                           "uint",
                                           "float",
                                           "opaque handle",
                                           "bfloat",
                                           "complex",
                                           "bool",
                                           "float8_e3m4",
                                           "float8_e4m3",
                                           "float8_e4m3b11fnuz",
                                           "float8_e4m3fn",
                                           "float8_e4m3fnuz",
                                           "float8_e5m2",
                                           "float8_e5m2fnuz",
                                           "float8_e8m0fnu",
                                           "float6_e2m3fn",
                                           "float6_e3m2fn",
                                           "float4_e2m1fn"};

/// In the order of DType. byte maps to u8, because u8 comes first.
constexpr TensorType types[] = {{int_code, 8},    {int_code, 16},    {int_code, 32},   {int_code, 64},
                                {uint_code, 8},   {uint_code, 16},   {uint_code, 32},  {uint_code, 64},
                                {bool_code, 8},   {uint_code, 8},    {e4m3fn_code, 8}, {e5m2_code, 8},
                                {float_code, 16}, {bfloat_code, 16}, {float_code, 32}, {float_code, 64}};

std::string name_of(TensorType type) {
    const auto name =
        type.code < std::size(code_names) ? std::string(code_names[type.code]) : cat("type code ", type.code);
    return cat(name, " of ", type.bits, " bits");
}

std::string in_brackets(std::span<const std::int64_t> numbers) {
    auto text = std::string("[");
    for (auto number : numbers) append(text, cat(text.size() > 1 ? ", " : "", number));
    return text + "]";
}

DType dtype_of_tensor(TensorType type) {
    if (type.lanes != 1)
        throw UsageError(cat("a tensor was given whose elements have ", type.lanes, " lanes of ",
                             name_of(type), "; give the lanes as its last dimension"));
    const auto found = std::ranges::find(types, type);
    if (found == std::end(types))
        throw UsageError(
            cat("a tensor of ", name_of(type),
                " was given; what can be carried is int and uint of 8, 16, 32 and 64 bits, bool, "
                "float of 16, 32 and 64, bfloat of 16, float8_e4m3fn and float8_e5m2. View it as "
                "one of these, as uint of 8 bits to move it"));
    return static_cast<DType>(found - std::begin(types));
}

Space space_of_tensor(int device_type) {
    switch (device_type) {
        case 1:  // kDLCPU
        case 3:  // kDLCUDAHost
            return Space::host;
        case 2:   // kDLCUDA
        case 13:  // kDLCUDAManaged: work that fills it is ordered on a stream, like device memory
            return Space::device;
        default:
            throw UsageError(cat("a tensor on device type ", device_type,
                                 " of DLPack was given; ranks work on the host's memory (1 kDLCPU, 3 "
                                 "kDLCUDAHost) and CUDA's (2 kDLCUDA, 13 kDLCUDAManaged): copy it there"));
    }
}

/// Throws UsageError if a length is negative or the bytes cannot be addressed.
std::size_t size_of_shape(std::span<const std::int64_t> shape, std::size_t bytes_each) {
    for (auto length : shape)
        if (length < 0) throw UsageError(cat("the shape ", in_brackets(shape), " has a negative length"));
    if (std::ranges::find(shape, 0) != shape.end()) return 0;
    auto bytes = static_cast<std::int64_t>(bytes_each);
    for (auto length : shape)
        if (__builtin_mul_overflow(bytes, length, &bytes))
            throw UsageError(
                cat("the shape ", in_brackets(shape), " has more elements than memory has room for"));
    return static_cast<std::size_t>(bytes) / bytes_each;
}

/// Returns the row-major strides. Strides of an empty shape have no meaning and may overflow.
std::vector<std::int64_t> row_major(std::span<const std::int64_t> shape) {
    auto strides = std::vector<std::int64_t>(shape.size());
    auto next = std::int64_t{1};
    for (auto i = shape.size(); i-- > 0;) {
        strides[i] = next;
        (void)__builtin_mul_overflow(next, std::max<std::int64_t>(shape[i], 1), &next);
    }
    return strides;
}

/// Strides of dimensions of length 1 are ignored.
void check_strides(std::span<const std::int64_t> shape, const std::int64_t* given) {
    const auto wanted = row_major(shape);
    for (std::size_t i = 0; i < shape.size(); ++i)
        if (shape[i] != 1 && given[i] != wanted[i])
            throw UsageError(cat(
                "a tensor of shape ", in_brackets(shape), " and strides ", in_brackets({given, shape.size()}),
                " was given, whose elements do not lie one after "
                "the other; strides of ",
                in_brackets(wanted), " would do: make it contiguous first, as tensor.contiguous() does"));
}

}  // namespace

Memory<void> memory_of(const TensorView& tensor) {
    const auto dtype = dtype_of_tensor(tensor.type);
    const auto space = space_of_tensor(tensor.device_type);
    if (tensor.dimensions < 0 || (tensor.dimensions > 0 && !tensor.shape))
        throw UsageError(cat("a tensor of ", tensor.dimensions, " dimensions was given, and no shape"));
    const auto shape = std::span(tensor.shape, static_cast<std::size_t>(tensor.dimensions));
    const auto size = size_of_shape(shape, size_of(dtype));
    if (size == 0) return {tensor.data, 0, dtype, space};
    if (tensor.strides) check_strides(shape, tensor.strides);
    if (!tensor.data)
        throw UsageError(cat("a tensor of shape ", in_brackets(shape), " was given without its data"));
    auto* data = static_cast<char*>(tensor.data) + tensor.byte_offset;
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) != 0)
        throw UsageError(cat("a tensor of ", to_string(dtype),
                             " was given that does not begin at a multiple of ", size_of(dtype),
                             " bytes: copy it to where it does"));
    return {data, size, dtype, space};
}

TensorType tensor_type_of(DType dtype) { return types[static_cast<std::size_t>(dtype)]; }

std::vector<std::int64_t> strides_of(std::span<const std::int64_t> shape, std::size_t size) {
    const auto held = size_of_shape(shape, 1);
    if (held != size)
        throw UsageError(
            cat("the shape ", in_brackets(shape), " holds ", held, " elements, and the memory ", size));
    return row_major(shape);
}

void device_is_missing() {
    throw UsageError("memory of a device was given to tensor_of; say in .device which one holds it");
}

void wrong_tensor_version(unsigned what, unsigned known) {
    throw UsageError(cat("a tensor of DLPack ", what, " was given to a program that knows version ", known,
                         "; ask its producer for that one, and call the deleter of this"));
}

void tensor_is_read_only() {
    throw UsageError("a read-only tensor was given to be written; const_memory_of gives it to be read");
}

}  // namespace rankmesh::detail
