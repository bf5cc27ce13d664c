// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cost.hpp>

namespace rankmesh {

/// A rule: each group along a set of axes stays inside one unit of a level: `tp:node` or `tp,cp:node`.
struct Keep {
    std::vector<std::string> axes = {};
    std::string level = {};

    /// Reads `tp,cp:node`; throws UsageError.
    RANKMESH_EXPORT static Keep parse(std::string_view text);
    friend bool operator==(const Keep&, const Keep&) = default;
};

/// What is asked of a mesh on a cluster.
struct ClusterQuestions {
    /// Empty: `default_keeps`.
    std::vector<Keep> keep = {};
    /// The sets of axes whose costs are told; empty: each axis of two ranks or more.
    std::vector<std::vector<std::string>> sets = {};
    std::int64_t bytes = 64 << 20;  ///< of the larger buffer of a rank, as `Collective` says
};

/// What a mesh does on a cluster, where rank r runs on device r.
struct ClusterReport {
    /// What became of one rule.
    struct Rule {
        Keep keep;
        bool is_default = false;      ///< true if nobody asked for it
        int group_size = 0;           ///< ranks of a group
        int unit_size = 0;            ///< devices of the largest unit of the level
        bool divides = true;          ///< false if groups as large as that do not fill each unit of the level
        int groups = 0;               ///< in all
        int straddling = 0;           ///< of them with ranks in more than one unit of the level
        std::vector<int> first = {};  ///< the ranks of the first of those
        std::vector<int> units = {};  ///< the unit of each of these ranks
        bool holds() const { return straddling == 0; }
    };

    /// What the groups along a set of axes cost.
    struct Costs {
        std::vector<std::string> axes = {};
        int groups = 0;
        int group_size = 0;
        std::vector<int> straddling = {};  ///< by level: the groups with ranks in more than one unit of it
        std::array<CollectiveCost, collectives.size()> alone = {};     ///< of one group, the slowest
        std::array<CollectiveCost, collectives.size()> together = {};  ///< of all groups at once
    };

    int ranks = 0;      ///< of the mesh
    int last_rank = 0;  ///< the highest
    int devices = 0;    ///< of the cluster
    /// The rest is empty if the mesh does not fit.
    std::vector<Rule> rules = {};
    /// Where nobody gave a rule: which of the axes `tp`, `cp` and `ep` are too large for one.
    std::vector<std::string> unruled = {};
    std::vector<Costs> costs = {};
    std::int64_t bytes = 0;  ///< that the costs are of

    /// False if a rank has no device.
    bool fits() const { return last_rank < devices; }
    /// True if the mesh fits and every rule holds.
    RANKMESH_EXPORT bool right() const;
};

/// The level inside whose units communication is fastest: the outermost one such that no link inside of its
/// units is slower than a device's own; nothing on a cluster of one level.
///
///     auto racks = Cluster::parse("rack:8(50GB/s) node:18(900GB/s) gpu:4(900GB/s)");
///     EXPECT_EQ(fastest_level(racks), racks.level("rack"));
RANKMESH_EXPORT std::optional<int> fastest_level(const Cluster& cluster);

/// The rules where nobody gives any: the axes `tp`, `cp` and `ep`, in this order, stay inside the fastest
/// level as long as all of them up to there fit into its largest unit.
///
///     auto keeps = default_keeps(Cluster::parse("node:4 gpu:8"), Mesh{{"dp", 2}, {"cp", 4}, {"tp", 4}});
///     EXPECT_EQ(keeps, std::vector{Keep::parse("tp:node")});
RANKMESH_EXPORT std::vector<Keep> default_keeps(const Cluster& cluster, const Mesh& mesh);

/// Throws UsageError for an axis that the mesh does not have, or a level that the cluster does not have.
///
///     auto mesh = Mesh{{"tp", 8}, {"dp", 2}};
///     auto report = check_on(Cluster::parse("node:2 gpu:8"), mesh);
///     EXPECT_FALSE(report.right());
///     EXPECT_EQ(report.rules.at(0).straddling, 2);
RANKMESH_EXPORT ClusterReport check_on(const Cluster& cluster, const Mesh& mesh,
                                       const ClusterQuestions& questions = {});
RANKMESH_EXPORT ClusterReport check_on(const Cluster& cluster, const Placement& placement,
                                       const ClusterQuestions& questions = {});

}  // namespace rankmesh
