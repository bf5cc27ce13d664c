// SPDX-License-Identifier: Apache-2.0
// The cost model: bytes and seconds of a collective on the links of a cluster.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/placement.hpp>

namespace rankmesh {

/// The operations of the cost model. `docs/machines.md` has the formulas and their sources.
///
/// `bytes` is always the larger buffer of a rank: the buffer of all_reduce, the output of all_gather, the
/// input of reduce_scatter and all_to_all, the message of shift. shift sends to the next rank; the last rank
/// sends to the first.
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, shift };

inline constexpr auto collectives =
    std::array{Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
               Collective::all_to_all, Collective::shift};

RANKMESH_EXPORT std::string_view to_string(Collective collective);

/// Which groups of a partition communicate: one alone, or all at once.
enum class Busy : std::uint8_t { one_group, all_groups };

/// The cost of one collective.
struct CollectiveCost {
    std::int64_t steps = 0;  ///< messages that a rank sends one after another
    std::int64_t sent = 0;   ///< bytes that each rank sends
    /// For each level, the bytes that its busiest link carries in each direction.
    std::vector<std::int64_t> links = {};
    std::optional<double> seconds = {};  ///< nullopt if a crossed level has no bandwidth
    std::optional<int> slowest = {};     ///< the level whose link takes longest
};

/// Counts the messages of all groups along a set of axes on each link of a cluster. Rank r runs on device r.
///
/// all_reduce, all_gather and reduce_scatter use a ring in the order of the group, in parts of ceil(bytes /
/// size). all_to_all sends one such part to each other rank. shift sends all bytes to the next rank.
///
/// Law: the counts equal a simulation that follows every message of every step from link to link.
/// Law: on a cluster of one level the seconds follow the textbook: an all_reduce of n ranks over links of
/// bandwidth B and latency A takes 2(n-1) * (A + bytes/n / B).
/// Law: a group inside one unit does not use the link of that unit.
///
///     auto cluster = Cluster::parse("node:2(25GB/s,5us) gpu:4(450GB/s,2us)");
///     auto mesh = Mesh{{"dp", 2}, {"tp", 4}};
///     auto cost = Traffic(cluster, mesh, mesh.axes("dp")).cost(Collective::all_reduce, 1000000);
///     EXPECT_EQ(cost.links, (std::vector<std::int64_t>{4000000, 1000000}));
///     EXPECT_DOUBLE_EQ(cost.seconds.value(), 2 * 5e-6 + 4e6 / 25e9);
class RANKMESH_EXPORT Traffic {
public:
    /// Counts the messages. If strides and unit sizes divide each other, a million ranks take as long as
    /// eight; otherwise the time is proportional to the ranks.
    ///
    /// Throws UsageError if a rank has no device.
    Traffic(const Cluster& cluster, const Placement& placement, AxisSet axes);

    int group_count() const { return group_count_; }
    int group_size() const { return group_size_; }
    /// Returns the number of groups with ranks in more than one unit of that level.
    int straddling(int level) const { return straddling_[at(level)]; }
    /// Returns the number of the first such group in the partition; nullopt if there is none.
    std::optional<int> first_straddling(int level) const { return first_[at(level)]; }

    /// Returns the cost of a collective. Throws UsageError for negative bytes, or if one link carries more
    /// than 2^63 - 1 bytes.
    CollectiveCost cost(Collective collective, std::int64_t bytes, Busy busy = Busy::all_groups) const;

private:
    /// How many messages cross the link of one unit in one direction.
    struct Crossings {
        std::int64_t ring = 0;   // messages to the next rank of the ring
        std::int64_t pairs = 0;  // messages from each rank to each other rank
    };
    using Levels = std::vector<Crossings>;

    static std::size_t at(int i) { return static_cast<std::size_t>(i); }
    Traffic(const Cluster& cluster, const Partition& groups);
    bool count_by_strides(const Cluster& cluster, const Partition& groups, int offset);
    void count_by_walking(const Cluster& cluster, const std::vector<int>& ranks);
    std::optional<double> seconds(std::int64_t steps, const std::vector<std::int64_t>& links, int outermost,
                                  std::optional<int>& slowest) const;

    /// The speed of the links of one level.
    struct Speed {
        std::optional<double> bandwidth;
        std::optional<double> latency;
    };

    std::vector<Speed> speeds_;  // by level
    int group_count_ = 0;
    int group_size_ = 1;
    std::vector<int> straddling_;            // by level
    std::vector<std::optional<int>> first_;  // by level
    std::vector<Levels> alone_;  // for each outermost level that a group crosses: the largest counts
    Levels together_;            // counts of the busiest unit of each level
    int outermost_ = 0;          // the outermost level that any group crosses
};

}  // namespace rankmesh
