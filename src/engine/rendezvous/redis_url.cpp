// SPDX-License-Identifier: Apache-2.0
#include "engine/rendezvous/redis_url.hpp"

#include <charconv>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::detail {
namespace {

constexpr auto form = "write redis://HOST:PORT or redis://HOST:PORT/DATABASE, such as redis://10.0.0.1:6379";

int number(std::string_view url, std::string_view what, std::string_view text, int least, int most) {
    auto value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        throw UsageError(cat("the store '", url, "' has the ", what, " '", text,
                             "', which is no whole number of ", least, " to ", most, "; ", form));
    return value;
}

}  // namespace

bool is_url(std::string_view store) {
    return store.find("://") != store.npos || store.starts_with("redis:") || store.starts_with("rediss:");
}

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
        throw UsageError(cat("the store '", url, "' is neither a folder nor a Redis server",
                             scheme == "redis" ? std::string{} : did_you_mean(scheme, {"redis"}), "; ",
                             form));
    }
    auto parsed = RedisUrl{};
    auto rest = url.substr(begin.size());
    if (const auto slash = rest.find('/'); slash != rest.npos) {
        const auto database = rest.substr(slash + 1);
        if (!database.empty()) parsed.database = number(url, "database", database, 0, 1'000'000);
        rest = rest.substr(0, slash);
    }
    auto end = rest.find(':');
    if (rest.starts_with('[')) {
        const auto bracket = rest.find(']');
        if (bracket == rest.npos)
            throw UsageError(cat("the store '", url, "' has a '[' without a ']'; ", form));
        parsed.host = rest.substr(1, bracket - 1);
        end = bracket + 1;
        if (end < rest.size() && rest[end] != ':')
            throw UsageError(
                cat("the store '", url, "' has '", rest.substr(end), "' behind the address; ", form));
    } else {
        if (end != rest.rfind(':'))
            throw UsageError(cat("the store '", url, "' has more than one ':' in '", rest,
                                 "'; an IPv6 address stands in brackets, such as redis://[::1]:6379"));
        parsed.host = rest.substr(0, end);
    }
    if (parsed.host.find_first_of("[]") != parsed.host.npos)
        throw UsageError(
            cat("the store '", url, "' has a '[' or ']' inside its host '", parsed.host, "'; ", form));
    if (parsed.host.empty()) throw UsageError(cat("the store '", url, "' names no host; ", form));
    if (end < rest.size()) parsed.port = number(url, "port", rest.substr(end + 1), 1, 65535);
    return parsed;
}

std::string RedisUrl::text() const {
    const auto bracketed = host.find(':') == host.npos ? host : cat("[", host, "]");
    return cat("redis://", bracketed, ":", port, database == 0 ? std::string{} : cat("/", database));
}

}  // namespace rankmesh::detail
