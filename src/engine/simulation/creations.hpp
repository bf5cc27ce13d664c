// SPDX-License-Identifier: Apache-2.0
// Which groups ranks make, each in its own order, and whether all of them get there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "engine/exchange.hpp"
#include "engine/simulation/replay.hpp"

namespace rankmesh::detail {

/// The creations of all ranks of a world. What `Exchange::create` returns decides nothing in a join: so they
/// are noted while ranks run, and matched once all have.
class Creations {
public:
    explicit Creations(int size) : made_(static_cast<std::size_t>(size)) {}

    /// The `number`-th creation of a rank; false if it is known from an earlier run.
    bool add(int rank, std::size_t number, const ChannelRequest& request);
    std::size_t count(int rank) const { return made_[static_cast<std::size_t>(rank)].size(); }

    /// A rank that waits for others in its `number`-th creation, whose group has this id.
    struct Stuck {
        int rank;
        std::size_t number;
        std::uint32_t group;
    };
    /// Lets all ranks make their groups, each in its own order: a group is made once all its ranks are there,
    /// `cost` of its size later. Returns those that never come further.
    std::vector<Stuck> match(std::vector<Replay::Progress>& progress,
                             const std::function<double(int size)>& cost);

private:
    struct Group {
        int size = 0;
        int arrived = 0;
        int last = -1;  // of those that have arrived, each of which names the one before
        double time = 0;
        std::uint32_t rounds = 0;
    };

    std::vector<std::vector<std::uint32_t>> made_;  // by rank: its groups, in its order
    std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
    std::vector<Group> groups_;
};

}  // namespace rankmesh::detail
