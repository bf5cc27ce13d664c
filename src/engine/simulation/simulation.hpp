// SPDX-License-Identifier: Apache-2.0
// The whole protocol of join on every rank of a world, in one process.
#pragma once

#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <rankmesh/engine/simulation.hpp>

#include "engine/exchange.hpp"
#include "engine/join/join.hpp"

namespace rankmesh::detail {

/// The number of rounds in which a binomial tree over so many ranks reaches all.
inline int tree_rounds(int ranks) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

struct SimulatedWorld {
    int size = 1;
    JoinBy by = JoinBy::messages;
    StepCosts costs = {};
    int ranks_per_host = 8;  // in a row
    /// What a rank declares.
    std::function<const Plan&(int rank)> plan;
    /// An exchange between join and that of a rank, for tests that break the protocol; null for none.
    std::function<std::unique_ptr<Exchange>(Exchange&)> through = nullptr;
    /// Called with what each rank has when its join ends: which is then dropped.
    std::function<void(int rank, const std::vector<MeshEntry>&, const std::vector<ChannelRequest>& made)>
        visit = nullptr;
};

/// A rank whose join does not end.
struct Stuck {
    int rank = 0;
    std::vector<int> missing;  // the ranks that it waits for
    std::string where;         // `making 'dp' of mesh dp=4, group {0, 1, 2, 3}`
};

struct SimulationResult {
    SimulatedJoin join;
    std::map<std::string, std::vector<int>> errors;  // by text: the ranks that throw it
    std::vector<Stuck> stuck;                        // by rank
};

SimulationResult simulate(const SimulatedWorld& world);

/// `rank 0 waits for rank 5, comparing plans; ...`: the first few ranks that wait.
std::string to_text(const std::vector<Stuck>& stuck);

}  // namespace rankmesh::detail
