// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// A rank's answer to a watchdog that waits for it.
struct RankStatus {
    bool arrived = false;
    std::string text;  // `in all_reduce of ...`
};
/// This rank's answer about the call of that number on the channel of that key.
using RankStatusOf = std::function<RankStatus(std::uint64_t key, std::uint64_t number)>;

/// Queries between the watchdogs of one world's processes while their main threads are blocked: datagrams
/// between sockets that are named after the world and the rank, so that no process needs a table of
/// addresses.
///
/// It reaches the processes of this host only.
class PeerQuery {
public:
    /// `world` is a random number that only the ranks of the world have. If sockets are not available, no
    /// rank answers.
    PeerQuery(std::uint64_t world, int rank);
    ~PeerQuery();
    PeerQuery(const PeerQuery&) = delete;
    PeerQuery& operator=(const PeerQuery&) = delete;

    int rank() const { return rank_; }
    int descriptor() const { return socket_; }
    /// Answers every question that has arrived; true if there was one.
    bool answer(const RankStatusOf& self) { return take(self, nullptr); }
    /// The answers that arrive within `patience`; answers questions meanwhile.
    std::map<int, RankStatus> ask(std::span<const int> ranks, std::uint64_t key, std::uint64_t number,
                                  const RankStatusOf& self, Duration patience);

private:
    bool take(const RankStatusOf& self, std::map<int, RankStatus>* answers);

    const std::uint64_t world_;
    const int rank_;
    int socket_ = -1;
};

}  // namespace rankmesh::detail
