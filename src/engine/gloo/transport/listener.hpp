// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/tcp/device.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <utility>

#include "engine/fork.hpp"
#include "engine/gloo/transport/endpoint.hpp"
#include "engine/gloo/transport/network.hpp"

namespace rankmesh::detail {

/// Accepts, at one port of this process, the connections of all peers that it waits for: who connects says by
/// its password which of them it is. Others may connect as well, and say anything or nothing.
class Listener final : private ::gloo::transport::tcp::Handler {
public:
    explicit Listener(std::shared_ptr<Network> network);
    ~Listener() override;

    /// The errno for which this process cannot accept who calls, and could not for so long; 0 if there is
    /// none.
    int shortage(std::chrono::milliseconds lasting) const {
        const auto lock = std::lock_guard(mutex_);
        return shortage_ != 0 && std::chrono::steady_clock::now() - short_since_ >= lasting ? shortage_ : 0;
    }

    /// A peer that this process waits for.
    class Peer {
    public:
        explicit Peer(std::shared_ptr<Listener> listener);
        ~Peer();
        Peer& operator=(Peer&&) = delete;

        /// By which the peer reaches this process.
        const Endpoint& endpoint() const { return endpoint_; }
        /// Waits for it; false if it did not connect in time.
        bool wait_until(std::chrono::steady_clock::time_point until);
        /// The errno for which this process cannot accept it, and could not for so long; 0 if there is none.
        int shortage(std::chrono::milliseconds lasting) const { return listener_->shortage(lasting); }
        /// Releases its socket, which has authenticated, to the caller.
        int take();

    private:
        friend class Listener;
        const std::shared_ptr<Listener> listener_;
        const Endpoint endpoint_;
        std::multimap<std::string, Peer*>::iterator place_;  // until it has come
        bool has_come_ = false;
        int descriptor_ = -1;
        const ClosedOnFork closed_in_children_{descriptor_};
    };

private:
    struct PendingConnection {
        explicit PendingConnection(int socket) : descriptor(socket) {}
        int descriptor;
        WordReader password = {};
        const ClosedOnFork closed_in_children{descriptor};
    };
    using Pending = std::map<std::uint64_t, PendingConnection>;  // by number, so oldest first

    void handleEvents(int events) override;
    void accept_pending();
    void read(Pending::iterator pending);
    void close_own() {
        for (auto* descriptor : {&descriptor_, &ready_})
            if (*descriptor >= 0) ::close(std::exchange(*descriptor, -1));
    }
    /// Waits for what comes to a descriptor, in the name of a number; false if the system refuses.
    bool await(int descriptor, std::uint64_t id) const {
        auto event = epoll_event{.events = EPOLLIN, .data = {.u64 = id}};
        return ::epoll_ctl(ready_, EPOLL_CTL_ADD, descriptor, &event) == 0;
    }
    /// Whether who calls is accepted: not for a while where this process has no descriptor for that.
    void accept(bool wanted);
    /// Forgets a pending connection, and releases its descriptor to the caller.
    int release(Pending::iterator pending);
    /// The peer of a password; null if this process waits for no such peer.
    Peer* peer_of(const WordReader& password) const;

    const std::shared_ptr<Network> network_;
    ::gloo::transport::tcp::Device& device_;
    sockaddr_storage address_ = {};
    int descriptor_ = -1;
    const ClosedOnFork closed_in_children_{descriptor_};
    int ready_ = -1;  // the epoll descriptor of all of them: Gloo's would not say which has news

    mutable std::mutex mutex_;  // of what follows; nobody who holds it waits for Gloo's thread
    std::condition_variable came_;
    std::multimap<std::string, Peer*> peers_;  // by the first half of their passwords
    Pending pending_;
    std::uint64_t last_id_ = 0;
    bool accepts_ = true;
    int shortage_ = 0;  // the errno of the last accept, where it was this process's own
    std::chrono::steady_clock::time_point short_since_ = {};
};

}  // namespace rankmesh::detail
