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

namespace rankmesh::detail {

class Connector;

/// Where a member is reached, and what proves to it that who comes was told so: by the store, which strangers
/// cannot read.
struct Endpoint {
    using Word = std::array<char, 16>;
    sockaddr_storage address = {};
    Word password = {};  // of who calls
    Word answer = {};    // of who is called

    std::string bytes() const;
    /// Nothing that `bytes` has not made.
    static Endpoint from(const std::string& bytes);
    socklen_t address_size() const {
        return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    }
};

/// One end of a connection of Gloo's.
///
/// Gloo's own takes the first that connects for its peer, and ends the process over some of what a stranger
/// may send. This one hears all that connect, and takes the one that knows the password.
class Connection final : public ::gloo::transport::tcp::Pair {
public:
    Connection(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
               int group_rank, std::chrono::milliseconds timeout);
    ~Connection() override;

    const Endpoint& endpoint() const { return endpoint_; }
    /// True unless somebody came before the password was asked for.
    bool is_listening();
    /// For the end that calls: nobody can connect any more.
    void stop_listening();
    /// Makes a connection on which the peer has answered this end's.
    void adopt(Connector& connector);
    /// Waits for the peer; false if it did not come in time.
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
    std::vector<PendingConnection> pending_;  // in the order in which they came
};

/// Makes such ends.
class ConnectionContext final : public ::gloo::transport::tcp::Context {
public:
    ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank, int size);
    std::unique_ptr<::gloo::transport::Pair>& createPair(int group_rank) override;
};

}  // namespace rankmesh::detail
