// SPDX-License-Identifier: Apache-2.0
// Computes what a join costs, without running it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh {

/// The cost of a join for one rank, computed without starting anything. The computation takes no longer for a
/// million ranks than for eight.
///
/// Law: outside checked mode, `communicators` equals `Member::channel_count()` after that join.
struct JoinCost {
    /// One declared set of axes, pick or separate communicator.
    struct Set {
        std::vector<std::string> axes;  ///< the names of the axes, in mesh order
        std::string text;               ///< `dp,cp`, or the name of a pick or separate communicator
        std::string label;              ///< the name in error texts: 'dp,cp' of mesh dp=4 cp=2
        int groups = 0;                 ///< number of groups in the mesh
        int group_size = 0;             ///< ranks per group
        /// The number of the rank's communicator, from 0; sets with equal ranks share one. nullopt for a
        /// group of one, for a pick without this rank, and while `.lazy` defers the set.
        std::optional<int> communicator = {};
    };

    int world = 1;                 ///< ranks of the world
    std::vector<Set> sets = {};    ///< in the order of creation
    bool joins = false;            ///< true if any rank of the world gets a communicator
    int communicators = 0;         ///< communicators of two or more ranks
    std::int64_t connections = 0;  ///< connections: one to each peer in each communicator
};

/// Returns the cost of joining `plan` for `rank` in a world of `world` ranks.
///
/// Throws UsageError like join, for a rank outside the world, and for `.local`, because only a running job
/// knows which ranks share a host.
///
///     join_cost({{.mesh = {{"pp", 16}, {"dp", rest}, {"tp", 8}}}}, 1 << 20, 0).communicators == 3
RANKMESH_EXPORT JoinCost join_cost(const Plan& plan, int world, int rank);

/// How ranks communicate during a join: by messages, or by a store and then connections.
enum class JoinBy : std::uint8_t { messages, store };

/// The resources of one engine that a join needs.
struct EngineNeed {
    /// An amount of one resource per rank.
    struct Amount {
        std::string of;                            ///< the resource, such as `communicators`
        std::optional<std::int64_t> count = {};    ///< nullopt: no such limit exists
        std::optional<std::int64_t> outside = {};  ///< of a rank outside all meshes, if smaller
    };

    std::string engine;  ///< "mpi", "gloo" or "nccl"
    std::string text;    ///< `22 connections, each a file descriptor; the limit on this host is 1024`
    std::vector<Amount> amounts = {};  ///< the same as numbers
    bool fits = true;                  ///< false if it exceeds the limits of this process
    std::string outside = {};  ///< what a rank outside all meshes also needs, such as `NCCL's of all ranks`
    std::optional<JoinBy> by = {};  ///< nullopt: the ranks join by their host engine
};

/// Returns what a join of that cost needs from each engine, built or not. Engines that need nothing are
/// omitted.
///
///     for (const auto& need : needs_of(join_cost({{.mesh = {{"dp", 64}}}}, 64, 0)))
///         EXPECT_TRUE(need.fits) << need.text;
RANKMESH_EXPORT std::vector<EngineNeed> needs_of(const JoinCost& cost);

}  // namespace rankmesh
