// SPDX-License-Identifier: Apache-2.0
// Group, the ranks along some axes of a mesh; Partition, all such groups.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>

#include <rankmesh/core/detail/repeat.hpp>
#include <rankmesh/core/int.hpp>
#include <rankmesh/core/layout.hpp>

namespace rankmesh {

namespace detail {

/// A random access iterator over anything with `operator[](int)`.
template <class Range, class Value>
class IndexIterator {
public:
    using iterator_concept = std::random_access_iterator_tag;
    using iterator_category = std::input_iterator_tag;
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    using reference = Value;
    using pointer = void;

    constexpr IndexIterator() = default;
    constexpr IndexIterator(const Range* range, difference_type index) : range_(range), index_(index) {}

    constexpr Value operator*() const { return (*range_)[static_cast<int>(index_)]; }
    constexpr Value operator[](difference_type n) const { return *(*this + n); }
    constexpr IndexIterator& operator+=(difference_type n) { return index_ += n, *this; }
    constexpr IndexIterator& operator-=(difference_type n) { return index_ -= n, *this; }
    constexpr IndexIterator& operator++() { return *this += 1; }
    constexpr IndexIterator& operator--() { return *this -= 1; }
    constexpr IndexIterator operator++(int) { return std::exchange(*this, *this + 1); }
    constexpr IndexIterator operator--(int) { return std::exchange(*this, *this - 1); }
    friend constexpr IndexIterator operator+(IndexIterator a, difference_type n) { return a += n; }
    friend constexpr IndexIterator operator+(difference_type n, IndexIterator a) { return a += n; }
    friend constexpr IndexIterator operator-(IndexIterator a, difference_type n) { return a -= n; }
    friend constexpr difference_type operator-(IndexIterator a, IndexIterator b) {
        return a.index_ - b.index_;
    }
    friend constexpr bool operator==(IndexIterator a, IndexIterator b) { return a.index_ == b.index_; }
    friend constexpr auto operator<=>(IndexIterator a, IndexIterator b) { return a.index_ <=> b.index_; }

private:
    const Range* range_ = nullptr;
    difference_type index_ = 0;
};

}  // namespace detail

/// An ordered list of ranks, stored as a base plus a layout, or as up to 16 picked members; never as an array
/// of all ranks.
///
/// Law: `group.group_rank(group[i]) == i` for every i; `group_rank` of any other rank is nullopt.
/// Law: two groups are equal exactly if they list the same ranks in the same order.
class Group {
public:
    static constexpr int max_picked = 16;
    using iterator = detail::IndexIterator<Group, int>;

    constexpr Group() = default;
    constexpr Group(int base, const Layout& layout) : base_(base), layout_(layout) {}

    constexpr int size() const { return picked_count_ > 0 ? picked_count_ : layout_.size(); }

    /// Returns the rank at `position`, which must be in 0..size()-1.
    constexpr int operator[](int position) const {
        if (picked_count_ > 0) position = picked_[static_cast<std::size_t>(position)];
        return base_ + layout_.offset_of(position);
    }
    constexpr int front() const { return (*this)[0]; }
    constexpr int back() const { return (*this)[size() - 1]; }
    constexpr iterator begin() const { return {this, 0}; }
    constexpr iterator end() const { return {this, size()}; }

    /// Returns the step between neighbours if all steps are equal; nullopt if they are not, and for a group
    /// of one.
    constexpr std::optional<int> step() const {
        if (size() == 1) return std::nullopt;
        const auto step = (*this)[1] - (*this)[0];
        if (picked_count_ == 0)
            return layout_.coalesced().digit_count() == 1 ? std::optional(step) : std::nullopt;
        for (int i = 2; i < size(); ++i)
            if ((*this)[i] - (*this)[i - 1] != step) return std::nullopt;
        return step;
    }

    /// Returns the group rank of `rank`; nullopt if it is not in the group.
    constexpr std::optional<int> group_rank(Int rank) const {
        const auto whole = layout_.index_of(std::int64_t{rank} - base_);
        if (!whole || picked_count_ == 0) return whole;
        for (int i = 0; i < picked_count_; ++i)
            if (picked_[static_cast<std::size_t>(i)] == *whole) return i;
        return std::nullopt;
    }
    constexpr bool contains(Int rank) const { return group_rank(rank).has_value(); }

    /// Returns the members at these positions, each once, in the group's order. Negative positions count from
    /// the end.
    ///
    /// Throws UsageError if a position is outside -size()..size()-1, or if more than 16 members remain.
    ///
    ///     to_string(Mesh{{"pp", 4}, {"tp", 2}}.group(1, "pp").pick({0, -1})) == "{1, 7}"
    constexpr Group pick(std::span<const int> positions) const {
        auto picked = Group(base_, layout_);
        for (auto given : positions) {
            const auto position = given < 0 ? given + size() : given;
            if (position < 0 || position >= size())
                throw UsageError(detail::cat("pick ", given, " of a group of ", size(), "; positions are ",
                                             -size(), "..", size() - 1));
            picked.insert(picked_count_ > 0 ? picked_[static_cast<std::size_t>(position)] : position);
        }
        if (picked.picked_count_ == 0) throw UsageError("a pick lists no position; name at least one");
        return picked;
    }
    constexpr Group pick(std::initializer_list<int> positions) const {
        return pick(std::span<const int>(positions.begin(), positions.size()));
    }

    friend constexpr bool operator==(const Group& a, const Group& b) {
        if (a.size() != b.size()) return false;
        if (a.picked_count_ == 0 && b.picked_count_ == 0)
            return a.base_ == b.base_ && a.layout_.coalesced() == b.layout_.coalesced();
        return std::equal(a.begin(), a.end(), b.begin());
    }

private:
    constexpr void insert(int position) {
        const auto begin = picked_.begin();
        const auto end = begin + picked_count_;
        const auto place = std::lower_bound(begin, end, position);
        if (place != end && *place == position) return;
        if (picked_count_ == max_picked)
            throw UsageError(detail::cat("a pick lists more than ", max_picked, " members"));
        std::copy_backward(place, end, end + 1);
        *place = position;
        ++picked_count_;
    }

    int base_ = 0;
    Layout layout_;
    std::array<int, max_picked> picked_{};
    int picked_count_ = 0;  // 0: every member of the layout
};

/// All groups along one set of axes, in the order of their first ranks. The groups are computed on access.
///
/// Law: every rank of the mesh is in exactly one group.
class Partition {
public:
    using iterator = detail::IndexIterator<Partition, Group>;

    constexpr Partition(int base, const Layout& across, const Layout& along)
        : base_(base), across_(across), along_(along) {}

    /// Returns the number of groups.
    constexpr int size() const { return across_.size(); }
    /// Returns the number of ranks in each group.
    constexpr int group_size() const { return along_.size(); }
    /// Returns the number of ranks in all groups together.
    constexpr std::size_t rank_count() const {
        return static_cast<std::size_t>(size()) * static_cast<std::size_t>(group_size());
    }
    /// Returns the distance of each group's first rank from the first rank of the first group, as a layout.
    constexpr const Layout& across() const { return across_; }
    /// Returns the distance of each rank of a group from the group's first rank, as a layout.
    constexpr const Layout& along() const { return along_; }
    constexpr Group operator[](int i) const { return {base_ + across_.offset_of(i), along_}; }
    constexpr iterator begin() const { return {this, 0}; }
    constexpr iterator end() const { return {this, size()}; }

    /// Writes the ranks of all groups into `out`, one group after another.
    ///
    /// Throws UsageError unless `out` has rank_count() elements.
    constexpr void copy_to(std::span<int> out) const {
        if (out.size() != rank_count())
            throw UsageError(detail::cat("the ranks of ", size(), " groups of ", group_size(),
                                         " were asked for in a buffer of ", out.size(), "; it must hold ",
                                         rank_count()));
        auto digits = across_;
        for (int k = 0; k < along_.digit_count(); ++k) digits.append(along_.digit(k));
        out[0] = base_;
        detail::repeat_along(out, 1, digits);
    }

private:
    int base_ = 0;
    Layout across_;  // by falling stride: index order is the order of first ranks
    Layout along_;
};

}  // namespace rankmesh
