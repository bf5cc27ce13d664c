// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/explain/record.hpp>

namespace rankmesh {

/// One thing that went wrong.
struct Finding {
    enum class Kind : std::uint8_t {
        calls_differ,  ///< a rank called something else than the others of its group
        peer,          ///< messages whose ends do not name each other
        cycle,         ///< ranks wait for one another in a circle
        extra,         ///< ranks made a call that most others of their group did not
        absent,        ///< a rank is gone, or others wait for it and it has no record
        left,          ///< others lost a rank whose own record says why
        unfinished,    ///< all ranks came to a call, and it does not end: on `ranks`, or, if empty, on all
        behind,        ///< others wait for a rank that is outside any call
        failed,        ///< a rank says that something went wrong, and records do not say what
        order          ///< nothing hangs here, but in another order of arrival it can
    };

    Kind kind = Kind::behind;
    std::vector<int> ranks;  ///< the culprits, ascending; where records cannot tell, all who differ
    std::vector<std::string> coordinates;  ///< of these ranks; empty where no mesh is known
    std::string communicator;              ///< as texts name it, `'tp' of mesh dp=2 tp=2`; empty: none
    std::string axes;                      ///< where they are known
    std::vector<int> group;
    std::int64_t call = 0;             ///< its number on the communicator, from 1; 0: none
    std::string text;                  ///< a sentence
    std::vector<std::string> details;  ///< more, a sentence each
};

/// `calls_differ`, ...
RANKMESH_EXPORT std::string_view to_string(Finding::Kind kind);

/// What records of a job say went wrong.
struct Explanation {
    std::vector<Finding> findings;    ///< the culprit first
    std::vector<std::string> doubts;  ///< without findings: why records do not show that nothing is wrong
    std::vector<std::string> notes;   ///< on files that are missing or hold no record, and the like
    int ranks = 0;                    ///< of the world, as far as records know it
};

/// Compares the records of a job's ranks; `where` gives ranks their coordinates, else a mesh in the records
/// does.
RANKMESH_EXPORT Explanation explain(std::span<const FlightRecord> records,
                                    std::span<const UnreadFile> unread = {},
                                    const std::optional<std::variant<Mesh, Placement>>& where = {});

}  // namespace rankmesh
