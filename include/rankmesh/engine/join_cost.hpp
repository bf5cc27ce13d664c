// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh {

/// What a join costs one rank, by arithmetic: nothing is started, and a world of a million costs what one of
/// eight does.
///
/// Law: `communicators` is what `Member::channel_count()` says after that join, outside checked mode.
struct JoinCost {
    /// One declared set of axes, pick or separate channel.
    struct Set {
        std::string axes;    ///< `dp,cp`, or the name of a pick or separate channel
        std::string label;   ///< as errors name it: `'dp,cp' of mesh dp=4 cp=2`
        int groups = 0;      ///< in all its mesh
        int group_size = 0;  ///< the ranks of each
        /// Which of the rank's communicators it has, counted from 0, the same for sets with equal ranks;
        /// nothing for a group of one, where the rank has no part in it, and while `.lazy` defers it.
        std::optional<int> communicator = {};
    };

    std::vector<Set> sets;         ///< each once, in the order of creation
    int communicators = 0;         ///< of two or more ranks
    std::int64_t connections = 0;  ///< on Gloo: one to each other rank of each communicator
    /// On NCCL: the communicators, and one of all ranks, which they are split from and which ranks outside
    /// hold too.
    int nccl_communicators = 0;
    int nccl_ids = 0;  ///< that the one of all ranks begins with
};

/// What joining `plan` costs `rank` in a world of `world` ranks.
///
/// Throws UsageError as join would, for a rank that is not in that world, and for `.local`: who is on one
/// host only a job knows.
///
///     join_cost({{.mesh = {{"pp", 16}, {"dp", rest}, {"tp", 8}}}}, 1 << 20, 0).communicators == 3
RANKMESH_EXPORT JoinCost join_cost(const Plan& plan, int world, int rank);

/// The file descriptors that connections on Gloo take, beside what this process may open.
struct Descriptors {
    std::int64_t connections = 0;            ///< each takes one
    std::int64_t others = 0;                 ///< open already, and a few for what is opened meanwhile
    std::optional<std::int64_t> limit = {};  ///< `ulimit -n`
    std::string shortage = {};               ///< what join throws where they do not suffice, else ""
};

RANKMESH_EXPORT Descriptors descriptors_of(const JoinCost& cost);

}  // namespace rankmesh
