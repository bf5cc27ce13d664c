// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job stood when their records were written.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "explain/evidence.hpp"
#include "explain/messages.hpp"
#include "explain/wait_graph.hpp"

namespace rankmesh::detail::explaining {

/// The calls in which ranks were when their records were written, and the ranks that have not made these
/// calls.
class Standing {
public:
    Standing(const Evidence& evidence, const Messages& messages);

    struct Waiting {
        const RecordedEntry* entry = nullptr;
        std::vector<int> ranks;    ///< world ranks that wait in the call
        std::vector<int> missing;  ///< world ranks
    };

    const WaitGraph& graph() const { return graph_; }
    /// Returns each call in which ranks wait for other ranks; calls that wait for the fewest ranks first.
    std::vector<const Waiting*> waiting() const;
    /// Returns each collective that all members have made and that has not ended on all.
    const std::map<std::pair<int, std::int64_t>, std::vector<int>>& unfinished() const { return unfinished_; }
    /// Returns the call in which a held rank waits.
    const RecordedEntry& entry(int rank) const { return *held_.at(rank); }
    std::vector<int> world_ranks(const std::vector<int>& places) const;

private:
    void place(int rank, const FlightRecord& record);
    int add(const RecordedEntry& entry, std::vector<int> missing);
    int message(int rank, const RecordedEntry& entry);
    int collective(const RecordedEntry& entry);
    std::int64_t last_call(const Member& member) const;
    std::vector<int> missing(int communicator, std::int64_t number);

    /// A communicator whose calls ranks may wait in.
    struct Awaited {
        std::set<std::int64_t> numbers;                     ///< of these calls
        std::vector<std::pair<std::int64_t, int>> members;  ///< the last call to which each rank has come
    };

    const Evidence& evidence_;
    const Messages& messages_;
    WaitGraph graph_;
    std::vector<Waiting> waiting_;  // index: call of the graph
    std::map<std::pair<int, std::int64_t>, int> calls_;
    std::map<int, Awaited> awaited_;  // by communicator
    std::map<std::pair<int, std::int64_t>, std::vector<int>> unfinished_;
    std::map<int, const RecordedEntry*> held_;
    std::vector<int> from_any_;  // calls of the graph that need one of the ranks that are missing
};

/// Returns all members of the communicators in which these ranks wait; with `alike`, also of other
/// communicators along the same axes.
std::vector<int> concerned(const Evidence& evidence, const Standing& standing, const std::vector<int>& ranks,
                           bool alike = false);

/// Returns `rank 0 waits in barrier, call 3 on 'tp' {0, 1}, for rank 1`.
std::string waits_text(const Evidence& evidence, const Standing::Waiting& waiting);

}  // namespace rankmesh::detail::explaining
