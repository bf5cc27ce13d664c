// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::cli {

/// Returns the name of each rank's host. Collective over `all`, which has all ranks.
std::vector<std::string> hosts_of(World& world, Communicator& all);

/// Returns the cluster of a job from its host names: `node[a,b]:4`. Throws UsageError if the ranks of a host
/// are not contiguous.
Cluster cluster_of_hosts(const std::vector<std::string>& host_of_rank);

/// Returns a text about the first rank on a wrong host: the host's name differs from its unit's name, or from
/// the host of an earlier rank of the unit. Units are those of the level `node` or `host`, else of the
/// innermost named level, else of the level around the devices.
std::optional<std::string> rank_elsewhere(const Cluster& cluster,
                                          const std::vector<std::string>& host_of_rank);

}  // namespace rankmesh::cli
