// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh {

/// What the steps of a join take, in seconds; the defaults were measured as docs/simulation.md says.
struct StepCosts {
    double message = 3e-6;      ///< from the call that sends it to the one that receives it
    double request = 7e-6;      ///< to a store, answer included
    double connection = 30e-6;  ///< to one peer
    double served = 3e-6;       ///< that a request keeps the store from others
    double served_byte = 1e-9;  ///< and each byte that is written or read
};

/// What a join takes of every rank of a world, found by running the protocol of all of them.
struct SimulatedJoin {
    /// One number of each rank.
    struct Count {
        std::int64_t most = 0;   ///< of any rank
        int rank = 0;            ///< the first that has most
        std::int64_t total = 0;  ///< of all ranks
    };

    Count messages = {};          ///< by which ranks agree: sent to others, or requests to the store
    Count bytes = {};             ///< of those
    Count creations = {};         ///< messages by which the ranks of groups make them, without a store
    Count address_requests = {};  ///< to the store, by which ranks tell each other where they are reached
    Count address_bytes = {};     ///< of those
    Count connections = {};       ///< each to one other rank of a group
    int rounds = 0;               ///< the longest chain of messages, one sent after the other was received
    double seconds = 0;           ///< until the last rank has joined
};

/// Joins `plan` on all ranks of a world of `world`, in this process, as an engine does whose ranks join so;
/// eight ranks in a row share a host. Calls `progress` with the number of ranks that have joined, each time.
///
/// Throws UsageError as join does; EngineFailure that names the ranks that wait, and what for, if the join
/// does not end.
///
///     simulate_join({{.mesh = {{"dp", rest}, {"tp", 8}}}}, 64, JoinBy::messages).rounds == 12
RANKMESH_EXPORT SimulatedJoin simulate_join(const Plan& plan, int world, JoinBy by,
                                            const StepCosts& costs = {},
                                            const std::function<void(int joined)>& progress = {});

}  // namespace rankmesh
