// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/network.hpp"

#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <exception>

#include <rankmesh/core/error.hpp>

#include "engine/gloo/monitor/terminate_handler.hpp"
#include "engine/gloo/transport/listener.hpp"
#include "engine/system.hpp"

namespace rankmesh::detail {

/// A descriptor by which Gloo's thread is woken.
struct Network::Wakeup : ::gloo::transport::tcp::Handler {
    Wakeup() : descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (descriptor < 0) throw_if_short(errno);
    }
    ~Wakeup() override { close(descriptor); }
    void ring() const { static_cast<void>(eventfd_write(descriptor, 1)); }
    void stop() const {
        auto count = eventfd_t{};
        static_cast<void>(eventfd_read(descriptor, &count));
    }
    const int descriptor;
};

/// Wakes it again and again until it is stopped.
struct Network::Wakeups final : Wakeup {
    /// A short pause leaves the processor to the other ranks that connect.
    void handleEvents(int) override { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
};

/// Lets it take a step of another thread.
struct Network::Step final : Wakeup {
    void handleEvents(int) override {
        stop();
        const auto lock = std::lock_guard(mutex);
        try {
            if (next) (*next)();
        } catch (...) {
            error = std::current_exception();
        }
        next = nullptr;
        taken.notify_one();
    }
    void take(const std::function<void()>& step) {
        const auto one_by_one = std::lock_guard(turn);
        auto lock = std::unique_lock(mutex);
        next = &step;
        ring();
        taken.wait(lock, [&] { return !next; });
        if (error) std::rethrow_exception(std::exchange(error, nullptr));
    }

    std::mutex turn;
    std::mutex mutex;  // of what follows
    std::condition_variable taken;
    const std::function<void()>* next = nullptr;
    std::exception_ptr error;
};

std::shared_ptr<Network> Network::on(const std::string& address) {
    static std::map<std::string, std::weak_ptr<Network>> networks;
    const auto lock = std::lock_guard(process_mutex());
    auto& kept = networks[address];
    auto network = kept.lock();
    // A child that a process forks has that process's network, but not its thread.
    if (!network || network->is_foreign()) kept = network = std::make_shared<Network>(address);
    return network;
}

Network::Network(const std::string& address)
    : wakeups_(std::make_unique<Wakeups>()), step_(std::make_unique<Step>()) {
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
    auto hints = addrinfo{};
    hints.ai_family = wanted.ai_family;
    hints.ai_flags = AI_NUMERICHOST;
    auto* found = static_cast<addrinfo*>(nullptr);
    if (const auto error = getaddrinfo(address.c_str(), nullptr, &hints, &found); error != 0)
        throw EngineFailure(cat("Gloo cannot use the address ", address, ": ", gai_strerror(error)));
    std::memcpy(&address_, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (auto* device = dynamic_cast<::gloo::transport::tcp::Device*>(device_.get()))
        for (auto* wakeup : {static_cast<Wakeup*>(wakeups_.get()), static_cast<Wakeup*>(step_.get())})
            device->registerDescriptor(wakeup->descriptor, EPOLLIN, wakeup);
}

Network::~Network() = default;

std::shared_ptr<Listener> Network::listener_of(const std::shared_ptr<Network>& network) {
    const auto lock = std::lock_guard(network->mutex_);
    auto listener = network->listener_.lock();
    if (!listener) network->listener_ = listener = std::make_shared<Listener>(network);
    return listener;
}

void Network::run(const std::function<void()>& step) { step_->take(step); }

Network::FastWakeup::FastWakeup(std::shared_ptr<Network> network) : network_(std::move(network)) {
    const auto lock = std::lock_guard(network_->mutex_);
    if (network_->fast_wakeups_++ == 0) network_->wakeups_->ring();
}

Network::FastWakeup::~FastWakeup() {
    const auto lock = std::lock_guard(network_->mutex_);
    if (--network_->fast_wakeups_ == 0) network_->wakeups_->stop();
}

}  // namespace rankmesh::detail
