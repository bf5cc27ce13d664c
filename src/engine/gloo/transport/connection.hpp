// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <netinet/in.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/gloo/transport/children.hpp"

namespace rankmesh::detail {

class Connector;

/// The address of a peer, and the passwords by which both ends authenticate: they are read from the store, to
/// which other users have no access.
struct Endpoint {
    using Word = std::array<char, 16>;
    sockaddr_storage address = {};
    Word password = {};  // what the connecting end sends
    Word answer = {};    // what the listening end answers

    std::string bytes() const;
    /// Reads what `bytes` has written; throws EngineFailure for anything else.
    static Endpoint from(const std::string& bytes);
    socklen_t address_size() const {
        return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    }
};

/// One end of a connection between two ranks, with authentication.
///
/// Gloo's own takes the first process that connects for its peer, and some bytes from a foreign process end
/// this process. This one accepts any number of connections, and keeps the one that sends the password.
class Connection final : public ::gloo::transport::tcp::Pair {
public:
    Connection(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
               int group_rank, std::chrono::milliseconds timeout);
    ~Connection() override;

    const Endpoint& endpoint() const { return endpoint_; }
    /// True unless somebody connected before the password was asked for.
    bool is_listening();
    /// For the connecting end: closes the listening socket.
    void stop_listening();
    /// Takes over the authenticated connection of a connector.
    void adopt(Connector& connector);
    /// Waits for the peer; false if it did not connect in time.
    bool wait_until(std::chrono::steady_clock::time_point until);

    void handleEvents(int events) override;

private:
    struct PendingConnection {
        int descriptor;
        std::size_t heard = 0;
        Endpoint::Word said = {};
    };
    void changeState(state next) noexcept override;
    void accept_pending();
    void read_pending();
    void close_pending() noexcept;

    Endpoint endpoint_;
    std::vector<PendingConnection> pending_;  // oldest first
    const ClosedInChildren closed_in_children_{fd_};
};

/// Gloo's factory of such connections.
class ConnectionContext final : public ::gloo::transport::tcp::Context {
public:
    ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank, int size);
    std::unique_ptr<::gloo::transport::Pair>& createPair(int group_rank) override;
};

}  // namespace rankmesh::detail
