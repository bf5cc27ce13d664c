// SPDX-License-Identifier: Apache-2.0
#include "engine/store/url.hpp"

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::detail {

bool is_url(std::string_view store) {
    return store.find("://") != store.npos || store.starts_with("redis:") || store.starts_with("rediss:") ||
           store.starts_with("tcp:");
}

int number_in_url(std::string_view url, std::string_view what, std::string_view text, int least, int most,
                  std::string_view form) {
    const auto value = number_in(text);
    if (!value || *value < least || *value > most)
        throw UsageError(cat("the store '", url, "' has the ", what, " '", text,
                             "', which is no whole number of ", least, " to ", most, "; ", form));
    return *value;
}

HostAndPort HostAndPort::parse(std::string_view url, std::string_view text, std::string_view form) {
    auto parsed = HostAndPort{};
    auto end = text.find(':');
    if (text.starts_with('[')) {
        const auto bracket = text.find(']');
        if (bracket == text.npos)
            throw UsageError(cat("the store '", url, "' has a '[' without a ']'; ", form));
        parsed.host = text.substr(1, bracket - 1);
        end = bracket + 1;
        if (end < text.size() && text[end] != ':')
            throw UsageError(
                cat("the store '", url, "' has '", text.substr(end), "' behind the address; ", form));
    } else {
        if (end != text.rfind(':'))
            throw UsageError(cat("the store '", url, "' has more than one ':' in '", text,
                                 "'; an IPv6 address stands in brackets, such as ",
                                 url.substr(0, url.find(':')), "://[::1]:6379"));
        parsed.host = text.substr(0, end);
    }
    if (parsed.host.find_first_of("[]") != parsed.host.npos)
        throw UsageError(
            cat("the store '", url, "' has a '[' or ']' inside its host '", parsed.host, "'; ", form));
    if (parsed.host.empty()) throw UsageError(cat("the store '", url, "' names no host; ", form));
    if (end < text.size()) parsed.port = text.substr(end + 1);
    return parsed;
}

std::string host_in_url(const std::string& host) {
    return host.find(':') == host.npos ? host : cat("[", host, "]");
}

constexpr auto tcp_form =
    "write tcp://HOST:PORT with a port of rank 0's host that is free, such as tcp://10.0.0.1:29511";
constexpr auto most_ports = 64;

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

constexpr auto form = "write redis://HOST:PORT or redis://HOST:PORT/DATABASE, such as redis://10.0.0.1:6379";

RedisUrl RedisUrl::parse(std::string_view url) {
    // The text is not repeated in the error, since it may be a password.
    if (url.find_first_of("@?#") != url.npos)
        throw UsageError(
            "the URL of the store says more than a host, a port and a database; others could read it there, "
            "so a "
            "password comes from RANKMESH_REDIS_PASSWORD or the file RANKMESH_REDIS_PASSWORD_FILE, a user "
            "from "
            "RANKMESH_REDIS_USER, and of the URL remains redis://HOST:PORT/DATABASE");
    constexpr auto begin = std::string_view("redis://");
    if (!url.starts_with(begin)) {
        const auto scheme = url.substr(0, url.find(':'));
        if (scheme == "rediss")
            throw UsageError(
                cat("the store '", url, "' is to be reached by TLS, which rankmesh does not speak; ", form));
        throw UsageError(cat("the store '", url, "' is neither a folder, a Redis server nor a port of rank 0",
                             scheme == "redis" ? std::string{} : did_you_mean(scheme, {"redis", "tcp"}), "; ",
                             form, ", or tcp://HOST:PORT for a store that rank 0 serves there"));
    }
    auto parsed = RedisUrl{};
    auto rest = url.substr(begin.size());
    if (const auto slash = rest.find('/'); slash != rest.npos) {
        const auto database = rest.substr(slash + 1);
        if (!database.empty()) parsed.database = number_in_url(url, "database", database, 0, 1'000'000, form);
        rest = rest.substr(0, slash);
    }
    const auto address = HostAndPort::parse(url, rest, form);
    parsed.host = address.host;
    if (address.port) parsed.port = number_in_url(url, "port", *address.port, 1, 65535, form);
    return parsed;
}

std::string RedisUrl::text() const {
    return cat("redis://", host_in_url(host), ":", port, database == 0 ? std::string{} : cat("/", database));
}

}  // namespace rankmesh::detail
