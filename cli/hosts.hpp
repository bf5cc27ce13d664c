// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::cli {

/// The name of each rank's host; every rank calls it, with a channel of all ranks.
std::vector<std::string> hosts_of(World& world, Communicator& all);

/// The machines of a job by the names of its hosts: `node[a,b]:4`. Throws UsageError if the ranks of a host
/// do not follow one another.
Cluster cluster_of_hosts(const std::vector<std::string>& host_of_rank);

/// The first rank that runs on another host than the cluster says, in words: one that has another name than
/// its unit there, or than the host of an earlier rank of its unit. The units are those of the level `node`
/// or `host`, else of the innermost one with names, else of the level outside the devices.
std::optional<std::string> rank_elsewhere(const Cluster& cluster,
                                          const std::vector<std::string>& host_of_rank);

}  // namespace rankmesh::cli
