// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_url.hpp"

#include <algorithm>

#include <rankmesh/core/error.hpp>

#include "engine/store/url.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto tcp_form =
    "write tcp://HOST:PORT with a port of rank 0's host that is free, such as tcp://10.0.0.1:29511";
constexpr auto most_ports = 64;

}  // namespace

TcpUrl TcpUrl::parse(std::string_view url) {
    // The text is not repeated in the error, since it may be a secret.
    if (url.find_first_of("@?#") != url.npos)
        throw UsageError(
            cat("the URL of the store says more than a host and a port; others could read it there, so a "
                "secret comes from RANKMESH_SECRET or the file RANKMESH_SECRET_FILE; ",
                tcp_form));
    if (url.find(',') != url.npos)
        throw UsageError(
            cat("the store '", url,
                "' names more than one host, and rank 0 serves it at one; to outlive rank 0, set "
                "RANKMESH_STORE to a folder that all ranks see, or to redis://HOST:PORT"));
    constexpr auto begin = std::string_view("tcp://");
    if (!url.starts_with(begin)) throw UsageError(cat("the store '", url, "' is no URL; ", tcp_form));
    auto rest = url.substr(begin.size());
    if (rest.ends_with('/')) rest.remove_suffix(1);
    if (rest.find('/') != rest.npos)
        throw UsageError(cat("the store '", url, "' says more than a host and a port; ", tcp_form));
    const auto address = HostAndPort::parse(url, rest, tcp_form);
    if (!address.port) throw UsageError(cat("the store '", url, "' names no port; ", tcp_form));
    auto parsed = TcpUrl{.host = address.host};
    const auto dash = address.port->find('-');
    const auto first = address.port->substr(0, dash);
    parsed.first_port = parsed.last_port = number_in_url(url, "port", first, 1, 65535, tcp_form);
    if (dash != address.port->npos)
        parsed.last_port = number_in_url(url, "last port", address.port->substr(dash + 1), parsed.first_port,
                                         std::min(parsed.first_port + most_ports - 1, 65535), tcp_form);
    return parsed;
}

TcpUrl TcpUrl::beside(const std::string& master_address, int master_port) {
    constexpr auto distance = 11;
    constexpr auto count = 8;
    const auto first = master_port + distance + count - 1 <= 65535 ? master_port + distance
                                                                   : master_port - distance - count + 1;
    return {.host = master_address, .first_port = first, .last_port = first + count - 1};
}

std::string TcpUrl::text(int port) const { return cat("tcp://", host_in_url(host), ":", port); }

std::string TcpUrl::ports() const {
    return first_port == last_port ? cat(first_port) : cat(first_port, "-", last_port);
}

std::string TcpUrl::text() const { return cat("tcp://", host_in_url(host), ":", ports()); }

}  // namespace rankmesh::detail
