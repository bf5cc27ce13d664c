// SPDX-License-Identifier: Apache-2.0
// What <rankmesh/interop/dlpack.hpp> asks of the library, in types that no version of DLPack declares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/device.hpp>

namespace rankmesh::detail {

/// The element type of a tensor, by DLPack's numbers, which are the same in all its versions.
struct TensorType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes = 1;
    friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// What a tensor says of itself.
struct TensorView {
    void* data;
    int device_type;
    TensorType type;
    int dimensions;
    const std::int64_t* shape;
    const std::int64_t* strides;  // in elements; null: row-major
    std::uint64_t byte_offset;
};

/// Throws UsageError for what is no memory that an operation can be given.
RANKMESH_EXPORT Memory<void> memory_of(const TensorView& tensor);

RANKMESH_EXPORT TensorType tensor_type_of(DType dtype);
/// The strides of a row-major tensor; throws UsageError where its shape does not hold `size` elements.
RANKMESH_EXPORT std::vector<std::int64_t> strides_of(std::span<const std::int64_t> shape, std::size_t size);
[[noreturn]] RANKMESH_EXPORT void device_is_missing();
/// `what` is the version of a tensor, `known` that of the header.
[[noreturn]] RANKMESH_EXPORT void wrong_tensor_version(unsigned what, unsigned known);
[[noreturn]] RANKMESH_EXPORT void tensor_is_read_only();

}  // namespace rankmesh::detail
