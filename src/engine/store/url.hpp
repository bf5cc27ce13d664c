// SPDX-License-Identifier: Apache-2.0
// Parts of the URLs of all stores.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rankmesh::detail {

/// True if the name of a store is a URL; otherwise it is a folder.
bool is_url(std::string_view store);

/// Reads a whole number of `least` to `most`. Throws UsageError that names the URL and ends with `form`.
int number_in_url(std::string_view url, std::string_view what, std::string_view text, int least, int most,
                  std::string_view form);

/// A host, without the brackets of an IPv6 address, and the text behind its ':', if there is one.
struct HostAndPort {
    std::string host;
    std::optional<std::string> port;

    /// Reads `text`, a part of `url`; throws UsageError, which ends with `form`.
    static HostAndPort parse(std::string_view url, std::string_view text, std::string_view form);
};

/// The host as a URL writes it: an IPv6 address in brackets.
std::string host_in_url(const std::string& host);

/// Where rank 0 serves a store: `tcp://head:29511`, or `tcp://head:29511-29518` for the first free port of
/// these.
struct TcpUrl {
    std::string host;  // without the brackets of an IPv6 address
    int first_port = 0;
    int last_port = 0;

    /// Throws UsageError for anything else.
    static TcpUrl parse(std::string_view url);
    /// The store's ports beside torch's MASTER_PORT: eight from the eleventh port after it on; before it if
    /// there are none after it.
    static TcpUrl beside(const std::string& master_address, int master_port);
    /// The URL of one of the ports.
    std::string text(int port) const;
    std::string text() const;
    /// `29511`, or `29511-29518`.
    std::string ports() const;
    bool operator==(const TcpUrl&) const = default;
};

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
