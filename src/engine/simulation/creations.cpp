// SPDX-License-Identifier: Apache-2.0
#include "engine/simulation/creations.hpp"

#include <algorithm>

#include "engine/hash.hpp"

namespace rankmesh::detail {

bool Creations::add(int rank, std::size_t number, const ChannelRequest& request) {
    auto& made = made_[static_cast<std::size_t>(rank)];
    if (number < made.size()) return false;
    const auto& ranks = request.label->ranks;
    // What ranks have agreed on says of which table the positions are.
    const auto id = hash(to_string(ranks.group), hash(request.key));
    const auto next = static_cast<std::uint32_t>(groups_.size());
    const auto [found, is_new] = numbers_.try_emplace(id, next);
    if (is_new) groups_.push_back({.size = ranks.size()});
    made.push_back(found->second);
    return true;
}

std::vector<Creations::Stuck> Creations::match(std::vector<Replay::Progress>& progress,
                                               const std::function<double(int size)>& cost) {
    auto next = std::vector<std::uint32_t>(made_.size());  // by rank: how many of its groups are made
    auto before = std::vector<int>(made_.size(), -1);      // by rank: who arrived before it
    auto ready = first_ranks(static_cast<int>(made_.size()));
    while (!ready.empty()) {
        const auto rank = ready.back();
        const auto i = static_cast<std::size_t>(rank);
        ready.pop_back();
        if (next[i] == made_[i].size()) continue;
        auto& group = groups_[made_[i][next[i]]];
        group.time = std::max(group.time, progress[i].time);
        group.rounds = std::max(group.rounds, progress[i].rounds);
        before[i] = group.last;
        group.last = rank;
        if (++group.arrived < group.size) continue;
        const auto time = group.time + cost(group.size);
        for (auto member = group.last; member >= 0;) {
            const auto m = static_cast<std::size_t>(member);
            progress[m].time = time;
            progress[m].rounds = group.rounds;
            ++next[m];
            ready.push_back(member);
            member = before[m];
        }
    }
    auto stuck = std::vector<Stuck>{};
    for (std::size_t i = 0; i < made_.size(); ++i)
        if (next[i] < made_[i].size()) stuck.push_back({static_cast<int>(i), next[i], made_[i][next[i]]});
    return stuck;
}

}  // namespace rankmesh::detail
