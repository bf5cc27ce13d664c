// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/device.hpp"

#include <algorithm>
#include <chrono>

#include "engine/nccl/comm.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

/// The polling period, to which timeouts are exact.
constexpr auto period = std::chrono::milliseconds(50);
/// The time that the last user of a world waits for peers that still have its communicators.
constexpr auto patience = std::chrono::seconds(10);

NcclDevice::NcclDevice(int number, int rank) : number(number), rank(rank) {}

NcclDevice::~NcclDevice() {
    {
        const auto lock = std::lock_guard(mutex_);
        ending_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    if (buried_.empty()) return;
    const auto& cuda = Libraries::get().cuda;
    cuda.set_device(number);
    const auto until = from_now(patience);
    auto pause = std::chrono::microseconds(10);
    while (!end_the_buried() && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::microseconds(2000));
    }
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

void NcclDevice::retire(std::unique_ptr<NcclComm> comm) {
    if (!comm) return;
    const auto lock = std::lock_guard(mutex_);
    if (!comm->end()) buried_.push_back(std::move(comm));
}

/// True if no communicator is left.
bool NcclDevice::end_the_buried() {
    std::erase_if(buried_, [](const auto& comm) { return comm->end(); });
    return buried_.empty();
}

void NcclDevice::work() {
    Libraries::get().cuda.set_device(number);
    auto lock = std::unique_lock(mutex_);
    while (!changed_.wait_for(lock, period, [this] { return ending_; })) {
        for (auto* watched : watched_) watched->watch();
        end_the_buried();
    }
}

}  // namespace rankmesh::detail
