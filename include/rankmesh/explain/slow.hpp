// SPDX-License-Identifier: Apache-2.0
// Finds what makes a running job slow: from records of calls that have ended.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/export.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/explain/record.hpp>

namespace rankmesh {

/// Ranks that make a job slow.
struct SlowFinding {
    enum class Kind : std::uint8_t {
        computes,  ///< the ranks take longer between calls than the others
        paused,    ///< the same, but nearly all of it once
        transfers  ///< calls of their group take longer, without the wait for its last rank, than of other
                   ///< groups
    };

    Kind kind = Kind::computes;
    std::vector<int> ranks = {};
    std::vector<std::string> coordinates = {};  ///< of the ranks; empty if no mesh is known
    std::vector<std::string> hosts = {};        ///< of the ranks; "" if a record has none
    double seconds = 0;                         ///< more than the others, in all calls that were compared
    double lost = 0;                            ///< what other ranks waited for these, together
    std::string text = {};                      ///< a sentence
    std::vector<std::string> details = {};      ///< one more sentence each
};

/// Who comes last to the calls of one group.
struct LastRank {
    std::string communicator = {};
    std::string axes = {};  ///< of the communicator; empty: not known
    std::vector<int> group = {};
    int rank = 0;
    int calls = 0;      ///< of the group that were compared
    int last = 0;       ///< those to which the rank came last
    double late = 0;    ///< seconds after the rank before it, in the middle of these calls
    double waited = 0;  ///< seconds that the others waited for it, together
};

/// The seconds of a rank between calls, waiting for the last rank of a call, and in calls after that.
struct RankTime {
    int rank = 0;
    double computes = 0;
    double waits = 0;
    double transfers = 0;
};

/// The result of `explain_slow`.
struct SlowReport {
    static constexpr double least_share = 0.03;  ///< of `span`, from which ranks are slow, and waits are told
    std::vector<SlowFinding> findings = {};      ///< what costs most first
    std::vector<LastRank> last = {};             ///< a row for each group, most waited first
    std::vector<RankTime> times = {};            ///< by rank
    std::vector<int> unjudged = {};  ///< ranks with a record, but without a call that was compared
    double span = 0;                 ///< seconds between the first and the last call
    double clock_error = 0;          ///< of times between hosts, in seconds: half of the calls fit better
    std::vector<std::string> doubts = {};  ///< why the records cannot tell
};

/// Compares the times of the last calls of each rank, which need not have failed. Clocks of hosts are aligned
/// by the calls: all ranks leave a collective at nearly the same time. A unit of `cluster` is named if
/// exactly its ranks are slow.
RANKMESH_EXPORT SlowReport explain_slow(std::span<const FlightRecord> records,
                                        const std::optional<Placement>& where = {},
                                        const std::optional<Cluster>& cluster = {});

/// Returns the name of a kind: `computes`, ...
RANKMESH_EXPORT std::string_view to_string(SlowFinding::Kind kind);

}  // namespace rankmesh
