// SPDX-License-Identifier: Apache-2.0
// The graph of ranks that wait for ranks when no rank continues.
#pragma once

#include <vector>

namespace rankmesh::detail::explaining {

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A rank is held by a call; a call waits for the ranks that have not made it.
class WaitGraph {
public:
    explicit WaitGraph(std::size_t ranks) : held_by_(ranks, free) {}

    /// Adds a call that these ranks have not made, and returns its number.
    int call(std::vector<int> missing);
    /// A call needs one of its ranks only: while one of them may go on, it waits for no other. Called once
    /// all ranks are held.
    void narrow(const std::vector<int>& calls);
    void hold(int rank, int call) { held_by_[at(rank)] = call; }

    bool is_held(int rank) const { return held_by_[at(rank)] != free; }
    /// Returns the ranks that a held rank waits for.
    const std::vector<int>& blockers(int rank) const { return missing_[at(held_by_[at(rank)])]; }
    std::vector<int> held() const;
    /// Returns the ranks that are not held but for which held ranks wait, ascending.
    std::vector<int> roots() const;

    /// Returns a cycle: each rank waits for the next, the last for the first; empty: none.
    std::vector<int> cycle() const;
    /// Returns a path from a held rank to a rank that is not held; each waits for the next. Requires a graph
    /// without cycles.
    std::vector<int> path(int rank) const;

private:
    static constexpr int free = -1;
    std::vector<int> shortest_cycle(int start) const;

    std::vector<int> held_by_;               // by rank
    std::vector<std::vector<int>> missing_;  // by call
};

}  // namespace rankmesh::detail::explaining
