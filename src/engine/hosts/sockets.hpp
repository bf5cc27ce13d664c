// SPDX-License-Identifier: Apache-2.0
// Connections by numeric addresses. Each step ends at a given instant.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rankmesh::detail {

/// An address as the system's calls take it.
struct SocketAddress {
    sockaddr_storage storage = {};
    socklen_t size = 0;

    /// Returns nothing unless the text is an IPv4 or IPv6 address in numbers.
    static std::optional<SocketAddress> of(const std::string& address, int port = 0);
    int family() const { return storage.ss_family; }
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// `10.1.2.3`; "" for an address that is neither IPv4 nor IPv6.
std::string numeric_text(const sockaddr* address, socklen_t size);

/// True once the socket is ready for one of `events`, false if `until` passes first.
bool ready(int socket, short events, std::chrono::steady_clock::time_point until);

/// A connection that does not block, or -1 and the reason why there is none.
std::pair<int, std::string> connect_to(const std::string& address, int port,
                                       std::chrono::steady_clock::time_point until);

/// The whole milliseconds since `begin`: `17 ms`.
std::string elapsed_since(std::chrono::steady_clock::time_point begin);

struct HostNotFound : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The numeric addresses of a store's host. Throws HostNotFound, or Timeout if the system has not found them
/// until then.
std::vector<std::string> host_addresses(const std::string& host, std::chrono::steady_clock::time_point until);

/// True if a numeric address is one of this machine's.
bool is_own_address(const std::string& address);

/// Accepts a connection, which does not block; -1 with `errno` where there is none. A shortage is one that
/// keeps somebody out: where nobody has called, EAGAIN stands for it.
int accept_connection(int listening);

}  // namespace rankmesh::detail
