// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/placement.hpp>

namespace rankmesh {

/// What the model of costs knows; `docs/machines.md` has its formulas and their sources.
///
/// `bytes` is always the larger buffer of a rank: what all_reduce reduces, what all_gather results in, what
/// reduce_scatter and all_to_all take, what shift sends to the next rank, the last one to the first.
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, shift };

inline constexpr auto collectives =
    std::array{Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
               Collective::all_to_all, Collective::shift};

RANKMESH_EXPORT std::string_view to_string(Collective collective);

/// Which groups of a partition are busy: one, with the machine to itself, or all of them at once.
enum class Busy : std::uint8_t { one_group, all_groups };

/// What one collective costs.
struct CollectiveCost {
    std::int64_t steps = 0;  ///< messages that a rank sends one after the other
    std::int64_t sent = 0;   ///< bytes that each rank sends
    /// By level, the bytes that the busiest link of that level carries, as many in each direction.
    std::vector<std::int64_t> links = {};
    std::optional<double> seconds = {};  ///< nothing where a level that is crossed has no bandwidth
    std::optional<int> slowest = {};     ///< the level of the link that takes longest
};

/// The messages of all groups along a set of axes, counted on the links of a cluster: rank r runs on device
/// r.
///
/// all_reduce, all_gather and reduce_scatter run around a ring in the order of the group, in parts of
/// `bytes / size` rounded up; all_to_all sends one such part to each other rank, shift all to the next.
///
/// Law: the counts are those of walking every message of every step from link to link.
/// Law: on a cluster of one level the seconds are the textbook's: of an all_reduce among n ranks over links
/// of bandwidth B and latency A they are 2(n-1) * (A + bytes/n / B).
/// Law: a group inside one unit leaves the link of that unit alone.
///
///     auto cluster = Cluster::parse("node:2(25GB/s,5us) gpu:4(450GB/s,2us)");
///     auto mesh = Mesh{{"dp", 2}, {"tp", 4}};
///     auto cost = Traffic(cluster, mesh, mesh.axes("dp")).cost(Collective::all_reduce, 1000000);
///     EXPECT_EQ(cost.links, (std::vector<std::int64_t>{4000000, 1000000}));
///     EXPECT_DOUBLE_EQ(cost.seconds.value(), 2 * 5e-6 + 4e6 / 25e9);
class RANKMESH_EXPORT Traffic {
public:
    /// Takes no longer for a million ranks than for eight where strides and units divide each other, and else
    /// time in proportion to the ranks.
    ///
    /// Throws UsageError if a rank has no device.
    Traffic(const Cluster& cluster, const Mesh& mesh, AxisSet axes);
    Traffic(const Cluster& cluster, const Placement& placement, AxisSet axes);

    int group_count() const { return group_count_; }
    int group_size() const { return group_size_; }
    /// How many groups have ranks in more than one unit of that level.
    int straddling(int level) const { return straddling_[at(level)]; }
    /// The number of the first of them in the partition; nothing if there is none.
    std::optional<int> first_straddling(int level) const { return first_[at(level)]; }

    /// Throws UsageError for negative bytes, and for more than 2^63 - 1 over one link.
    CollectiveCost cost(Collective collective, std::int64_t bytes, Busy busy = Busy::all_groups) const;

private:
    /// How often one unit's link is crossed in one direction.
    struct Crossings {
        std::int64_t ring = 0;   // by messages to the next rank of the ring
        std::int64_t pairs = 0;  // by messages from each rank to each other
    };
    using Levels = std::vector<Crossings>;

    static std::size_t at(int i) { return static_cast<std::size_t>(i); }
    Traffic(const Cluster& cluster, const Partition& groups);
    bool count_by_strides(const Cluster& cluster, const Partition& groups, int offset);
    void count_by_walking(const Cluster& cluster, const std::vector<int>& ranks);
    std::optional<double> seconds(std::int64_t steps, const std::vector<std::int64_t>& links, int outermost,
                                  std::optional<int>& slowest) const;

    /// Of one level's link.
    struct Speed {
        std::optional<double> bandwidth;
        std::optional<double> latency;
    };

    std::vector<Speed> speeds_;  // by level
    int group_count_ = 0;
    int group_size_ = 1;
    std::vector<int> straddling_;            // by level
    std::vector<std::optional<int>> first_;  // by level
    std::vector<Levels> alone_;              // by the outermost level that a group crosses: the most of them
    Levels together_;                        // of the busiest unit of each level
    int outermost_ = 0;                      // the outermost level that any group crosses
};

}  // namespace rankmesh
