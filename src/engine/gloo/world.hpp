// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>

#include "engine/exchange.hpp"
#include "engine/gloo/channel.hpp"
#include "engine/gloo/group_connector.hpp"
#include "engine/gloo/transport/connections.hpp"
#include "engine/hosts/hosts.hpp"
#include "engine/hosts/local_processes.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

/// One rank of a world on Gloo: connected to the ranks of its own groups, and to no others.
class GlooWorld final : public WorldState, private Exchange {
public:
    /// Collective over the ranks of the rendezvous.
    GlooWorld(std::unique_ptr<Rendezvous> rendezvous, const std::string& interface,
              const WorldOptions& options);
    /// The world of the survivors of another, whose addresses are known.
    GlooWorld(Rendezvous::Survivors rest, const GlooWorld& before);
    /// A world that ranks have entered; `grown` has the host of each of them.
    GlooWorld(Rendezvous::Grown grown, const std::string& interface, const WorldOptions& options);
    /// What the ranks of a world get to know of a process that enters it.
    static std::string about_this_process(const std::string& interface);

    std::string engine() const override { return "gloo"; }
    Exchange& exchange() override { return *this; }
    void leave(const std::string& what) noexcept override;
    std::shared_ptr<WorldState> sub(const std::vector<int>& ranks) override;
    std::shared_ptr<WorldState> survivors(Duration grace) override;
    std::shared_ptr<WorldState> grow(int most, Duration timeout) override;
    std::string host() override { return host_; }
    /// The address at which peers reach this process; "" in a world of one.
    const std::string& address() const { return address_; }

private:
    int rank() const override { return rendezvous_->rank(); }
    int size() const override { return rendezvous_->size(); }
    const std::vector<int>& local_ranks() const override { return local_ranks_; }
    bool announces() const override { return true; }
    void announce(const std::string& key, std::span<const ChannelRequest> requests) override {
        connector_.announce(key, requests, network_);
    }
    void max(std::array<std::int64_t, 4>& values) override { values = max_over(*rendezvous_, values); }
    void send(int to, const std::string& bytes) override { rendezvous_->send(to, bytes); }
    std::string receive(int from) override { return rendezvous_->receive(from, connector_.announced()); }
    void post(int to, const std::string& bytes) override { rendezvous_->post(to, bytes); }
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until) override;
    void fail(const Failure& failure) noexcept override {
        rendezvous_->give_up(connector_.announced(), failure);
        rendezvous_->fail({}, failure);
    }
    void throw_if_failed() override { rendezvous_->throw_if_failed("join", first_ranks(size())); }
    std::shared_ptr<Channel> create(const ChannelRequest& request) override;
    void restore(Channel& channel, const ChannelRequest& request) override {
        connector_.connect(request, network_, [&](std::shared_ptr<Connections> connections) {
            static_cast<GlooChannel&>(channel).restore(std::move(connections));
        });
    }
    void forget(const std::string& key) override { connector_.forget(key); }

    std::shared_ptr<Renewal> renewal() const { return {ended_, &ended_->renewal}; }
    /// The ranks that are known to have ended: their connections are broken, or their processes gone.
    std::vector<int> ended() const;
    /// Finds this host's ranks and this process's address among the lines of all ranks.
    void find_address(const Hosts& hosts, const std::string& lines);

    const std::shared_ptr<Rendezvous> rendezvous_;
    const std::string interface_;
    std::string host_;
    std::string address_;
    std::vector<int> local_ranks_;
    const std::shared_ptr<LocalProcesses> processes_ = std::make_shared<LocalProcesses>();
    std::shared_ptr<Network> network_;
    const std::shared_ptr<Ended> ended_ = std::make_shared<Ended>(processes_);
    /// Tells the ranks that wait in a step of the world that it is over.
    struct Notice final : Renewal::Part {
        explicit Notice(GlooWorld& world) : world(world) { world.ended_->renewal.add(*this); }
        ~Notice() { world.ended_->renewal.remove(*this); }
        void renew(const Failure& why) noexcept override { world.rendezvous_->fail({}, why); }
        GlooWorld& world;
    } notice_{*this};
    GroupConnector connector_{rendezvous_, processes_, options.timeout};
    std::vector<std::weak_ptr<GlooChannel>> channels_;
};

}  // namespace rankmesh::detail
