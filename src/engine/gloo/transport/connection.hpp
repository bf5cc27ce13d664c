// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>

#include <chrono>
#include <memory>
#include <vector>

#include "engine/children.hpp"
#include "engine/gloo/transport/endpoint.hpp"
#include "engine/gloo/transport/word_reader.hpp"

namespace rankmesh::detail {

class Connector;

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
    /// What comes from the peer: nothing yet, something that Gloo has not read, or nothing any more.
    enum class Line { open, unread, ended };
    Line line();
    /// Waits for the peer; false if it did not connect in time.
    bool wait_until(std::chrono::steady_clock::time_point until);
    /// The errno for which this process cannot accept the peer, 0 if there is none.
    int shortage();

    void handleEvents(int events) override;

private:
    struct PendingConnection {
        int descriptor;
        WordReader said = {};
    };
    void changeState(state next) noexcept override;
    void accept_pending();
    void read_pending();
    void close_pending() noexcept;

    Endpoint endpoint_;
    std::vector<PendingConnection> pending_;  // oldest first
    int shortage_ = 0;                        // the errno of the last accept, where it was this process's own
    const ClosedInChildren closed_in_children_{fd_};
};

/// Gloo's factory of such connections.
class ConnectionContext final : public ::gloo::transport::tcp::Context {
public:
    ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank, int size);
    std::unique_ptr<::gloo::transport::Pair>& createPair(int group_rank) override;
};

}  // namespace rankmesh::detail
