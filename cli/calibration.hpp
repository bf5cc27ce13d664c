// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/world.hpp>

#include "link_fit.hpp"
#include "progress.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

/// What the ranks of a job have measured of the machines that they run on.
struct Calibration {
    Cluster cluster;                           ///< with the links that were measured
    std::vector<std::optional<LinkFit>> fits;  ///< by level; nothing where no two units have a common parent
};

/// Times messages across each level of `given`, else of the hosts that the ranks run on, while all ranks send
/// at once: each to the same rank of the next unit. Every rank of the world calls it, with a channel of all
/// ranks.
///
/// The bandwidth of a level is that of the busiest link, over which the ranks of its unit send together.
/// Throws UsageError if `given` has not as many devices as the world has ranks.
Calibration calibrate(World& world, Communicator& all, const std::optional<Cluster>& given,
                      Progress& progress);

/// `12.3 GB/s [11..12.9]`.
std::string gigabytes_text(const Estimate& bandwidth);
/// `3.4 us [3.1..5]`.
std::string microseconds_text(const Estimate& latency);
Json json_of(const Calibration& calibration);

/// The cluster file: what was measured as comments, then the cluster.
std::string to_file(const Calibration& calibration, const World& world);

}  // namespace rankmesh::cli
