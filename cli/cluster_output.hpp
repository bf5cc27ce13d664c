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

/// The options of subcommands that compute costs on a cluster.
struct OnCluster {
    std::optional<std::string> on;
    std::vector<std::string> keep;
    Bytes bytes = {};  // 0: not given
    bool explain = false;

    std::vector<Option> options();
    /// Returns the cluster and the questions; nullopt without `--on`. Throws UsageError for options that need
    /// `--on`.
    std::optional<std::pair<Cluster, ClusterQuestions>> questions() const;
};

Json json_of(const Cluster& cluster, const ClusterReport& report);

}  // namespace rankmesh::cli
