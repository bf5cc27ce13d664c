// SPDX-License-Identifier: Apache-2.0
#include "explain/wait_graph.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>

namespace rankmesh::detail::explaining {

int WaitGraph::call(std::vector<int> missing) {
    missing_.push_back(std::move(missing));
    return static_cast<int>(missing_.size()) - 1;
}

void WaitGraph::narrow(const std::vector<int>& calls) {
    if (calls.empty()) return;
    const auto is_narrow = [&](int call) { return std::ranges::count(calls, call) > 0; };
    auto goes_on = std::vector<bool>(held_by_.size());
    for (std::size_t rank = 0; rank < held_by_.size(); ++rank) goes_on[rank] = held_by_[rank] == free;
    const auto may = [&](int rank) { return goes_on[at(rank)]; };
    for (auto changed = true; changed;) {
        changed = false;
        for (const auto rank : held()) {
            if (may(rank)) continue;
            auto& others = missing_[at(held_by_[at(rank)])];
            const auto any = is_narrow(held_by_[at(rank)]);
            if (!(any ? std::ranges::any_of(others, may) : std::ranges::all_of(others, may))) continue;
            if (any) std::erase_if(others, [&](int other) { return !may(other); });
            goes_on[at(rank)] = changed = true;
        }
    }
}

std::vector<int> WaitGraph::held() const {
    auto ranks = std::vector<int>{};
    for (int rank = 0; rank < static_cast<int>(held_by_.size()); ++rank)
        if (is_held(rank)) ranks.push_back(rank);
    return ranks;
}

std::vector<int> WaitGraph::roots() const {
    auto is_root = std::vector<bool>(held_by_.size());
    auto seen = std::vector<bool>(missing_.size());
    for (const auto call : held_by_) {
        if (call == free || seen[at(call)]) continue;
        seen[at(call)] = true;
        for (const auto rank : missing_[at(call)]) is_root[at(rank)] = !is_held(rank);
    }
    auto ranks = std::vector<int>{};
    for (int rank = 0; rank < static_cast<int>(is_root.size()); ++rank)
        if (is_root[at(rank)]) ranks.push_back(rank);
    return ranks;
}

std::vector<int> WaitGraph::cycle() const {
    enum class Mark : std::uint8_t { fresh, open, done };
    struct Visit {
        int rank;
        std::size_t next = 0;
    };
    auto marks = std::vector<Mark>(held_by_.size(), Mark::fresh);
    for (const auto root : held()) {
        if (marks[at(root)] != Mark::fresh) continue;
        auto path = std::vector<Visit>{{root}};
        marks[at(root)] = Mark::open;
        while (!path.empty()) {
            auto& [rank, next] = path.back();
            const auto& others = blockers(rank);
            if (next == others.size()) {
                marks[at(rank)] = Mark::done;
                path.pop_back();
                continue;
            }
            const auto other = others[next++];
            if (!is_held(other) || marks[at(other)] == Mark::done) continue;
            if (marks[at(other)] == Mark::open) return shortest_cycle(other);
            marks[at(other)] = Mark::open;
            path.push_back({other});
        }
    }
    return {};
}

/// Returns the shortest cycle through `start`, beginning with its lowest rank.
std::vector<int> WaitGraph::shortest_cycle(int start) const {
    auto before = std::map<int, int>{};
    auto queue = std::deque<int>{start};
    for (; !queue.empty(); queue.pop_front())
        for (const auto other : blockers(queue.front())) {
            if (other == start) {
                auto ranks = std::vector<int>{};
                for (auto rank = queue.front(); rank != start; rank = before.at(rank)) ranks.push_back(rank);
                ranks.push_back(start);
                std::ranges::reverse(ranks);
                std::ranges::rotate(ranks, std::ranges::min_element(ranks));
                return ranks;
            }
            if (is_held(other) && before.try_emplace(other, queue.front()).second) queue.push_back(other);
        }
    return {};
}

std::vector<int> WaitGraph::path(int rank) const {
    auto ranks = std::vector<int>{rank};
    while (is_held(ranks.back())) ranks.push_back(blockers(ranks.back()).front());
    return ranks;
}

}  // namespace rankmesh::detail::explaining
