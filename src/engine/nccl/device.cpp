// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

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

void NcclDevice::add(Watched& watched) {
    const auto lock = std::lock_guard(mutex_);
    watched_.push_back(&watched);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
}

void NcclDevice::remove(Watched& watched) {
    const auto lock = std::lock_guard(mutex_);
    std::erase(watched_, &watched);
}

void NcclDevice::work() {
    Libraries::get().cuda.set_device(number);
    auto lock = std::unique_lock(mutex_);
    while (!changed_.wait_for(lock, period, [this] { return ending_; }))
        for (auto* watched : watched_) watched->watch();
}

}  // namespace rankmesh::detail
