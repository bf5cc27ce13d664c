// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <rankmesh/core/axis.hpp>
#include <rankmesh/core/coordinate.hpp>
#include <rankmesh/core/group.hpp>
#include <rankmesh/core/group_view.hpp>
#include <rankmesh/core/layout.hpp>
#include <rankmesh/core/layout_text.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh {

/// An ordered list of named axes laid over ranks by strides, outermost first: `pp=4 dp=8 tp=8`.
///
/// A mesh is a value of under 1 KiB without a table: 8 ranks and 2^30 cost the same, and no query allocates.
///
/// Law: `mesh.rank(mesh.coord(r)) == r` for every rank r of the mesh.
/// Law: with plain strides rank = ((i0 * n1 + i1) * n2 + i2) ..., the last axis varies fastest.
/// Law: `group(r, "dp", "cp")` equals `group(r, "cp", "dp")`: a set of axes is a set, its members in mesh
/// order.
/// Law: the groups of a partition cover the mesh and do not overlap; they are listed by their first ranks.
/// Law: `Mesh::parse(to_string(mesh)) == mesh`.
///
///     constexpr auto mesh = Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};
///     static_assert(mesh.coord(67)["pp"] == 1 && mesh.group(67, "pp")[0] == 3);
class Mesh {
public:
    /// The largest world: ranks are ints from 0.
    static constexpr int max_size = std::numeric_limits<int>::max();

    /// Throws UsageError for no axes, a bad or repeated name, a size below 1, `rest` (use MeshSpec), more
    /// than 2^31 - 1 ranks, or strides that do not nest (use Placement).
    constexpr Mesh(std::initializer_list<Axis> axes)
        : Mesh(std::span<const Axis>(axes.begin(), axes.size())) {}
    constexpr explicit Mesh(std::span<const Axis> axes);

    /// Reads `pp=4 dp=8 tp=8`, `pp=2:32 dp=4:8 @64` or `a=(2,2):(8,1) b=2:2`; throws UsageError.
    static constexpr Mesh parse(std::string_view text);
    /// The same with at most one size `*`, which becomes whatever the world of `world` ranks leaves over.
    static constexpr Mesh parse(std::string_view text, int world);

    /// The number of ranks.
    constexpr int size() const { return layout_.size(); }
    /// The lowest rank.
    constexpr int offset() const { return offset_; }
    /// One more than the highest rank: the smallest world in which the mesh fits.
    constexpr int extent() const { return offset_ + layout_.last_offset() + 1; }
    /// True if the ranks are 0..size()-1 in the order of the axes.
    constexpr bool is_plain() const;

    constexpr int axis_count() const { return names_.size(); }
    constexpr std::string_view name(AxisId axis) const { return names_[checked(axis).index]; }
    /// The axis of that name; throws UsageError that names the nearest spelling.
    constexpr AxisId axis(std::string_view name) const;
    constexpr std::optional<AxisId> find(std::string_view name) const;
    /// The number of positions on an axis.
    constexpr int size(AxisRef auto const& axis) const { return sizes_[at(id(axis).index)]; }
    /// The digits of one axis, outermost first.
    constexpr Layout layout(AxisRef auto const& axis) const;
    /// All axes named; throws UsageError for an unknown one.
    constexpr AxisSet axes(AxisRef auto const&... names) const {
        auto set = AxisSet{};
        (set.insert(id(names)), ...);
        return set;
    }

    /// True if `rank` is in the mesh.
    constexpr bool contains(Int rank) const {
        Values values;  // zeros would cost as much as the rest
        return layout_.decode(std::int64_t{rank} - offset_, values.data());
    }
    /// All ranks, in the order of the axes.
    constexpr Group ranks() const;

    /// The position of `rank` on every axis; throws UsageError if the mesh does not contain it.
    constexpr Coordinate coord(Int rank) const {
        auto coordinate = Coordinate(names_);
        indices(rank, std::span<int>(coordinate.index_.data(), at(axis_count())));
        return coordinate;
    }
    /// The rank at a coordinate that names every axis once, in any order; throws UsageError otherwise.
    constexpr int rank(const Coordinate& coordinate) const;

    /// The position of `rank` on one axis; throws UsageError if the mesh does not contain it.
    constexpr int index(Int rank, AxisRef auto const& axis) const {
        return fold(decoded(rank), id(axis).index);
    }
    /// Writes the positions of `rank`, outermost axis first, into `out`, which has axis_count() places.
    constexpr void indices(Int rank, std::span<int> out) const;
    /// The rank at these positions, outermost axis first: the inverse of `indices`.
    constexpr int rank_at(std::span<const int> indices) const;

    /// The ranks that differ from `rank` only along these axes, in mesh order.
    constexpr Group group(Int rank, AxisSet axes) const;
    constexpr Group group(Int rank, AxisRef auto const&... names) const
        requires(sizeof...(names) > 0)
    {
        return group(rank, axes(names...));
    }
    /// The same group without a copy of its strides; the mesh must outlive it.
    constexpr GroupView group_view(Int rank, AxisSet axes) const& {
        const auto first = first_along(rank, checked(axes));
        if (!first) throw_outside(rank);
        return {*this, axes, *first};
    }
    constexpr GroupView group_view(Int rank, AxisRef auto const&... names) const&
        requires(sizeof...(names) > 0)
    {
        return group_view(rank, axes(names...));
    }
    GroupView group_view(Int rank, auto const&... axes) const&& = delete;
    /// All groups along these axes, in the order of their first ranks.
    constexpr Partition partition(AxisSet axes) const;
    constexpr Partition partition(AxisRef auto const&... names) const
        requires(sizeof...(names) > 0)
    {
        return partition(axes(names...));
    }
    /// All groups along these axes, each listed with the first named axis outermost, as some frameworks do.
    ///
    /// Throws UsageError if an axis is named twice.
    constexpr Partition partition_in_order(AxisRef auto const&... names) const
        requires(sizeof...(names) > 0)
    {
        const auto order = std::array{id(names)...};
        return partition_of(order);
    }
    constexpr Partition partition_in_order(std::span<const AxisId> order) const {
        return partition_of(order);
    }

    /// The rank `by` steps along an axis; past an open edge nothing.
    constexpr std::optional<int> neighbor(Int rank, AxisRef auto const& axis, Int by,
                                          Edge edge = Edge::open) const;

    /// The mesh of the ranks at these positions, without these axes; throws UsageError if no axis is left.
    constexpr Mesh slice(const Coordinate& fixed) const;
    /// These axes as one axis `as`, at the place of the first of them; they need not be adjacent.
    constexpr Mesh flatten(std::span<const std::string_view> names, std::string_view as) const;
    constexpr Mesh flatten(std::initializer_list<std::string_view> names, std::string_view as) const {
        return flatten(std::span<const std::string_view>(names.begin(), names.size()), as);
    }
    /// One axis as several, outermost first, at most one of them `rest`; throws UsageError if the sizes do
    /// not multiply to it.
    constexpr Mesh split(std::string_view name, std::span<const Axis> into) const;
    constexpr Mesh split(std::string_view name, std::initializer_list<Axis> into) const {
        return split(name, std::span<const Axis>(into.begin(), into.size()));
    }
    /// The same ranks at the same coordinates, axes listed in another order.
    constexpr Mesh permuted(std::span<const std::string_view> names) const;
    constexpr Mesh permuted(std::initializer_list<std::string_view> names) const {
        return permuted(std::span<const std::string_view>(names.begin(), names.size()));
    }
    /// The axes of this mesh, then those of `other`, over all ranks that both reach together; throws
    /// UsageError if they start at different ranks, share a name, or their strides overlap.
    ///
    /// Law: `mesh.slice(b at 0).concatenate(mesh.slice(a at 0))` is `mesh` for axes a before b that start it.
    constexpr Mesh concatenate(const Mesh& other) const;
    /// The same mesh `by` ranks further on.
    constexpr Mesh shifted(Int by) const;

    friend constexpr bool operator==(const Mesh&, const Mesh&) = default;

private:
    friend class MeshSpec;
    friend class GroupView;
    using Values = std::array<int, Layout::max_digits>;

    struct Unfinished {};
    constexpr explicit Mesh(Unfinished) {}
    constexpr Mesh& push_axis(std::string_view name, const Layout& digits);
    constexpr Mesh& finish(std::int64_t offset);

    static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
    constexpr AxisId id(AxisId axis) const { return checked(axis); }
    constexpr AxisId id(std::string_view name) const { return axis(name); }
    constexpr AxisId checked(AxisId axis) const {
        if (axis.index < 0 || axis.index >= axis_count()) throw_no_axis(axis.index);
        return axis;
    }
    constexpr AxisSet checked(AxisSet axes) const {
        if (axes.bits() >> axis_count() != 0) throw_no_axis(31 - std::countl_zero(axes.bits()));
        return axes;
    }
    constexpr bool has_digit_for_each_axis() const { return whole_ && layout_.digit_count() == axis_count(); }
    constexpr Values decoded(int rank) const {
        auto values = Values{};
        if (!layout_.decode(std::int64_t{rank} - offset_, values.data())) throw_outside(rank);
        return values;
    }
    constexpr int fold(const Values& values, int axis) const {
        auto index = 0;
        for (int k = first_digit_[at(axis)]; k < first_digit_[at(axis + 1)]; ++k)
            index = index * layout_.digit(k).size + values[at(k)];
        return index;
    }
    constexpr int axis_offset(int axis, int index) const;
    constexpr std::optional<int> first_along(int rank, AxisSet axes) const;
    constexpr Partition partition_of(std::span<const AxisId> order) const;

    [[noreturn]] void throw_no_axis(int index) const;
    [[noreturn]] void throw_no_axis(std::string_view name) const;
    [[noreturn]] void throw_outside(int rank) const;
    [[noreturn]] void throw_no_index(int axis, int index) const;

    Names names_;
    Layout layout_;
    std::array<int, max_axes> sizes_{};
    std::array<std::uint8_t, max_axes + 1> first_digit_{};
    int offset_ = 0;
    bool whole_ = true;  // no axis has more than one digit
};

static_assert(sizeof(Mesh) <= 1024);

/// What the mesh, group or coordinate is in the notation that `parse` reads.
std::string to_string(const Mesh& mesh);
std::string to_string(const Group& group);
std::string to_string(const Coordinate& coordinate);

}  // namespace rankmesh

#include <rankmesh/core/detail/mesh_impl.hpp>
#include <rankmesh/core/detail/rearrange_impl.hpp>
#include <rankmesh/core/mesh_spec.hpp>
#include <rankmesh/core/text.hpp>
