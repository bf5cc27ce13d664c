// SPDX-License-Identifier: Apache-2.0
// Converts between rankmesh's memory and DLPack's tensors, which PyTorch, JAX, CuPy and NumPy exchange. Works
// with any version of DLPack's header and needs no other library.
#pragma once

#include <dlpack/dlpack.h>

#include <memory>
#include <optional>
#include <utility>

#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/interop/detail/dlpack_impl.hpp>

namespace rankmesh::dlpack {

/// Returns the elements of a tensor as a buffer for any operation. The tensor's owner keeps the memory.
///
/// kDLCPU and kDLCUDAHost are host memory; kDLCUDA and kDLCUDAManaged are device memory. Work that fills
/// device memory must precede the operation on its stream. Throws UsageError for other devices, for types
/// that rankmesh does not have, and for tensors that are not contiguous and row-major.
///
///     void step(Communicator& dp, const DLTensor& grads) { dp.all_reduce(dlpack::memory_of(grads), mean); }
inline Memory<void> memory_of(const DLTensor& tensor) {
    return detail::memory_of({tensor.data,
                              tensor.device.device_type,
                              {tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes},
                              tensor.ndim,
                              tensor.shape,
                              tensor.strides,
                              tensor.byte_offset});
}

#ifdef DLPACK_MAJOR_VERSION
/// Returns the elements of a tensor as a read-only buffer. Throws UsageError like `memory_of(DLTensor)`, and
/// for another major version of DLPack.
inline Memory<const void> const_memory_of(const DLManagedTensorVersioned& tensor) {
    if (tensor.version.major != DLPACK_MAJOR_VERSION)
        detail::wrong_tensor_version(tensor.version.major, DLPACK_MAJOR_VERSION);
    const auto memory = memory_of(tensor.dl_tensor);
    return {memory.data(), memory.size(), memory.dtype(), memory.space()};
}
/// Returns the elements of a tensor as a buffer to read and write. Throws UsageError like `const_memory_of`,
/// and for a tensor marked read-only.
inline Memory<void> memory_of(const DLManagedTensorVersioned& tensor) {
    (void)const_memory_of(tensor);
    if (tensor.flags & DLPACK_FLAG_BITMASK_READ_ONLY) detail::tensor_is_read_only();
    return memory_of(tensor.dl_tensor);
}
#endif

/// Calls the deleter of a tensor if it has one.
struct CallDeleter {
    void operator()(DLManagedTensor* tensor) const {
        if (tensor->deleter) tensor->deleter(tensor);
    }
};
/// A tensor for another library. `release()` transfers ownership to a library that calls the deleter;
/// otherwise the destructor frees the tensor.
using Tensor = std::unique_ptr<DLManagedTensor, CallDeleter>;

struct TensorOptions {
    /// The row-major shape; empty: one dimension, or none for a single element.
    std::vector<std::int64_t> shape = {};
    /// The number of the device that holds the memory. Ignored for host memory, whose number is 0.
    std::optional<int> device = {};
    /// Kept alive until the deleter is called. Without an owner, the memory must outlive the tensor.
    std::shared_ptr<const void> owner = {};
};

/// Returns a tensor that describes a buffer's memory for another library, which may write it.
///
/// Throws UsageError if the shape has another number of elements, and for device memory without a device
/// number.
///
///     auto grads = std::make_shared<std::vector<float>>(6, 1.0f);
///     auto tensor = dlpack::tensor_of(*grads, {.shape = {2, 3}, .owner = grads});
///     EXPECT_EQ(dlpack::memory_of(tensor->dl_tensor).data(), grads->data());
template <OutBuffer B>
    requires Outlives<B> && (!detail::Laid<B>) && (Known<element_t<B>> || std::is_void_v<element_t<B>>)
Tensor tensor_of(B&& buffer, TensorOptions options = {}) {
    struct Lent {
        DLManagedTensor tensor = {};
        std::vector<std::int64_t> shape;
        std::vector<std::int64_t> strides;
        std::shared_ptr<const void> owner;
    };
    detail::check_refusal(buffer, [] { return "a buffer for a tensor"; });
    const auto on_device = detail::space_of(buffer) == Space::device;
    if (on_device && !options.device) detail::device_is_missing();
    const auto size = detail::count_of(buffer);
    auto lent = std::make_unique<Lent>();
    lent->shape = std::move(options.shape);
    if (lent->shape.empty() && !detail::OneElement<B>) lent->shape = {static_cast<std::int64_t>(size)};
    lent->strides = detail::strides_of(lent->shape, size);
    lent->owner = std::move(options.owner);

    const auto type = detail::tensor_type_of(detail::dtype_in(buffer));
    auto& tensor = lent->tensor.dl_tensor;
    tensor.data = detail::data_of(buffer);
    tensor.device = {on_device ? kDLCUDA : kDLCPU, on_device ? *options.device : 0};
    tensor.ndim = static_cast<int>(lent->shape.size());
    tensor.dtype = {type.code, type.bits, type.lanes};
    tensor.shape = lent->shape.data();
    tensor.strides = lent->strides.data();
    lent->tensor.manager_ctx = lent.get();
    lent->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Lent*>(self->manager_ctx); };
    return Tensor(&lent.release()->tensor);
}

}  // namespace rankmesh::dlpack
