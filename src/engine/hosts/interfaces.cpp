// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/shortage.hpp"

namespace rankmesh::detail {
namespace {

using Bytes = std::array<unsigned char, 16>;

/// The bytes of an address given as text, nothing if it is not one of that family.
std::optional<Bytes> bytes_of(int family, const std::string& text) {
    auto bytes = Bytes{};
    return inet_pton(family, text.c_str(), bytes.data()) == 1 ? std::optional(bytes) : std::nullopt;
}

/// The local address from which this host would reach another, "" without a route. Nothing is sent.
std::string source_towards(int family, const std::string& text) {
    auto address = SocketAddress::of(text, 9);
    if (!address || address->family() != family) return {};
    const auto socket = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return {};
    const auto found = ::connect(socket, address->get(), address->size) == 0 &&
                       ::getsockname(socket, address->get(), &address->size) == 0;
    ::close(socket);
    return found ? numeric_text(address->get(), address->size) : "";
}

}  // namespace

bool is_selected(const Interface& interface, const std::string& wanted) {
    if (wanted.empty() || interface.name == wanted) return true;
    const auto slash = wanted.find('/');
    const auto net = bytes_of(interface.family, wanted.substr(0, slash));
    const auto own = bytes_of(interface.family, interface.address);
    if (!net || !own) return false;
    auto bits = interface.family == AF_INET ? 32 : 128;
    if (slash != std::string::npos) {
        const auto given = number_in(std::string_view(wanted).substr(slash + 1));
        if (!given || *given < 0 || *given > bits) return false;
        bits = *given;
    }
    for (int bit = 0; bit < bits; ++bit) {
        const auto byte = static_cast<std::size_t>(bit / 8);
        if ((((*net)[byte] ^ (*own)[byte]) >> (7 - bit % 8)) & 1) return false;
    }
    return true;
}

std::vector<Interface> interfaces(const std::string& wanted) {
    struct Found {
        Interface interface;
        int worth;
    };
    auto found = std::vector<Found>{};
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        throw_if_short(errno);
        return {};
    }
    const auto* master = std::getenv("MASTER_ADDR");
    for (const auto family : {AF_INET, AF_INET6}) {
        const auto towards_master = source_towards(family, master ? master : "");
        // Addresses reserved for documentation: their route is the default route.
        const auto by_default = source_towards(family, family == AF_INET ? "192.0.2.1" : "2001:db8::1");
        for (const auto* each = list; each; each = each->ifa_next) {
            if (!each->ifa_addr || each->ifa_addr->sa_family != family || (each->ifa_flags & IFF_UP) == 0)
                continue;
            auto interface = Interface{.name = each->ifa_name, .address = {}, .family = family};
            interface.loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
            auto of_link = false;
            char text[INET6_ADDRSTRLEN] = {};
            if (family == AF_INET) {
                const auto& address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
                of_link = ntohl(address.s_addr) >> 16 == 0xa9fe;  // 169.254/16
                inet_ntop(family, &address, text, sizeof text);
            } else {
                const auto& address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
                of_link = IN6_IS_ADDR_LINKLOCAL(&address) != 0;
                inet_ntop(family, &address, text, sizeof text);
            }
            interface.address = text;
            interface.outward = !interface.loopback && !of_link;
            if (!is_selected(interface, wanted)) continue;
            auto worth = (each->ifa_flags & IFF_RUNNING) != 0 ? 1 : 0;
            if (interface.address == by_default) worth = 2;
            if (interface.address == towards_master) worth = 3;
            found.push_back({std::move(interface), worth});
        }
    }
    freeifaddrs(list);
    std::ranges::stable_sort(found, std::ranges::greater{}, &Found::worth);
    auto sorted = std::vector<Interface>{};
    for (auto& each : found) sorted.push_back(std::move(each.interface));
    return sorted;
}

std::string to_text(const std::vector<Interface>& interfaces) {
    auto text = std::string{};
    for (const auto& each : interfaces)
        append(text, cat(text.empty() ? "" : ", ", each.name, " ", each.address));
    return text.empty() ? "none" : text;
}

}  // namespace rankmesh::detail
