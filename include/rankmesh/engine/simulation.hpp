// SPDX-License-Identifier: Apache-2.0
// Simulates the join of a large world in one process.
#pragma once

#include <cstdint>
#include <functional>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh {

/// The seconds of each step of a join. docs/simulation.md says how the defaults were measured.
struct StepCosts {
    double message = 3e-6;      ///< from the sending call to the end of the receiving call
    double request = 7e-6;      ///< to a store, with its answer
    double connection = 30e-6;  ///< to one peer
    double served = 3e-6;       ///< during which a request occupies the store
    double served_byte = 1e-9;  ///< the same, for each byte written or read
};

/// The cost of a join for all ranks of a world, found by running the protocol of every rank.
struct SimulatedJoin {
    /// A count per rank, summarised.
    struct Count {
        std::int64_t most = 0;   ///< of any rank
        int rank = 0;            ///< the first rank with `most`
        std::int64_t total = 0;  ///< of all ranks
    };

    Count messages = {};          ///< to agree on the plan: messages to ranks, or requests to the store
    Count bytes = {};             ///< of those
    Count creations = {};         ///< messages that create groups, without a store
    Count address_requests = {};  ///< requests to the store that exchange addresses
    Count address_bytes = {};     ///< of those
    Count connections = {};       ///< connections, each to one other rank of a group
    int rounds = 0;      ///< the longest chain of messages, each sent after the previous was received
    double seconds = 0;  ///< until the last rank has joined
};

/// Joins `plan` on all ranks of a world of `world` ranks in this process, with the protocol of an engine that
/// joins `by` messages or a store. Eight consecutive ranks share a host. Calls `progress` with the number of
/// joined ranks after each rank.
///
/// Throws UsageError like join, and EngineFailure, which names the waiting ranks and what they wait for, if
/// the join deadlocks.
///
///     simulate_join({{.mesh = {{"dp", rest}, {"tp", 8}}}}, 64, JoinBy::messages).rounds == 12
RANKMESH_EXPORT SimulatedJoin simulate_join(const Plan& plan, int world, JoinBy by,
                                            const StepCosts& costs = {},
                                            const std::function<void(int joined)>& progress = {});

}  // namespace rankmesh
