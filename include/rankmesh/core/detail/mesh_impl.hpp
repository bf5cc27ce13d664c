// SPDX-License-Identifier: Apache-2.0
// The definitions behind mesh.hpp, which includes this file.
#pragma once

#include <rankmesh/core/mesh.hpp>

namespace rankmesh {

// --- building: every mesh is made axis by axis, then finished

constexpr Mesh& Mesh::push_axis(std::string_view name, const Layout& digits) {
    names_.push_back(name);
    const auto axis = axis_count() - 1;
    sizes_[at(axis)] = digits.size();
    for (int k = 0; k < digits.digit_count(); ++k) {
        const auto digit = digits.digit(k);
        const auto ranks = std::int64_t{layout_.size()} * digit.size;
        const auto last = std::int64_t{layout_.last_offset()} + std::int64_t{digit.size - 1} * digit.stride;
        if (ranks > max_size || last >= max_size)
            throw UsageError(detail::cat("with axis '", name, "' the mesh reaches ",
                                         std::max(ranks, last + 1), " ranks; a world has at most ",
                                         max_size));
        layout_.push_back(digit);
    }
    first_digit_[at(axis + 1)] = static_cast<std::uint8_t>(layout_.digit_count());
    whole_ = whole_ && digits.digit_count() <= 1;
    return *this;
}

constexpr Mesh& Mesh::finish(std::int64_t offset) {
    if (axis_count() == 0) throw UsageError("a mesh without axes; name at least one, as in 'dp=8'");
    if (offset < 0 || offset + layout_.last_offset() >= max_size)
        throw UsageError(detail::cat("the mesh would cover ranks ", offset, "..",
                                     offset + layout_.last_offset(), "; ranks are 0..", max_size - 1));
    offset_ = static_cast<int>(offset);
    if (!layout_.nests())
        throw UsageError(detail::cat("the strides of ", to_string(layout_),
                                     " overlap: a stride must be larger than all that "
                                     "smaller strides reach together; use a Placement for other orders"));
    return *this;
}

constexpr Mesh::Mesh(std::span<const Axis> axes) {
    auto stride = detail::checked_product(axes);
    auto strided = false;
    for (const auto& axis : axes) strided = strided || axis.stride != 0;
    for (const auto& axis : axes) {
        if (axis.size.is_rest())
            throw UsageError(detail::cat("axis '", axis.name,
                                         "' has size '*' and no world size is known; give a number, or "
                                         "the number of ranks"));
        const auto size = axis.size.size();
        if (strided && axis.stride == 0 && size > 1)
            throw UsageError(detail::cat("axis '", axis.name,
                                         "' has no stride, but others have; give all a stride or none"));
        stride /= size;
        auto digits = Layout{};
        digits.push_back(detail::checked_digit(axis.name, size, strided ? axis.stride : stride));
        push_axis(axis.name, digits);
    }
    finish(0);
}

// --- queries

constexpr bool Mesh::is_plain() const {
    if (offset_ != 0) return false;
    auto stride = 1;
    for (int k = layout_.digit_count() - 1; k >= 0; --k) {
        if (layout_.digit(k).stride != stride) return false;
        stride *= layout_.digit(k).size;
    }
    return true;
}

constexpr AxisId Mesh::axis(std::string_view name) const {
    const auto found = names_.find(name);
    if (found < 0) throw_no_axis(name);
    return {found};
}

constexpr std::optional<AxisId> Mesh::find(std::string_view name) const {
    const auto found = names_.find(name);
    return found < 0 ? std::nullopt : std::optional(AxisId{found});
}

constexpr Layout Mesh::layout(AxisRef auto const& axis) const {
    const auto a = id(axis).index;
    auto digits = Layout{};
    for (int k = first_digit_[at(a)]; k < first_digit_[at(a + 1)]; ++k) digits.append(layout_.digit(k));
    return digits;
}

constexpr Group Mesh::ranks() const { return {offset_, layout_.coalesced()}; }

constexpr int Mesh::axis_offset(int axis, int index) const {
    auto offset = 0;
    const int outermost = first_digit_[at(axis)];
    const int last = first_digit_[at(axis + 1)] - 1;
    if (last < outermost) return 0;  // an axis of size 1 has no digit
    for (auto k = last; k > outermost; --k) {
        const auto digit = layout_.digit(k);
        offset += index % digit.size * digit.stride;
        index /= digit.size;
    }
    return offset + index * layout_.digit(outermost).stride;
}

constexpr void Mesh::indices(Int rank, std::span<int> out) const {
    if (out.size() != at(axis_count()))
        throw UsageError(
            detail::cat("the indices of ", axis_count(), " axes were asked for in ", out.size(), " places"));
    if (has_digit_for_each_axis()) {
        if (!layout_.decode(std::int64_t{rank} - offset_, out.data())) throw_outside(rank);
        return;
    }
    Values values;  // decode fills what is read: zeros would cost as much as the rest
    if (!layout_.decode(std::int64_t{rank} - offset_, values.data())) throw_outside(rank);
    if (whole_) {
        auto next = values.data();
        for (int a = 0; a < axis_count(); ++a) out[at(a)] = sizes_[at(a)] > 1 ? *next++ : 0;
    } else {
        for (int a = 0; a < axis_count(); ++a) out[at(a)] = fold(values, a);
    }
}

constexpr int Mesh::rank_at(std::span<const int> indices) const {
    if (indices.size() != at(axis_count()))
        throw UsageError(
            detail::cat("a position on ", axis_count(), " axes was given as ", indices.size(), " indices"));
    auto rank = offset_;
    if (whole_) {
        auto inside = true;
        auto total = static_cast<std::uint32_t>(offset_);  // which may wrap around where an index is outside
        for (int a = 0; a < axis_count(); ++a) {
            const auto index = static_cast<std::uint32_t>(indices[at(a)]);
            inside = inside && index < static_cast<std::uint32_t>(sizes_[at(a)]);
            // An axis of size 1 has no digit, and index 0: any stride here adds nothing.
            total += index * static_cast<std::uint32_t>(layout_.digit(first_digit_[at(a)]).stride);
        }
        if (inside) return static_cast<int>(total);
    }
    for (int a = 0; a < axis_count(); ++a) {
        const auto index = indices[at(a)];
        if (index < 0 || index >= sizes_[at(a)]) throw_no_index(a, index);
        rank += axis_offset(a, index);
    }
    return rank;
}

constexpr int Mesh::rank(const Coordinate& coordinate) const {
    auto indices = std::array<int, max_axes>{};
    for (int i = 0; i < coordinate.size(); ++i)
        indices[at(axis(coordinate.name(i)).index)] = coordinate[AxisId{i}];
    for (int a = 0; a < axis_count(); ++a)
        if (coordinate.find(names_[a]) < 0)
            throw UsageError(detail::cat("the coordinate '", to_string(coordinate),
                                         "' says nothing of axis '", names_[a], "'; a rank of mesh ",
                                         to_string(*this), " needs every axis"));
    return rank_at(std::span<const int>(indices.data(), at(axis_count())));
}

/// The first rank of the group of `rank` along these axes, which are the mesh's; nothing for one outside the
/// mesh.
constexpr std::optional<int> Mesh::first_along(int rank, AxisSet axes) const {
    const auto offset = std::int64_t{rank} - offset_;
    const auto gapless = layout_.is_gapless();
    Values values;
    if (gapless ? static_cast<std::uint64_t>(offset) > static_cast<std::uint64_t>(layout_.last_offset())
                : !layout_.decode(offset, values.data()))
        return std::nullopt;
    for (auto left = axes.bits(); left != 0; left &= left - 1) {
        const auto a = at(std::countr_zero(left));
        for (int k = first_digit_[a]; k < first_digit_[a + 1]; ++k)
            rank -= (gapless ? layout_.value_of(k, offset) : values[at(k)]) * layout_.digit(k).stride;
    }
    return rank;
}

constexpr Group Mesh::group(Int rank, AxisSet axes) const { return group_view(rank, axes).group(); }

constexpr int GroupView::size() const {
    auto size = 1;
    for (auto left = axes_.bits(); left != 0; left &= left - 1)
        size *= mesh_->sizes_[Mesh::at(std::countr_zero(left))];
    return size;
}

constexpr int GroupView::operator[](int position) const {
    auto rank = first_;
    for (auto a = mesh_->axis_count(); a-- > 0;) {
        if (!axes_.contains({a})) continue;
        const auto size = mesh_->sizes_[Mesh::at(a)];
        rank += mesh_->axis_offset(a, position % size);
        position /= size;
    }
    return rank;
}

constexpr std::optional<int> GroupView::group_rank(Int rank) const {
    if (!contains(rank)) return std::nullopt;
    const auto values = mesh_->decoded(rank);
    auto index = 0;
    for (auto left = axes_.bits(); left != 0; left &= left - 1) {
        const auto a = std::countr_zero(left);
        index = index * mesh_->sizes_[Mesh::at(a)] + mesh_->fold(values, a);
    }
    return index;
}

constexpr bool GroupView::contains(Int rank) const {
    const auto first = mesh_->first_along(rank, axes_);
    return first && *first == first_;
}

constexpr Group GroupView::group() const {
    auto along = Layout{};
    for (auto left = axes_.bits(); left != 0; left &= left - 1) {
        const auto a = Mesh::at(std::countr_zero(left));
        for (int k = mesh_->first_digit_[a]; k < mesh_->first_digit_[a + 1]; ++k)
            along.append(mesh_->layout_.digit(k));
    }
    return {first_, along};
}

constexpr Partition Mesh::partition(AxisSet axes) const {
    checked(axes);
    auto order = std::array<AxisId, max_axes>{};
    auto count = 0;
    for (int a = 0; a < axis_count(); ++a)
        if (axes.contains({a})) order[at(count++)] = {a};
    return partition_of(std::span<const AxisId>(order.data(), at(count)));
}

constexpr Partition Mesh::partition_of(std::span<const AxisId> order) const {
    auto axes = AxisSet{};
    auto along = Layout{};
    for (auto axis : order) {
        checked(axis);
        if (axes.contains(axis))
            throw UsageError(
                detail::cat("axis '", names_[axis.index], "' is named twice in one list of axes"));
        axes.insert(axis);
        const auto digits = layout(axis);
        for (int k = 0; k < digits.digit_count(); ++k) along.append(digits.digit(k));
    }
    auto others = std::array<Digit, Layout::max_digits>{};
    auto count = 0;
    for (int a = 0; a < axis_count(); ++a)
        for (int k = first_digit_[at(a)]; k < first_digit_[at(a + 1)]; ++k)
            if (!axes.contains({a})) others[at(count++)] = layout_.digit(k);
    std::sort(others.begin(), others.begin() + count, [](Digit a, Digit b) { return a.stride > b.stride; });
    auto across = Layout{};
    for (int k = 0; k < count; ++k) across.append(others[at(k)]);
    return {offset_, across, along};
}

constexpr std::optional<int> Mesh::neighbor(Int rank, AxisRef auto const& axis, Int by, Edge edge) const {
    const auto a = id(axis).index;
    const auto size = std::int64_t{sizes_[at(a)]};
    const auto index = fold(decoded(rank), a);
    auto target = std::int64_t{index} + by;
    if (edge == Edge::wrap) target = (target % size + size) % size;
    if (target < 0 || target >= size) return std::nullopt;
    return rank + axis_offset(a, static_cast<int>(target)) - axis_offset(a, index);
}

// --- errors

inline void Mesh::throw_no_axis(int index) const {
    throw UsageError(detail::cat("axis number ", index, " was asked of mesh ", to_string(*this),
                                 "; it has axes 0..", axis_count() - 1));
}

inline void Mesh::throw_no_axis(std::string_view name) const {
    auto known = std::vector<std::string_view>{};
    for (int a = 0; a < axis_count(); ++a) known.push_back(names_[a]);
    throw UsageError(detail::cat("mesh ", to_string(*this), " has no axis ", detail::in_quotes(name),
                                 did_you_mean(name, known)));
}

inline void Mesh::throw_outside(int rank) const {
    const auto dense = size() == extent() - offset_;
    throw UsageError(detail::cat("rank ", rank, " is outside mesh ", to_string(*this), ", which covers ",
                                 dense ? "" : detail::cat(size(), " of "), "ranks ", offset_, "..",
                                 extent() - 1));
}

inline void Mesh::throw_no_index(int axis, int index) const {
    throw UsageError(detail::cat("index ", index, " is outside axis '", names_[axis], "' of mesh ",
                                 to_string(*this), "; it has 0..", sizes_[at(axis)] - 1));
}

}  // namespace rankmesh
