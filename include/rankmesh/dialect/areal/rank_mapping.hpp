// SPDX-License-Identifier: Apache-2.0
// AReaL's rank_mapping: which rank of the world is which rank of a model's topology.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/group.hpp>

namespace rankmesh::areal {

/// From topology ranks to world ranks.
///
///     areal::RankMapping(3, 2)[4] == 11 && areal::RankMapping({{0, 3}, {1, 5}})[1] == 5
class RANKMESH_EXPORT RankMapping {
public:
    /// The identity mapping.
    RankMapping() = default;
    /// Topology rank r is world rank offset + r * step.
    explicit RankMapping(int offset, int step = 1) : offset_(offset), step_(step) {}
    /// The original's dictionary.
    RankMapping(std::map<int, int> ranks)
        : table_(std::make_shared<const std::map<int, int>>(std::move(ranks))) {}

    /// Throws dialect::Error where one of the topology's `size` ranks has no world rank, or one outside a
    /// world of `world_size`; dialect::Refusal ("mapping-not-rising") where a rank is not above the one
    /// before.
    void check(int size, int world_size) const;

    /// The world rank of a topology rank; throws dialect::Error where the dictionary lacks it.
    int operator[](int topology_rank) const;
    /// The rank among the topology's `size` that a world rank is, nothing if none; the mapping is increasing.
    std::optional<int> find(int world_rank, int size) const;
    /// The world ranks of a group, in its order.
    std::vector<int> of(const Group& topology_ranks) const;
    /// By how much the ranks rise; nothing for a dictionary.
    std::optional<int> step() const { return table_ ? std::nullopt : std::optional(step_); }

private:
    int offset_ = 0;
    int step_ = 1;
    std::shared_ptr<const std::map<int, int>> table_;
};

}  // namespace rankmesh::areal
