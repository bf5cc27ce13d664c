// SPDX-License-Identifier: Apache-2.0
// Groups as frameworks make them: members of a group at even distances, over all ranks of the world or some.
#pragma once

#include <memory>

#include <rankmesh/core/group.hpp>

namespace rankmesh::frameworks {

/// The world rank of each rank of a smaller or larger numbering, rising; null: the same ranks.
using Placed = std::shared_ptr<const std::vector<int>>;

/// The rank that stands on this rank of the world, nothing if none does.
inline std::optional<int> rank_on(const Placed& placed, int world_rank) {
    if (!placed) return world_rank;
    const auto found = std::ranges::lower_bound(*placed, world_rank);
    if (found == placed->end() || *found != world_rank) return std::nullopt;
    return static_cast<int>(found - placed->begin());
}

/// Members of a group at even distances, in its order, as ranks of the world.
///
/// Law: `part.group_rank(part[i]) == i` for every i, and `group_rank` of any other rank is nothing.
class GroupPart {
public:
    using iterator = rankmesh::detail::IndexIterator<GroupPart, int>;

    /// The members first, first + step, ... of `whole`, `size` of them.
    GroupPart(const Group& whole, int first, int step, int size, Placed placed = {})
        : whole_(whole), first_(first), step_(step), size_(size), placed_(std::move(placed)) {}

    int size() const { return size_; }
    int operator[](int i) const {
        const auto rank = whole_[first_ + i * step_];
        return placed_ ? (*placed_)[static_cast<std::size_t>(rank)] : rank;
    }
    int front() const { return (*this)[0]; }
    int back() const { return (*this)[size_ - 1]; }
    iterator begin() const { return {this, 0}; }
    iterator end() const { return {this, size_}; }

    /// The group rank of `rank`, nothing if it is not in the group.
    std::optional<int> group_rank(int rank) const {
        const auto own = rank_on(placed_, rank);
        const auto found = own ? whole_.group_rank(*own) : std::nullopt;
        if (!found || *found < first_ || (*found - first_) % step_ != 0) return std::nullopt;
        const auto index = (*found - first_) / step_;
        return index < size_ ? std::optional(index) : std::nullopt;
    }
    bool contains(int rank) const { return group_rank(rank).has_value(); }

    /// The same members as a group in closed form; nothing where no strides give them.
    std::optional<Group> group() const {
        if (placed_) return std::nullopt;
        if (size_ == whole_.size()) return whole_;
        const auto step = whole_.step();
        if (!step) return std::nullopt;
        auto layout = Layout{};
        layout.push_back({size_, *step * step_});
        return Group(front(), layout);
    }

    friend bool operator==(const GroupPart& a, const GroupPart& b) {
        return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
    }

private:
    Group whole_;
    int first_, step_, size_;
    Placed placed_;
};

}  // namespace rankmesh::frameworks
