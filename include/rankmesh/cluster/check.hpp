// SPDX-License-Identifier: Apache-2.0
// Checks whether a mesh suits a cluster: rules about groups, and the cost of their collectives.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cost.hpp>

namespace rankmesh {

/// A rule: each group along a set of axes must stay inside one unit of a level: `tp:node`, `tp,cp:node`.
struct Keep {
    std::vector<std::string> axes = {};
    std::string level = {};

    /// Reads `tp,cp:node`. Throws UsageError for any other text.
    RANKMESH_EXPORT static Keep parse(std::string_view text);
    friend bool operator==(const Keep&, const Keep&) = default;
};

/// The questions that `check_on` answers.
struct ClusterQuestions {
    /// The rules to check; empty: `default_keeps`.
    std::vector<Keep> keep = {};
    /// The sets of axes to compute costs for; empty: each axis of two or more ranks.
    std::vector<std::vector<std::string>> sets = {};
    std::int64_t bytes = 64 << 20;  ///< the larger buffer of a rank, see `Collective`
};

/// How a mesh fits a cluster if rank r runs on device r.
struct ClusterReport {
    /// The result of one rule.
    struct Rule {
        Keep keep;
        bool is_default = false;      ///< true if the rule comes from `default_keeps`
        int group_size = 0;           ///< ranks of a group
        int unit_size = 0;            ///< devices of the largest unit of the level
        bool divides = true;          ///< false if a unit of the level is not a whole number of such groups
        int groups = 0;               ///< number of groups
        int straddling = 0;           ///< groups with ranks in more than one unit of the level
        std::vector<int> first = {};  ///< the ranks of the first straddling group
        std::vector<int> units = {};  ///< the unit of each rank in `first`
        bool holds() const { return straddling == 0; }
    };

    /// The communication costs of the groups along a set of axes.
    struct Costs {
        std::vector<std::string> axes = {};
        int groups = 0;
        int group_size = 0;
        std::vector<int> straddling = {};  ///< for each level: groups with ranks in more than one unit
        std::array<CollectiveCost, collectives.size()> alone = {};     ///< one group alone: the slowest
        std::array<CollectiveCost, collectives.size()> together = {};  ///< all groups at once
    };

    int ranks = 0;      ///< ranks of the mesh
    int last_rank = 0;  ///< the highest rank
    int devices = 0;    ///< devices of the cluster
    int others = 0;     ///< devices that others of the job's meshes use
    /// This and all below are empty if the mesh does not fit.
    std::vector<Rule> rules = {};
    /// With default rules: the axes among `cp` and `ep` that are too large for a rule.
    std::vector<std::string> unruled = {};
    std::vector<Costs> costs = {};
    std::int64_t bytes = 0;  ///< the buffer size of the costs

    /// Returns false if a rank has no device.
    bool fits() const { return last_rank < devices; }
    /// Returns true if the mesh fits and every rule holds.
    RANKMESH_EXPORT bool right() const;
};

/// Returns the outermost level inside whose units no link is slower than a device's own link. Returns nullopt
/// for a cluster of one level.
///
///     auto racks = Cluster::parse("rack:8(50GB/s) node:18(900GB/s) gpu:4(900GB/s)");
///     EXPECT_EQ(fastest_level(racks), racks.level("rack"));
RANKMESH_EXPORT std::optional<int> fastest_level(const Cluster& cluster);

/// Returns the default rules: the axes `tp`, `etp`, `cp` and `ep`, in this order, must stay inside the
/// fastest level. `tp` and `etp` always get a rule: their groups exchange activations within each layer,
/// while those of `cp` and `ep` often span nodes. These get one if they fit into the largest unit of that
/// level together with the axes before them.
///
///     auto keeps = default_keeps(Cluster::parse("node:4 gpu:8"), Mesh{{"dp", 2}, {"cp", 4}, {"tp", 4}});
///     EXPECT_EQ(keeps, std::vector{Keep::parse("tp:node")});
RANKMESH_EXPORT std::vector<Keep> default_keeps(const Cluster& cluster, const Mesh& mesh);

/// Checks rules and computes costs. Throws UsageError for an axis that the mesh does not have, or a level
/// that the cluster does not have.
///
///     auto mesh = Mesh{{"tp", 8}, {"dp", 2}};
///     auto report = check_on(Cluster::parse("node:2 gpu:8"), mesh);
///     EXPECT_FALSE(report.right());
///     EXPECT_EQ(report.rules.at(0).straddling, 2);
RANKMESH_EXPORT ClusterReport check_on(const Cluster& cluster, const Placement& placement,
                                       const ClusterQuestions& questions = {});

}  // namespace rankmesh
