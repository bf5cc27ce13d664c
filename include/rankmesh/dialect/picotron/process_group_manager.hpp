// SPDX-License-Identifier: Apache-2.0
// picotron's ProcessGroupManager: the grid (dp, pp, cp, tp), tp fastest.
#pragma once

#include <optional>
#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::picotron {

/// The sizes that picotron's configuration gives, in its order.
struct Sizes {
    int tp = 1;
    int cp = 1;
    int pp = 1;
    int dp = 1;
};

/// `dp pp cp tp` over the whole world.
///
/// Throws dialect::Error where the sizes do not multiply to the world, or one is below 1.
///
///     to_string(picotron::mesh({.tp = 2, .pp = 2}, 4)) == "dp=1 pp=2 cp=1 tp=2"
RANKMESH_EXPORT Mesh mesh(const Sizes& sizes, int world_size);

/// The plan to join for ProcessGroupManager.
RANKMESH_EXPORT Plan plan(const Sizes& sizes);

/// What picotron's manager knows of one rank, under its names, without starting a process.
struct RANKMESH_EXPORT RankInfo {
    /// `local_rank` is LOCAL_RANK of the environment where that is set, else the global rank.
    RankInfo(const Sizes& sizes, int global_rank, int world_size, std::optional<int> local_rank = {});

    /// `TP(2)-CP(2)-PP(2)-DP(1)-Rank(3)`.
    std::string str() const;

    Mesh grid;
    int global_rank, world_size, local_rank;
    int dp_rank, pp_rank, cp_rank, tp_rank;
    Group tp_group_ids, cp_group_ids, pp_group_ids, dp_group_ids;
    Group cp_dp_group_ids, pp_dp_group_ids;  ///< dp-major

    int tp_world_size, tp_first_rank, tp_last_rank;
    int cp_world_size, cp_first_rank, cp_last_rank;
    int cp_send_rank, cp_recv_rank;  ///< the next and the one before in the ring
    int pp_world_size, pp_first_rank, pp_last_rank;
    bool pp_is_first_stage, pp_is_last_stage;
    std::optional<int> pp_next_rank, pp_prev_rank;  ///< nothing at the ends
    int dp_world_size, dp_first_rank, dp_last_rank;
    int cp_dp_world_size, pp_dp_world_size;
};

/// The same, live: with its communicators.
///
/// Throws UsageError for a member whose plan lacks one of them, or has a mesh of other sizes; `plan` has all.
struct RANKMESH_EXPORT ProcessGroupManager : RankInfo {
    ProcessGroupManager(const Member& member, const Sizes& sizes);

    Communicator tp_group, cp_group, pp_group, dp_group, cp_dp_group, pp_dp_group;
};

/// picotron's own way to make it; the object that the original leaves in a global variable is the caller's.
RANKMESH_EXPORT ProcessGroupManager setup_process_group_manager(const Member& member, int tp_size,
                                                                int cp_size, int pp_size, int dp_size);

}  // namespace rankmesh::picotron
