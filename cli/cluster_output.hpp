// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/check.hpp>

#include "bytes.hpp"
#include "output.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

/// What the subcommands that count costs on a cluster take besides a mesh.
struct OnCluster {
    std::optional<std::string> on;
    std::vector<std::string> keep;
    Bytes bytes = {};  // 0: not given
    bool explain = false;

    std::vector<Option> options();
    /// The cluster and the questions; nothing without `--on`. Throws UsageError for what then says nothing.
    std::optional<std::pair<Cluster, ClusterQuestions>> questions() const;
};

void print_report(const Cluster& cluster, const Topology& topology, const ClusterReport& report, bool explain,
                  Output& output);
Json json_of(const Cluster& cluster, const ClusterReport& report);

/// `981.5 MB`: decimal, as bandwidths are.
std::string megabytes_text(std::int64_t bytes);

}  // namespace rankmesh::cli
