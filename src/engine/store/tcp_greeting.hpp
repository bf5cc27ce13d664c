// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "engine/store/tcp_protocol.hpp"

namespace rankmesh::detail {

/// The first bytes of whatever listens at a port, as a client hears them.
struct TcpGreeting {
    using Instant = std::chrono::steady_clock::time_point;

    int socket = -1;                 // the connection, which the caller closes; less than 0 if there is none
    std::string failure;             // why there is no connection to a store
    tcp_protocol::Greeting message;  // what a store says

    /// Connects to a numeric address, and waits for the greeting.
    static TcpGreeting at(const std::string& address, int port, Instant until);
    /// Hears what is at `host` if that is a numeric address, else at `address`, and closes the connection.
    static TcpGreeting of(const std::string& address, int port, const std::string& host, Instant until);

    bool is_store() const { return failure.empty(); }
    bool serves(const std::string& job) const;
    /// `is taken by the store of another job`.
    std::string text() const;
};

}  // namespace rankmesh::detail
