// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// What a rank says of itself when another one misses it.
struct RankStatus {
    bool arrived = false;
    std::string text;  // `in all_reduce of ...`
};
/// What this rank says of itself: by the key of a channel, and the number of the call that is asked about.
using RankStatusOf = std::function<RankStatus(std::uint64_t key, std::uint64_t number)>;

/// How the watchdogs of one world's processes talk when their main threads are stuck: by datagrams between
/// sockets that are named after the world and the rank, so that no process holds a table of addresses.
///
/// It reaches the processes of this host; of others nothing is known.
class PeerQuery {
public:
    /// `world` is a random number that all ranks of the world, and nobody else, have. Where sockets cannot
    /// be had, nobody answers.
    PeerQuery(std::uint64_t world, int rank);
    ~PeerQuery();
    PeerQuery(const PeerQuery&) = delete;
    PeerQuery& operator=(const PeerQuery&) = delete;

    int rank() const { return rank_; }
    int descriptor() const { return socket_; }
    /// Answers every question that has come in.
    void answer(const RankStatusOf& self) { take(self, nullptr); }
    /// What the ranks say that answer within `patience`; questions are answered meanwhile.
    std::map<int, RankStatus> ask(std::span<const int> ranks, std::uint64_t key, std::uint64_t number,
                                  const RankStatusOf& self, Duration patience);

private:
    void take(const RankStatusOf& self, std::map<int, RankStatus>* answers);

    const std::uint64_t world_;
    const int rank_;
    int socket_ = -1;
};

}  // namespace rankmesh::detail
