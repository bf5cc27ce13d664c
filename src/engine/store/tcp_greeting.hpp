// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "engine/store/tcp_protocol.hpp"

namespace rankmesh::detail {

/// What is said first by what listens at a port.
struct TcpGreeting {
    using Instant = std::chrono::steady_clock::time_point;

    int socket = -1;              // the connection, that of the caller's; less than 0 where there is none
    std::string failure;          // why there is no connection, or why it is none to a store
    tcp_protocol::Greeting said;  // by a store

    /// Connects to an address in numbers, and waits for the greeting.
    static TcpGreeting at(const std::string& address, int port, Instant until);
    /// The same at `host` where that is an address in numbers, else at `address`; closes the connection.
    static TcpGreeting of(const std::string& address, int port, const std::string& host, Instant until);

    bool is_store() const { return failure.empty(); }
    bool serves(const std::string& job) const;
    /// `is taken by the store of another job`.
    std::string text() const;
};

}  // namespace rankmesh::detail
