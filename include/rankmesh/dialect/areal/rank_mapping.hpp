// SPDX-License-Identifier: Apache-2.0
// AReaL's rank_mapping: which rank of the world is which rank of a model's topology.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/group.hpp>

namespace rankmesh::areal {

class MappedGroup;

/// From topology ranks to world ranks; where these rise in equal steps it holds no table.
///
///     areal::RankMapping(3, 2)[4] == 11 && areal::RankMapping({{0, 3}, {1, 5}})[1] == 5
class RANKMESH_EXPORT RankMapping {
public:
    /// The identity mapping.
    RankMapping() = default;
    /// Topology rank r is world rank offset + r * step.
    explicit RankMapping(int offset, int step = 1) : offset_(offset), step_(step) {}
    /// The original's dictionary.
    RankMapping(const std::map<int, int>& ranks);

    /// Throws dialect::Error where one of the topology's `size` ranks has no world rank, or one outside a
    /// world of `world_size`; dialect::Refusal ("mapping-not-rising") where a rank is not above the one
    /// before.
    void check(int size, int world_size) const;

    /// The world rank of a topology rank; throws dialect::Error where the dictionary lacks it.
    int operator[](int topology_rank) const;
    /// The rank among the topology's `size` that a world rank is, nothing if none; the mapping is increasing.
    std::optional<int> find(int world_rank, int size) const;
    /// The world ranks of a group.
    MappedGroup of(const Group& topology_ranks) const;
    /// By how much the ranks rise where they do in equal steps.
    std::optional<int> step() const { return table_ ? std::nullopt : std::optional(step_); }

private:
    int offset_ = 0;
    int step_ = 1;
    int size_ = std::numeric_limits<int>::max();
    std::shared_ptr<const std::map<int, int>> table_;  // null where the ranks rise in equal steps
};

/// The world ranks of a group of topology ranks, in its order.
///
///     areal::RankMapping(3, 2).of(Group(4, {})).front() == 11
class MappedGroup {
public:
    using iterator = rankmesh::detail::IndexIterator<MappedGroup, int>;

    MappedGroup(const Group& topology_ranks, RankMapping mapping)
        : topology_ranks_(topology_ranks), mapping_(std::move(mapping)) {}

    int size() const { return topology_ranks_.size(); }
    int operator[](int i) const { return mapping_[topology_ranks_[i]]; }
    int front() const { return (*this)[0]; }
    int back() const { return (*this)[size() - 1]; }
    iterator begin() const { return {this, 0}; }
    iterator end() const { return {this, size()}; }

private:
    Group topology_ranks_;
    RankMapping mapping_;
};

}  // namespace rankmesh::areal
