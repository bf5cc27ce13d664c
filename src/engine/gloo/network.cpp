// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/network.hpp"

#include <arpa/inet.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <map>
#include <mutex>
#include <vector>

#include <rankmesh/core/error.hpp>

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
        throw Misuse(cat("the network interface '", interface, "' is not up on this host; there are ", names));
    }
    for (const auto& each : all)
        if (each.loopback == one_host) return each.address;
    throw Misuse(cat("no network interface of this host leads to ", one_host ? "itself" : "other hosts",
                     "; there are ", names.empty() ? "none" : names, "; name one with RANKMESH_INTERFACE"));
}

std::shared_ptr<::gloo::transport::Device> device_on(const std::string& address) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<::gloo::transport::Device>> devices;
    const auto lock = std::lock_guard(mutex);
    auto& kept = devices[address];
    auto device = kept.lock();
    if (!device) {
        auto wanted = ::gloo::transport::tcp::attr(address.c_str());
        wanted.ai_family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
        kept = device = ::gloo::transport::tcp::CreateDevice(wanted);
    }
    return device;
}

}  // namespace rankmesh::detail
