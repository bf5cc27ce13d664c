// SPDX-License-Identifier: Apache-2.0
// Streams of fake devices: each runs its tasks later, in order, on a thread of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace fake_cuda {

/// Something that happens once.
class Mark {
public:
    void happen();
    bool happened() const;
    void wait() const;
    /// False if it does not happen before `until`.
    bool wait_until(std::chrono::steady_clock::time_point until) const;

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool happened_ = false;
};

class Stream;

/// The stream of a handle, for the null handle that of the current device; null where there is none.
std::shared_ptr<Stream> stream_of(cudaStream_t handle);
int device_of(const Stream& stream);

/// Has a task run after what is on the stream, and, by the rules of the null stream, on others of its device.
std::shared_ptr<Mark> enqueue(const std::shared_ptr<Stream>& stream, std::function<void()> task);
/// Blocks until all streams of a device are done.
void synchronize(int device);

/// A kernel that runs on a device as long as this lives.
class Kernel {
public:
    explicit Kernel(int device);
    ~Kernel();
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

private:
    std::uint64_t number_;
};
/// Where FAKE_PEERS says that devices reach each other's memory: waits for the kernels that run on the
/// others.
void wait_for_peers(const char* call);

/// A call that the real library prohibits during a capture, which it invalidates, is a violation.
void demand_no_capture(const char* call);

}  // namespace fake_cuda
