// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/network.hpp"

#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include <rankmesh/core/error.hpp>

#include "engine/gloo/monitor/terminate_handler.hpp"
#include "engine/shortage.hpp"

namespace rankmesh::detail {

/// A descriptor that is readable while fast wakeups are wanted.
struct Network::Wakeup final : ::gloo::transport::tcp::Handler {
    Wakeup() : descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (descriptor < 0) throw_if_short(errno);
    }
    ~Wakeup() override { close(descriptor); }
    /// A short pause leaves the processor to the other ranks that connect.
    void handleEvents(int) override { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
    void ring() const { static_cast<void>(eventfd_write(descriptor, 1)); }
    void stop() const {
        auto count = eventfd_t{};
        static_cast<void>(eventfd_read(descriptor, &count));
    }
    const int descriptor;
};

std::shared_ptr<Network> Network::on(const std::string& address) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<Network>> networks;
    const auto lock = std::lock_guard(mutex);
    auto& kept = networks[address];
    auto network = kept.lock();
    if (!network) kept = network = std::make_shared<Network>(address);
    return network;
}

Network::Network(const std::string& address) : wakeup_(std::make_unique<Wakeup>()) {
    // Gloo writes to peers that may be gone: SIGPIPE would end this process as well.
    struct sigaction action {};
    if (sigaction(SIGPIPE, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
        action.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    install_terminate_handler();
    auto wanted = ::gloo::transport::tcp::attr(address.c_str());
    wanted.ai_family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    try {
        device_ = ::gloo::transport::tcp::CreateDevice(wanted);
    } catch (const std::exception& error) {
        throw EngineFailure(cat("Gloo cannot use the address ", address,
                                ", or lacks descriptors or threads: ", error.what()));
    }
    if (auto* device = dynamic_cast<::gloo::transport::tcp::Device*>(device_.get()))
        device->registerDescriptor(wakeup_->descriptor, EPOLLIN, wakeup_.get());
}

Network::~Network() = default;

Network::FastWakeup::FastWakeup(std::shared_ptr<Network> network) : network_(std::move(network)) {
    const auto lock = std::lock_guard(network_->mutex_);
    if (network_->fast_wakeups_++ == 0) network_->wakeup_->ring();
}

Network::FastWakeup::~FastWakeup() {
    const auto lock = std::lock_guard(network_->mutex_);
    if (--network_->fast_wakeups_ == 0) network_->wakeup_->stop();
}

}  // namespace rankmesh::detail
