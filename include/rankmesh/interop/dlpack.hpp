// SPDX-License-Identifier: Apache-2.0
// Between rankmesh and DLPack, by which PyTorch, JAX, CuPy and NumPy lend each other memory. Any version of
// its header serves, and nothing more than rankmesh is linked.
#pragma once

#include <dlpack/dlpack.h>

#include <memory>
#include <optional>
#include <utility>

#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/interop/detail/dlpack_impl.hpp>

namespace rankmesh::dlpack {

/// The elements of a tensor, as a buffer for any operation; the memory stays the tensor's owner's.
///
/// Tensors on kDLCPU and kDLCUDAHost are memory of the host, those on kDLCUDA and kDLCUDAManaged of a device,
/// where what fills them must come before the operation on its stream. Throws UsageError for other devices,
/// for types that rankmesh does not have, and where elements do not lie one after the other, row by row.
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
/// The same to read only, which any tensor allows; throws UsageError for one of another major version as
/// well.
inline Memory<const void> const_memory_of(const DLManagedTensorVersioned& tensor) {
    if (tensor.version.major != DLPACK_MAJOR_VERSION)
        detail::wrong_tensor_version(tensor.version.major, DLPACK_MAJOR_VERSION);
    const auto memory = memory_of(tensor.dl_tensor);
    return {memory.data(), memory.size(), memory.dtype(), memory.space()};
}
/// The same to read and write; throws UsageError for a tensor marked read-only.
inline Memory<void> memory_of(const DLManagedTensorVersioned& tensor) {
    (void)const_memory_of(tensor);
    if (tensor.flags & DLPACK_FLAG_BITMASK_READ_ONLY) detail::tensor_is_read_only();
    return memory_of(tensor.dl_tensor);
}
#endif

/// Calls the deleter of a tensor, if it has one.
struct CallDeleter {
    void operator()(DLManagedTensor* tensor) const {
        if (tensor->deleter) tensor->deleter(tensor);
    }
};
/// A tensor for another library: `release()` transfers it to one that calls its deleter, else the destructor
/// frees it.
using Tensor = std::unique_ptr<DLManagedTensor, CallDeleter>;

struct TensorOptions {
    /// Row-major. Empty: one dimension, or none for one element.
    std::vector<std::int64_t> shape = {};
    /// The number of the device that holds the memory; that of the host is 0, whatever this says.
    std::optional<int> device = {};
    /// Kept until the deleter is called. Without it the memory must outlive the tensor: it is not the
    /// tensor's.
    std::shared_ptr<const void> owner = {};
};

/// A description of a buffer's memory for another library, which may write it.
///
/// Throws UsageError where the shape does not hold as many elements, and for memory of a device without its
/// number.
///
///     auto grads = std::make_shared<std::vector<float>>(6, 1.0f);
///     auto tensor = dlpack::tensor_of(*grads, {.shape = {2, 3}, .owner = grads});
///     EXPECT_EQ(dlpack::memory_of(tensor->dl_tensor).data(), grads->data());
template <OutBuffer B>
    requires Outlives<B> && (Known<element_t<B>> || std::is_void_v<element_t<B>>)
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
