// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "engine/nccl/reaper.hpp"

namespace rankmesh::detail {

class NcclChannel;

/// The device of one rank, shared by its channels, and a thread that polls their works in flight. That thread
/// enforces timeouts, so it makes no call that blocks.
class NcclDevice {
public:
    /// Device `number` of those that the process sees, of rank `rank` of the world.
    ///
    /// It is created before the ranks agree on their devices, and then has all the memory of the device that
    /// channels need: with peers in the same process cudaMalloc waits for their kernels.
    NcclDevice(int number, int rank, std::shared_ptr<NcclReaper> reaper = nullptr);
    /// Waits a while for the peers of communicators that are being finalised.
    ~NcclDevice();
    NcclDevice& operator=(NcclDevice&&) = delete;

    /// Makes it the device of this thread.
    void use() const;

    void add(NcclChannel& channel) {
        const auto lock = std::lock_guard(mutex_);
        watched_.push_back(&channel);
        if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    }
    /// Stops polling it; returns once the thread does not use it.
    void remove(NcclChannel& channel) {
        const auto lock = std::lock_guard(mutex_);
        std::erase(watched_, &channel);
    }
    const std::shared_ptr<NcclReaper>& reaper() const { return reaper_; }
    /// One i32 of the device's memory, for the barriers of all channels: nobody reads it.
    void* word() const { return word_; }
    /// Held while calls are enqueued on the device: NCCL forbids that two threads do so at a time.
    std::mutex& enqueuing() const { return enqueuing_; }

    const int number;
    const int rank;

private:
    void work();

    const std::shared_ptr<NcclReaper> reaper_;
    std::mutex& enqueuing_;
    void* word_ = nullptr;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<NcclChannel*> watched_;
    bool ending_ = false;
    std::thread thread_;  // started with the first object that is polled
};

}  // namespace rankmesh::detail
