// SPDX-License-Identifier: Apache-2.0
// Lists of groups as frameworks create them, in closed form also where a group is cut into parts.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/group.hpp>

namespace rankmesh::dialect {

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

/// How every group is cut: into parts of `size` ranks at distance `step` in it; size 0 leaves it whole.
///
/// `{.size = 2, .step = 2}` makes {0, 2}, {1, 3}, {4, 6} and {5, 7} of {0..7}.
struct Cut {
    int size = 0;
    int step = 1;
};

/// The part of a group, cut that way, that the member at `position` is in.
RANKMESH_EXPORT GroupPart part_of(const Group& whole, Cut cut, int position);

/// Groups in the order in which they are created: those of a partition, cut or picked from one by one.
class RANKMESH_EXPORT GroupList {
public:
    using iterator = rankmesh::detail::IndexIterator<GroupList, GroupPart>;

    /// The groups of a partition, cut; where parts of adjacent members do not divide a group, its last part
    /// is shorter.
    ///
    /// Throws UsageError for a size or step below 1, and where parts of distant members do not divide a
    /// group.
    explicit GroupList(const Partition& groups, Cut cut = {});
    /// Of each group only the members at these positions.
    GroupList(const Partition& groups, const std::vector<int>& picked);

    int size() const { return groups_.size() * parts_; }
    /// Group number `i`, its members in the order in which they are listed at creation.
    GroupPart operator[](int i) const;
    iterator begin() const { return {this, 0}; }
    iterator end() const { return {this, size()}; }

    /// The number of ranks of all groups.
    std::size_t rank_count() const {
        return picked_.empty()
                   ? groups_.rank_count()
                   : static_cast<std::size_t>(groups_.size()) * static_cast<std::size_t>(cut_.size);
    }
    /// Writes the ranks of all groups, one group after the other, into `out`, which has rank_count() places.
    ///
    /// Throws UsageError if `out` has another length.
    void copy_to(std::span<int> out) const;

protected:
    /// What is listed of a group, before it is cut.
    Group picked(const Group& whole) const { return picked_.empty() ? whole : whole.pick(picked_); }
    GroupPart part_at(const Group& whole, int position) const { return part_of(whole, cut_, position); }

private:
    std::optional<Partition> partition() const;

    Partition groups_;
    Cut cut_;
    std::vector<int> picked_;
    int parts_ = 1;  // of each group
};

}  // namespace rankmesh::dialect
