// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/device.h>
#include <netinet/in.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "engine/fork.hpp"

namespace rankmesh::detail {

class Listener;

/// Gloo's device on one address of this process: one thread that reads and writes for all its channels.
class Network final : public OfOneProcess {
public:
    /// The network of that address in this process.
    static std::shared_ptr<Network> on(const std::string& address);
    explicit Network(const std::string& address);
    ~Network() override;

    const std::shared_ptr<::gloo::transport::Device>& device() const { return device_; }
    /// The address, with port 0.
    const sockaddr_storage& address() const { return address_; }

    /// Accepts peers at this address; the same one while somebody has it.
    static std::shared_ptr<Listener> listener_of(const std::shared_ptr<Network>& network);

    /// Lets Gloo's thread take a step, and waits for it; throws what it throws. There a socket is removed at
    /// once, elsewhere only when that thread wakes; but what other threads use must not be waited for there.
    void run(const std::function<void()>& step);

    /// Of a world whose connections use this network, `ranks` are on this host.
    void expect(int ranks) {
        if (std::cmp_greater(ranks, std::thread::hardware_concurrency())) has_processors_ = false;
    }
    /// False if a world had more ranks on this host than the host has processors.
    bool has_processors() const { return has_processors_; }

    /// While one lives, Gloo's thread wakes all the time: otherwise it sleeps for up to 10 ms at a time, and
    /// removing a socket waits until it wakes. Only for as long as sockets are removed: 64 ranks of a host
    /// that stay awake take three processors.
    class FastWakeup {
    public:
        explicit FastWakeup(std::shared_ptr<Network> network);
        ~FastWakeup();
        FastWakeup& operator=(FastWakeup&&) = delete;

    private:
        const std::shared_ptr<Network> network_;
    };

private:
    struct Wakeup;
    struct Wakeups;
    struct Step;
    // These outlive the device, whose thread looks at them.
    std::unique_ptr<Wakeups> wakeups_;
    std::unique_ptr<Step> step_;
    std::shared_ptr<::gloo::transport::Device> device_;
    sockaddr_storage address_ = {};
    std::mutex mutex_;
    std::weak_ptr<Listener> listener_;
    int fast_wakeups_ = 0;
    std::atomic<bool> has_processors_ = true;
};

}  // namespace rankmesh::detail
