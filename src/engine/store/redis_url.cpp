// SPDX-License-Identifier: Apache-2.0
#include "engine/store/redis_url.hpp"

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include "engine/store/url.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto form = "write redis://HOST:PORT or redis://HOST:PORT/DATABASE, such as redis://10.0.0.1:6379";

}  // namespace

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
