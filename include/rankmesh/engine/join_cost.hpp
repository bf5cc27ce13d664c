// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh {

/// What a join costs one rank, computed without starting anything; a world of a million ranks takes no longer
/// than one of eight.
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
    /// On NCCL: the communicators, and one of all ranks that they are split from, which ranks outside the
    /// mesh have too.
    int nccl_communicators = 0;
    int nccl_ids = 0;  ///< unique ids that the communicator of all ranks is created from
};

/// What joining `plan` costs `rank` in a world of `world` ranks.
///
/// Throws UsageError as join would, for a rank that is not in that world, and for `.local`, since which ranks
/// share a host is known only in a job.
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
