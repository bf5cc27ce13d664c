// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/hosts.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <set>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/text.hpp>

#include "engine/hosts/host_lines.hpp"
#include "engine/hosts/local_processes.hpp"
#include "engine/shortage.hpp"

namespace rankmesh::detail {
namespace {

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
