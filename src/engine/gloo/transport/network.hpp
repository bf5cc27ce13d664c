// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <mutex>
#include <string>

namespace rankmesh::detail {

/// Gloo's device on one address of this process: one thread that reads and writes for all its channels.
class Network {
public:
    /// The network of that address in this process.
    static std::shared_ptr<Network> on(const std::string& address);
    explicit Network(const std::string& address);
    ~Network();

    const std::shared_ptr<::gloo::transport::Device>& device() const { return device_; }

    /// While one lives, Gloo's thread wakes all the time: otherwise it sleeps for up to 10 ms at a time, and
    /// removing a socket waits until it wakes. Only for as long as sockets are removed: 64 ranks of a host
    /// that stay awake take three processors.
    class FastWakeup {
    public:
        explicit FastWakeup(std::shared_ptr<Network> network);
        ~FastWakeup();
        FastWakeup(const FastWakeup&) = delete;
        FastWakeup& operator=(const FastWakeup&) = delete;

    private:
        const std::shared_ptr<Network> network_;
    };

private:
    struct Wakeup;
    std::unique_ptr<Wakeup> wakeup_;  // outlives the device, whose thread looks at it
    std::shared_ptr<::gloo::transport::Device> device_;
    std::mutex mutex_;
    int fast_wakeups_ = 0;
};

}  // namespace rankmesh::detail
