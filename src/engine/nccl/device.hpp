// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rankmesh::detail {

/// An object that the device's thread polls during its lifetime.
class Watched {
public:
    virtual void watch() noexcept = 0;

protected:
    ~Watched() = default;
};

class NcclComm;

/// The device of one rank, shared by its channels, and a thread that polls their works in flight and
/// finalises communicators that are no longer used.
class NcclDevice {
public:
    /// Device `number` of those that the process sees, of rank `rank` of the world.
    NcclDevice(int number, int rank);
    /// Waits a while for the peers of communicators that are being finalised.
    ~NcclDevice();
    NcclDevice(const NcclDevice&) = delete;
    NcclDevice& operator=(const NcclDevice&) = delete;

    /// Makes it the device of this thread.
    void use() const;

    void add(Watched& watched);
    /// Stops polling it; returns once the thread does not use it.
    void remove(Watched& watched);
    /// Finalises it when its other ranks do, in whatever order they release theirs.
    void retire(std::unique_ptr<NcclComm> comm);

    const int number;
    const int rank;

private:
    void work();
    bool end_the_buried();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Watched*> watched_;
    std::vector<std::unique_ptr<NcclComm>> buried_;
    bool ending_ = false;
    std::thread thread_;  // started with the first object that is polled
};

}  // namespace rankmesh::detail
