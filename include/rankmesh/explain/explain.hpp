// SPDX-License-Identifier: Apache-2.0
// Explains a hang or crash from the flight records of a job.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/explain/record.hpp>

namespace rankmesh {

/// One problem in the records of a job.
struct Finding {
    enum class Kind : std::uint8_t {
        calls_differ,  ///< a rank made another call than the other ranks of its group
        peer,          ///< the two ends of a message do not name each other
        cycle,         ///< ranks wait for one another in a cycle
        extra,         ///< ranks made a call that most others of their group did not
        fault,         ///< a log reports a fault of a device, a network or the memory
        absent,        ///< a rank is gone, or ranks wait for a rank without a record
        left,          ///< ranks lost a peer, and the peer's record says why
        unfinished,    ///< all ranks entered a call, but it does not end: on `ranks`, or, if empty, on all
        behind,        ///< ranks wait for a rank that is outside any call
        failed,        ///< a rank reports an error, but no record explains it
        order          ///< nothing hangs, but the calls deadlock without buffering
    };

    Kind kind = Kind::behind;
    std::vector<int> ranks;  ///< the ranks to blame, ascending; if the records cannot tell, all that differ
    std::vector<std::string> coordinates = {};  ///< the coordinates of `ranks`; empty if no mesh is known
    std::vector<std::string> hosts =
        {};                    ///< the hosts of `ranks`; "" for a rank without a record that names it
    std::string communicator;  ///< the communicator as texts name it, `'tp' of mesh dp=2 tp=2`; empty: none
    std::string axes;          ///< the axes of the communicator; empty: not known
    std::vector<int> group;
    bool is_group_inferred = false;         ///< the records do not list the ranks of the group
    std::int64_t call = 0;                  ///< the number of the call on the communicator, from 1; 0: none
    std::string text = {};                  ///< a sentence
    std::vector<std::string> details = {};  ///< one more sentence each
};

/// Returns the name of a kind: `calls_differ`, ...
RANKMESH_EXPORT std::string_view to_string(Finding::Kind kind);

/// The result of `explain`.
struct Explanation {
    std::vector<Finding> findings;    ///< the most likely cause first
    std::vector<std::string> doubts;  ///< without findings: why this does not prove that nothing is wrong
    std::vector<std::string> notes;   ///< remarks, for example on files that are missing or hold no record
    int ranks = 0;                    ///< size of the world, as far as the records know it
};

/// Compares the records of a job's ranks and returns what went wrong. Coordinates come from `where`, or else
/// from a mesh in the records. `lines` are of logs.
RANKMESH_EXPORT Explanation explain(std::span<const FlightRecord> records,
                                    std::span<const UnreadFile> unread = {},
                                    const std::optional<Placement>& where = {},
                                    std::span<const LoggedLine> lines = {});

}  // namespace rankmesh
