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
    /// One declared set of axes, pick or separate communicator.
    struct Set {
        std::string axes;    ///< `dp,cp`, or the name of a pick or separate communicator
        std::string label;   ///< as errors name it: `'dp,cp' of mesh dp=4 cp=2`
        int groups = 0;      ///< in all its mesh
        int group_size = 0;  ///< the ranks of each
        /// Which of the rank's communicators it has, counted from 0, the same for sets with equal ranks;
        /// nothing for a group of one, where the rank has no part in it, and while `.lazy` defers it.
        std::optional<int> communicator = {};
    };

    int world = 1;                 ///< its ranks
    std::vector<Set> sets = {};    ///< each once, in the order of creation
    bool joins = false;            ///< true if any rank of the world gets a communicator
    int communicators = 0;         ///< of two or more ranks
    std::int64_t connections = 0;  ///< one to each other rank of each communicator
};

/// What joining `plan` costs `rank` in a world of `world` ranks.
///
/// Throws UsageError as join would, for a rank that is not in that world, and for `.local`, since which ranks
/// share a host is known only in a job.
///
///     join_cost({{.mesh = {{"pp", 16}, {"dp", rest}, {"tp", 8}}}}, 1 << 20, 0).communicators == 3
RANKMESH_EXPORT JoinCost join_cost(const Plan& plan, int world, int rank);

/// By what the ranks of a world reach each other during a join: messages, or a store and then connections.
enum class JoinBy : std::uint8_t { messages, store };

/// What a join takes of one engine.
struct EngineNeed {
    /// So many `of` something that a rank takes.
    struct Amount {
        std::string of;                            ///< `communicators`
        std::optional<std::int64_t> count = {};    ///< nothing: a limit that there is not
        std::optional<std::int64_t> outside = {};  ///< of a rank outside of all meshes, where it can be less
    };

    std::string engine;                ///< "mpi", "gloo" or "nccl"
    std::string text;                  ///< `22 connections, each a file descriptor; the limit here is 1024`
    std::vector<Amount> amounts = {};  ///< the same as numbers
    bool fits = true;                  ///< false if this process may not take as much
    std::string outside = {};          ///< what a rank outside of all meshes takes too, such as
                                       ///< `NCCL's of all ranks`
    std::optional<JoinBy> by = {};     ///< nothing: the ranks join by the engine of their hosts
};

/// What a join of that cost takes of each engine that takes something, built or not.
///
///     for (const auto& need : needs_of(join_cost({{.mesh = {{"dp", 64}}}}, 64, 0)))
///         EXPECT_TRUE(need.fits) << need.text;
RANKMESH_EXPORT std::vector<EngineNeed> needs_of(const JoinCost& cost);

}  // namespace rankmesh
