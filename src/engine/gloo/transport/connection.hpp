// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>

#include <chrono>
#include <memory>

#include "engine/fork.hpp"

namespace rankmesh::detail {

/// One end of a connection between two ranks, with authentication.
///
/// Gloo's own listens at a port of its own, takes the first process that connects there for its peer, and
/// some bytes from a foreign process end this process. This one is given a socket that a Connector has
/// connected, or at which a Listener has accepted the peer.
class Connection final : public ::gloo::transport::tcp::Pair {
public:
    /// Gives back at once the port that Gloo has taken: on Gloo's thread, which so has accepted nobody there.
    Connection(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
               int group_rank, std::chrono::milliseconds timeout);
    ~Connection() override;

    /// Takes over an authenticated connection to the peer, which this end has connected or accepted.
    void adopt(int descriptor, bool has_connected);
    /// What comes from the peer: nothing yet, something that Gloo has not read, or nothing any more.
    enum class Incoming { nothing, unread, ended };
    Incoming incoming();

    void handleEvents(int events) override;

private:
    const ClosedOnFork closed_in_children_{fd_};
};

/// Gloo's factory of such connections.
class ConnectionContext final : public ::gloo::transport::tcp::Context {
public:
    ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank, int size);
    std::unique_ptr<::gloo::transport::Pair>& createPair(int group_rank) override;
};

}  // namespace rankmesh::detail
