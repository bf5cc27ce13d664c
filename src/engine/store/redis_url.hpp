// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace rankmesh::detail {

/// The address of a Redis server: `redis://10.0.0.1:6379`, `redis://[::1]:6379/2`.
struct RedisUrl {
    std::string host;  // without the brackets of an IPv6 address
    int port = 6379;
    int database = 0;

    /// Throws UsageError for anything else, without repeating what may be a password.
    static RedisUrl parse(std::string_view url);
    /// The URL with the port, and with the database unless it is 0.
    std::string text() const;
};

}  // namespace rankmesh::detail
