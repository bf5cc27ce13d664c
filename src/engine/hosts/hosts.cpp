// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/hosts.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

#include "engine/hosts/local_processes.hpp"
#include "engine/hosts/sockets.hpp"
#include "engine/system.hpp"

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

/// An id of this process's network namespace and boot: equal for two processes exactly where each reaches the
/// other by loopback. Host names do not tell: containers may share one, and one kernel can have many
/// networks.
std::string network_of_this_process(const std::string& host) {
    auto boot = std::string{};
    errno = 0;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    if (boot.empty()) throw_if_short(errno);
    char space[64] = {};
    // Without these files, hosts are told apart by name only.
    const auto known = !boot.empty() && readlink("/proc/self/ns/net", space, sizeof space - 1) > 0;
    return cat(std::hash<std::string>{}(known ? cat(boot, space) : host));
}

std::string ranks_text(const std::vector<HostLine>& lines, const std::string& families) {
    auto ranks = std::vector<int>{};
    for (const auto& each : lines)
        if (each.families == families) ranks.push_back(each.rank);
    return ranks_to_string(ranks);
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

Hosts::Hosts(int rank, std::string host, std::string interface)
    : host_(std::move(host)), wanted_(std::move(interface)), meant_(interfaces(wanted_)) {
    auto families = std::string{};
    for (const auto& [family, sign] : {std::pair{AF_INET, '4'}, std::pair{AF_INET6, '6'}})
        if (std::ranges::any_of(meant_, [family = family](const auto& each) {
                return each.outward && each.family == family;
            }))
            families += sign;
    line_ = HostLine{rank, network_of_this_process(host_), families.empty() ? "-" : families,
                     id_of_this_process(), host_}
                .text();
}

std::vector<int> Hosts::local_ranks(const std::string& lines) const {
    auto ranks = std::vector<int>{};
    for (const auto& each : read_host_lines(lines))
        if (each.host == host_) ranks.push_back(each.rank);
    return ranks;
}

std::string Hosts::address(const std::string& lines) const {
    const auto all = read_host_lines(lines);
    auto networks = std::set<std::string>{};
    for (const auto& each : all) networks.insert(each.network);
    const auto together = networks.size() == 1;
    if (meant_.empty())
        throw UsageError(cat("no network interface that is up on this host is '", wanted_,
                             "' by its name, address or subnet; there are ", to_text(interfaces(""))));
    // On one host any address works, and loopback is the fastest.
    if (together)
        for (const auto& each : meant_)
            if (each.loopback || (each.outward && !wanted_.empty())) return each.address;

    auto common = std::string("46");
    for (const auto& each : all)
        std::erase_if(common, [&](char family) { return each.families.find(family) == std::string::npos; });
    for (const auto& each : meant_)
        if (each.outward && !common.empty() && each.family == (common.front() == '4' ? AF_INET : AF_INET6))
            return each.address;
    if (std::ranges::none_of(meant_, &Interface::outward))
        throw UsageError(
            cat("the ranks are in ", networks.size(), " networks, and no network interface of host '", host_,
                "' ", wanted_.empty() ? "" : cat("that is '", wanted_, "' "), "leads to others; there are ",
                to_text(interfaces("")), "; name one with RANKMESH_INTERFACE"));
    for (const auto& each : all)
        if (each.families == "-")
            throw UsageError(
                cat("rank ", each.rank, " on host '", each.host,
                    "' has no network interface that leads to others; name one with RANKMESH_INTERFACE "
                    "there"));
    throw UsageError(
        cat("the ranks have no kind of network address in common: ", ranks_text(all, "4"),
            " have IPv4 only, ", ranks_text(all, "6"),
            " IPv6 only; name interfaces of one kind with RANKMESH_INTERFACE, or give addresses of both "
            "kinds"));
}

}  // namespace rankmesh::detail
