// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "engine/exchange.hpp"
#include "engine/gloo/transport/connections.hpp"
#include "engine/gloo/transport/network.hpp"
#include "engine/hosts/local_processes.hpp"
#include "engine/membership/rendezvous.hpp"

namespace rankmesh::detail {

/// Announces where this rank listens for the other ranks of its groups, and connects these groups.
class GroupConnector {
public:
    GroupConnector(std::shared_ptr<Rendezvous> rendezvous, std::shared_ptr<LocalProcesses> processes,
                   Duration timeout)
        : rendezvous_(std::move(rendezvous)), processes_(std::move(processes)), timeout_(timeout) {}

    /// Publishes the endpoints of this rank for the groups of one join, whose key is `key`. Throws UsageError
    /// if this process cannot hold their connections.
    void announce(const std::string& key, std::span<const ChannelRequest> requests,
                  const std::shared_ptr<Network>& network);
    /// Connects the ranks of a group and passes the connections to `use`. If either throws Timeout or
    /// PeerLost, the other ranks are told before the connections go. A group that no join has announced, such
    /// as that of a lazy mesh, is announced first; only its own ranks call this.
    void connect(const ChannelRequest& request, const std::shared_ptr<Network>& network,
                 const std::function<void(std::shared_ptr<Connections>)>& use);
    /// Withdraws what `connect` announced under that key, once all ranks of the group are connected.
    void forget(const std::string& key);
    /// The name of the last announcement, "" before the first one: the rendezvous tells failures to connect
    /// apart by it.
    const std::string& announced() const { return last_.name; }

private:
    void exchange_endpoints(Connections& connections, const ChannelRequest& request);

    const std::shared_ptr<Rendezvous> rendezvous_;
    const std::shared_ptr<LocalProcesses> processes_;
    const Duration timeout_;
    struct Announcement {
        std::string name = {};
        std::map<std::string, std::shared_ptr<Connections>> waiting = {};  // by key of the request
        /// The entries of peers by name and rank: several groups share an entry, which is read once.
        std::map<std::string, std::map<int, std::string>> read = {};
    } last_;
    std::map<std::string, std::vector<std::string>> entries_to_withdraw_;  // by key of the request
};

}  // namespace rankmesh::detail
