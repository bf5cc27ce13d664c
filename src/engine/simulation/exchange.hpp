// SPDX-License-Identifier: Apache-2.0
// One rank of a simulated world: what engines do between ranks during a join, counted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/engine/simulation.hpp>

#include "engine/exchange.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/simulation/creations.hpp"
#include "engine/simulation/replay.hpp"

namespace rankmesh::detail {

/// What one rank has sent and asked.
struct Tally {
    std::int64_t bytes = 0;          // of the agreement
    std::int64_t address_bytes = 0;  // written and read
    std::int64_t connections = 0;    // and as many addresses read
    std::int32_t messages = 0;       // sent, or asked of the store, of the agreement
    std::int32_t address_requests = 0;
    std::int32_t creations = 0;  // messages by which groups are made
};

/// The number of rounds in which a binomial tree over so many ranks reaches all.
int tree_rounds(int ranks);

class SimulatedExchange final : public Exchange {
public:
    SimulatedExchange(Replay::Run& run, int size, JoinBy by, const std::vector<int>& local_ranks,
                      const StepCosts& costs, Tally& tally, Creations& creations);

    int rank() const override { return run_.rank(); }
    int size() const override { return size_; }
    const std::vector<int>& local_ranks() const override { return local_ranks_; }
    bool announces() const override { return by_ == JoinBy::store; }
    void announce(const std::string& key, std::span<const ChannelRequest> requests) override;
    void max(std::array<std::int64_t, 4>& values) override;
    void send(int to, const std::string& bytes) override;
    std::string receive(int from) override;
    void post(int to, const std::string& bytes) override;
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until) override;
    std::shared_ptr<Channel> create(const ChannelRequest& request) override;

    /// What was created in this run.
    const std::vector<ChannelRequest>& created() const { return created_; }

private:
    Replay::Run& run_;
    const int size_;
    const JoinBy by_;
    const std::vector<int>& local_ranks_;
    const StepCosts& costs_;
    Tally& tally_;
    Creations& creations_;
    std::unique_ptr<Rendezvous> rendezvous_;      // null without a store
    std::map<std::pair<int, int>, int> numbers_;  // of messages, by sender and receiver
    std::vector<ChannelRequest> created_;
};

}  // namespace rankmesh::detail
