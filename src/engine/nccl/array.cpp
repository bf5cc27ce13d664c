// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/nccl_array.hpp>

#include "engine/nccl/library.hpp"

namespace rankmesh::detail {
namespace {

const Cuda& cuda_on(int device) {
    const auto& cuda = Libraries::get().cuda;
    cuda.check(cuda.set_device(device), "cudaSetDevice");
    return cuda;
}

void copy(int device, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    const auto& cuda = cuda_on(device);
    if (bytes > 0) cuda.check(cuda.memcpy(to, from, bytes, kind), "cudaMemcpy");
}

}  // namespace

std::shared_ptr<void> allocate_on_device(int device, std::size_t bytes) {
    const auto& cuda = cuda_on(device);
    auto* made = static_cast<void*>(nullptr);
    cuda.check(cuda.malloc(&made, bytes), cat("cudaMalloc of ", bytes, " bytes on device ", device).c_str());
    return {made, [&cuda](void* memory) { cuda.free(memory); }};
}

void copy_to_device(int device, void* to, const void* from, std::size_t bytes) {
    copy(device, to, from, bytes, cudaMemcpyHostToDevice);
}

void copy_to_host(int device, void* to, const void* from, std::size_t bytes) {
    copy(device, to, from, bytes, cudaMemcpyDeviceToHost);
}

}  // namespace rankmesh::detail
