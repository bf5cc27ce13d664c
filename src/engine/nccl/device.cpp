// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/device.hpp"

#include <map>
#include <utility>

#include <rankmesh/engine/nccl_array.hpp>

#include "engine/nccl/channel.hpp"
#include "engine/nccl/library.hpp"

namespace rankmesh::detail {

/// The polling period, to which timeouts are exact.
constexpr auto period = std::chrono::milliseconds(50);

namespace {

/// Of one device, whichever worlds use it.
std::mutex& enqueuing_on(int device) {
    static auto& mutex = *new std::mutex();
    static auto& all = *new std::map<int, std::mutex>();
    const auto lock = std::lock_guard(mutex);
    return all[device];
}

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

NcclDevice::NcclDevice(int number, int rank, std::shared_ptr<NcclReaper> reaper)
    : number(number),
      rank(rank),
      reaper_(reaper ? std::move(reaper) : std::make_shared<NcclReaper>(number)),
      enqueuing_(enqueuing_on(number)) {
    use();
    const auto& cuda = Libraries::get().cuda;
    cuda.check(cuda.malloc(&word_, sizeof(std::int32_t)), "cudaMalloc");
}

NcclDevice::~NcclDevice() {
    {
        const auto lock = std::lock_guard(mutex_);
        ending_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    reaper_->free_last(word_);
}

void NcclDevice::use() const {
    const auto& cuda = Libraries::get().cuda;
    cuda.check(cuda.set_device(number), "cudaSetDevice");
}

void NcclDevice::work() {
    Libraries::get().cuda.set_device(number);
    auto lock = std::unique_lock(mutex_);
    while (!changed_.wait_for(lock, period, [this] { return ending_; }))
        for (auto* channel : watched_) channel->watch();
}

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
