// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rankmesh::detail {

/// What is looked at again and again while it lives.
class Watched {
public:
    virtual void watch() noexcept = 0;

protected:
    ~Watched() = default;
};

class NcclComm;

/// What the channels of one rank share: its device, and a thread that looks after what is in flight there and
/// ends communicators that nobody has any more.
class NcclDevice {
public:
    /// Device `number` of those that the process sees, of rank `rank` of the world.
    NcclDevice(int number, int rank);
    /// Waits a while for the peers of communicators that are ending.
    ~NcclDevice();
    NcclDevice(const NcclDevice&) = delete;
    NcclDevice& operator=(const NcclDevice&) = delete;

    /// Makes it the device of this thread.
    void use() const;

    void add(Watched& watched);
    /// Returns once it is not looked at.
    void remove(Watched& watched);
    /// Ends it when its other ranks do, whatever order they drop theirs in.
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
    std::thread thread_;  // from the first that is to be watched
};

}  // namespace rankmesh::detail
