// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "engine/fork.hpp"
#include "engine/store/tcp_protocol.hpp"
#include "engine/store/url.hpp"

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

/// Which store of a job a rank serves or uses, and where.
struct TcpStoreOptions {
    TcpUrl url;
    std::string job;
    std::string key;          // what only the ranks of the job know
    bool has_secret = false;  // whether the key is a secret
    int size = 1;             // 0: of a process that enters the job later
    int rank = 0;

    bool operator==(const TcpStoreOptions&) const = default;
};

/// The socket at which a store is served.
class TcpListener {
public:
    explicit TcpListener(const TcpStoreOptions& options) : options_(options) {}
    ~TcpListener() { close(); }
    TcpListener& operator=(TcpListener&&) = delete;

    /// Listens at the first of the URL's ports that is free. Throws UsageError if no port is free, or another
    /// process serves the same job.
    void open();
    /// Prints a line on stderr if other hosts reach the store and it has no secret.
    void warn() const;
    void close() noexcept;
    /// Less than 0 while it does not listen.
    int socket() const { return socket_; }
    int port() const { return port_; }
    /// The address at which this process reaches it.
    const std::string& address() const { return address_; }

private:
    void find_addresses();
    bool listen_at(int port);

    const TcpStoreOptions& options_;
    int socket_ = -1;
    std::optional<ClosedOnFork> closed_in_children_;
    int port_ = 0;
    std::vector<std::string> own_;  // the addresses of the host that are this machine's, the preferred first
    std::string address_;
    bool is_local_ = false;  // only this machine reaches it
};

}  // namespace rankmesh::detail
