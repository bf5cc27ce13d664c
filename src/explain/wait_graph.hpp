// SPDX-License-Identifier: Apache-2.0
// Which ranks wait for which, where no rank goes on.
#pragma once

#include <map>
#include <vector>

namespace rankmesh::detail::explaining {

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Ranks are held by calls, and a call by the ranks that have not made it.
class WaitGraph {
public:
    explicit WaitGraph(std::size_t ranks) : held_by_(ranks, free) {}

    /// A call that these ranks have not made.
    int call(std::vector<int> missing);
    void hold(int rank, int call) { held_by_[at(rank)] = call; }

    bool is_held(int rank) const { return held_by_[at(rank)] != free; }
    /// The ranks that a held rank waits for.
    const std::vector<int>& blockers(int rank) const { return missing_[at(held_by_[at(rank)])]; }
    std::vector<int> held() const;
    /// Those that held ranks wait for, and that are not held, ascending.
    std::vector<int> roots() const;

    /// Ranks each of which waits for the next, the last for the first; empty if there is no such circle.
    std::vector<int> cycle() const;
    /// From a held rank to one that is not, each of which waits for the next; there must be no cycle.
    std::vector<int> path(int rank) const;

private:
    static constexpr int free = -1;
    std::vector<int> shortest_cycle(int start) const;

    std::vector<int> held_by_;               // by rank
    std::vector<std::vector<int>> missing_;  // by call
};

}  // namespace rankmesh::detail::explaining
