// SPDX-License-Identifier: Apache-2.0
// Who has arrived at a call or a step, who is missing, and what the missing ranks do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

/// What an engine says of a rank that has not arrived, after the name of the rank.
namespace missing_because {
inline constexpr auto it_left = "is gone: it has ended this communicator";
inline constexpr auto its_process_ended = "is gone";
/// The rank has not answered, and the engine does not see its process.
inline constexpr auto it_is_silent = "does not answer: it is stopped, cut off or gone";
/// The rank has not answered, and its process is there.
inline constexpr auto it_is_stopped = "is stopped, or has no time to answer";
}  // namespace missing_because

/// An error describes this many missing ranks at most.
inline constexpr auto most_described = std::size_t{4};

/// What the first few of the missing ranks do: `rank 3 [dp=1] is in ...; rank 5 [dp=2] is gone`. `doing` says
/// it of a world rank.
std::string last_seen(const std::vector<int>& missing, const Label& label,
                      const std::function<std::string(int)>& doing);

/// The ranks of a group at one of its calls, or of a world at a step, as one rank knows. Ranks are world
/// ranks.
struct Attendance {
    std::vector<int> arrived;
    std::vector<int> missing;
    std::vector<int> unreachable = {};  ///< ranks on other hosts, which the engine cannot ask
    std::string seen = {};              ///< what the missing ranks do, as `last_seen` says it

    /// Sorts the ranks of the group by their answers. `statuses` are by group rank; ranks behind the last one
    /// were not asked. `awaited` lists the group ranks that a message waits for, and is empty for a
    /// collective.
    static Attendance of(const Label& label, int group_rank, const std::vector<int>& awaited,
                         const std::vector<Channel::PeerStatus>& statuses);

    /// `arrived ranks {0..2}, missing rank 3 [dp=3]`, with the coordinates of the group's mesh.
    std::string text(const Label& label) const;
};

/// The failure of a timeout that expired on `rank` in a call; `what` is the call as `numbered` writes it.
Failure timeout_failure(Duration timeout, int rank, const std::string& what, const Label& label,
                        Attendance ranks);

/// The failure of that timeout for a rank of the group that is in another call.
Failure timeout_failure_elsewhere(const Label& label, Attendance ranks);

/// The error of a timeout in a step that is not a call of a group, such as `join`; `missing_text` names the
/// missing ranks.
Timeout timeout_error_in(const std::string& phase, Duration timeout, int rank,
                         const std::vector<int>& arrived, const std::vector<int>& missing,
                         const std::string& missing_text, const std::string& seen = {});

}  // namespace rankmesh::detail
