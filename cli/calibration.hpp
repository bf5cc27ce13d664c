// SPDX-License-Identifier: Apache-2.0
// The hosts and the links of a job's ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/world.hpp>

#include "link_fit.hpp"
#include "output.hpp"
#include "topology.hpp"

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

/// The links that the ranks of a job have measured.
struct Calibration {
    Cluster cluster;                           ///< with the measured links
    std::vector<std::optional<LinkFit>> fits;  ///< by level; nullopt if no two units have a common parent
};

/// Times messages across each level of `given`, or of the ranks' hosts, while all ranks send at once, each to
/// the same rank of the next unit. Collective over the world; `all` is a communicator of all ranks.
///
/// The bandwidth of a level is that of its busiest link, which the ranks of a unit share. Throws UsageError
/// unless `given` has as many devices as the world has ranks.
Calibration calibrate(World& world, Communicator& all, const std::optional<Cluster>& given,
                      Progress& progress);

/// `12.3 GB/s [11..12.9]`.
std::string gigabytes_text(const Estimate& bandwidth);
/// `3.4 us [3.1..5]`.
std::string microseconds_text(const Estimate& latency);
Json json_of(const Calibration& calibration);

/// Returns the cluster file: the measurements as comments, then the cluster.
std::string to_file(const Calibration& calibration, const World& world);

}  // namespace rankmesh::cli
