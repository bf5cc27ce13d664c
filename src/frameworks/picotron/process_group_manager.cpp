// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include <cstdlib>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::picotron {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "picotron::plan(sizes)";

std::optional<int> local_rank_from_environment() {
    const auto* given = std::getenv("LOCAL_RANK");
    if (!given) return std::nullopt;
    return std::atoi(given);
}

}  // namespace

Mesh mesh(const Sizes& sizes, int world_size) {
    const auto product = std::int64_t{sizes.tp} * sizes.cp * sizes.pp * sizes.dp;
    if (product != world_size)
        throw Error(Fault::sizes, cat("World size (", world_size, ") != TP (", sizes.tp, ") * CP (", sizes.cp,
                                      ") * PP (", sizes.pp, ") * DP (", sizes.dp, ")"));
    for (auto size : {sizes.dp, sizes.pp, sizes.cp, sizes.tp})
        if (size < 1)
            throw Error(Fault::sizes, cat("a size of ", size, " was given; every size is 1 or more"));
    return {{"dp", sizes.dp}, {"pp", sizes.pp}, {"cp", sizes.cp}, {"tp", sizes.tp}};
}

Plan plan(const Sizes& sizes) {
    return {{.mesh = {{"dp", sizes.dp}, {"pp", sizes.pp}, {"cp", sizes.cp}, {"tp", sizes.tp}},
             .over = {{"cp", "dp"}, {"pp", "dp"}}}};
}

RankInfo::RankInfo(const Sizes& sizes, int rank, int world, std::optional<int> local)
    : grid(mesh(sizes, world)), global_rank(rank), world_size(world), local_rank(local.value_or(rank)) {
    if (rank < 0 || rank >= world)
        throw Error(Fault::out_of_range,
                    cat("rank ", rank, " of a world of ", world, "; ranks are 0..", world - 1));
    dp_rank = grid.index(rank, "dp");
    pp_rank = grid.index(rank, "pp");
    cp_rank = grid.index(rank, "cp");
    tp_rank = grid.index(rank, "tp");
    tp_group_ids = grid.group(rank, "tp");
    cp_group_ids = grid.group(rank, "cp");
    pp_group_ids = grid.group(rank, "pp");
    dp_group_ids = grid.group(rank, "dp");
    cp_dp_group_ids = grid.group(rank, "cp", "dp");
    pp_dp_group_ids = grid.group(rank, "pp", "dp");
    const auto ends = [](const Group& group, int& size, int& first, int& last) {
        size = group.size();
        first = group.front();
        last = group.back();
    };
    ends(tp_group_ids, tp_world_size, tp_first_rank, tp_last_rank);
    ends(cp_group_ids, cp_world_size, cp_first_rank, cp_last_rank);
    ends(pp_group_ids, pp_world_size, pp_first_rank, pp_last_rank);
    ends(dp_group_ids, dp_world_size, dp_first_rank, dp_last_rank);
    cp_send_rank = *grid.neighbor(rank, "cp", +1, Edge::wrap);
    cp_recv_rank = *grid.neighbor(rank, "cp", -1, Edge::wrap);
    pp_is_first_stage = pp_rank == 0;
    pp_is_last_stage = pp_rank == sizes.pp - 1;
    pp_next_rank = grid.neighbor(rank, "pp", +1);
    pp_prev_rank = grid.neighbor(rank, "pp", -1);
    cp_dp_world_size = cp_dp_group_ids.size();
    pp_dp_world_size = pp_dp_group_ids.size();
}

std::string RankInfo::str() const {
    return cat("TP(", tp_world_size, ")-CP(", cp_world_size, ")-PP(", pp_world_size, ")-DP(", dp_world_size,
               ")-Rank(", global_rank, ")");
}

ProcessGroupManager::ProcessGroupManager(const Member& member, const Sizes& sizes)
    : RankInfo(sizes, member.rank(), member.mesh().size(), local_rank_from_environment()),
      tp_group((dialect::check_mesh(member, grid, joined_with),
                dialect::communicator(member, {"tp"}, joined_with))),
      cp_group(dialect::communicator(member, {"cp"}, joined_with)),
      pp_group(dialect::communicator(member, {"pp"}, joined_with)),
      dp_group(dialect::communicator(member, {"dp"}, joined_with)),
      cp_dp_group(dialect::communicator(member, {"cp", "dp"}, joined_with)),
      pp_dp_group(dialect::communicator(member, {"pp", "dp"}, joined_with)) {}

ProcessGroupManager setup_process_group_manager(const Member& member, int tp_size, int cp_size, int pp_size,
                                                int dp_size) {
    return {member, {.tp = tp_size, .cp = cp_size, .pp = pp_size, .dp = dp_size}};
}

}  // namespace rankmesh::picotron
