// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/network.hpp"

#include <arpa/inet.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "engine/gloo/last_words.hpp"

namespace rankmesh::detail {
namespace {

struct Interface {
    std::string name;
    std::string address;
    int family = AF_INET;
    bool loopback = false;
};

/// The interfaces that are up, with addresses that name a host by themselves, IPv4 first.
std::vector<Interface> interfaces() {
    auto found = std::vector<Interface>{};
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return found;
    for (auto family : {AF_INET, AF_INET6})
        for (const auto* each = list; each; each = each->ifa_next) {
            if (!each->ifa_addr || each->ifa_addr->sa_family != family || (each->ifa_flags & IFF_UP) == 0)
                continue;
            char text[INET6_ADDRSTRLEN] = {};
            if (family == AF_INET) {
                const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
                inet_ntop(family, &address->sin_addr, text, sizeof text);
            } else {
                const auto* address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
                if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
                inet_ntop(family, &address->sin6_addr, text, sizeof text);
            }
            found.push_back({each->ifa_name, text, family, (each->ifa_flags & IFF_LOOPBACK) != 0});
        }
    freeifaddrs(list);
    return found;
}

}  // namespace

std::string own_address(const std::string& interface, bool one_host) {
    const auto all = interfaces();
    auto names = std::string{};
    for (const auto& each : all) append(names, cat(names.empty() ? "" : ", ", each.name, " ", each.address));
    if (!interface.empty()) {
        for (const auto& each : all)
            if (each.name == interface) return each.address;
        throw Misuse(
            cat("the network interface '", interface, "' is not up on this host; there are ", names));
    }
    for (const auto& each : all)
        if (each.loopback == one_host) return each.address;
    throw Misuse(cat("no network interface of this host leads to ", one_host ? "itself" : "other hosts",
                     "; there are ", names.empty() ? "none" : names, "; name one with RANKMESH_INTERFACE"));
}

/// A descriptor that is ready as long as it rings.
struct Network::Bell final : ::gloo::transport::tcp::Handler {
    Bell() : descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
    ~Bell() override { close(descriptor); }
    /// A short pause leaves the processor to the others that connect.
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

Network::Network(const std::string& address) : bell_(std::make_unique<Bell>()) {
    // Gloo writes to peers that may be gone; the signal for that would end this process as well.
    struct sigaction action {};
    if (sigaction(SIGPIPE, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
        action.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    install_last_words();
    auto wanted = ::gloo::transport::tcp::attr(address.c_str());
    wanted.ai_family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    device_ = ::gloo::transport::tcp::CreateDevice(wanted);
    if (auto* device = dynamic_cast<::gloo::transport::tcp::Device*>(device_.get()))
        device->registerDescriptor(bell_->descriptor, EPOLLIN, bell_.get());
}

Network::~Network() = default;

Network::Hurry::Hurry(std::shared_ptr<Network> network) : network_(std::move(network)) {
    const auto lock = std::lock_guard(network_->mutex_);
    if (network_->hurries_++ == 0) network_->bell_->ring();
}

Network::Hurry::~Hurry() {
    const auto lock = std::lock_guard(network_->mutex_);
    if (--network_->hurries_ == 0) network_->bell_->stop();
}

}  // namespace rankmesh::detail
