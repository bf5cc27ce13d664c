// SPDX-License-Identifier: Apache-2.0
// Mesh, the central type: named axes, coordinates, groups, and operations that make other meshes.
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

/// An ordered list of named axes, outermost first, whose strides map coordinates to ranks: `pp=4 dp=8 tp=8`.
///
/// A mesh is a value of less than 1 KiB and stores no list of ranks. Meshes of 8 and of 2^30 ranks cost the
/// same, and no query allocates memory.
///
/// Law: `mesh.rank(mesh.coord(r)) == r` for every rank r of the mesh.
/// Law: with plain strides rank = ((i0 * n1 + i1) * n2 + i2) ...; the last axis varies fastest.
/// Law: `group(r, "dp", "cp") == group(r, "cp", "dp")`: the order of names does not matter; members are in
/// mesh order.
/// Law: the groups of a partition cover the mesh and do not overlap; they are in the order of their first
/// ranks.
/// Law: `Mesh::parse(to_string(mesh)) == mesh`.
///
///     constexpr auto mesh = Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};
///     static_assert(mesh.coord(67)["pp"] == 1 && mesh.group(67, "pp")[0] == 3);
class Mesh {
public:
    /// The most ranks of a world, because ranks are ints from 0.
    static constexpr int max_size = std::numeric_limits<int>::max();

    /// Makes a mesh. Throws UsageError for no axes, an invalid or repeated name, a size below 1, `rest` (use
    /// MeshSpec), more than 2^31 - 1 ranks, or strides that do not nest (use Placement).
    constexpr Mesh(std::initializer_list<Axis> axes)
        : Mesh(std::span<const Axis>(axes.begin(), axes.size())) {}
    constexpr explicit Mesh(std::span<const Axis> axes);

    /// Reads `pp=4 dp=8 tp=8`, `pp=2:32 dp=4:8 @64` or `a=(2,2):(8,1) b=2:2`, with blanks or commas between
    /// axes. Throws UsageError for any other text.
    static constexpr Mesh parse(std::string_view text);
    /// Reads a mesh in which one size may be `*`; `*` is computed from `world`, the number of ranks. Without
    /// `*` the mesh may be of fewer ranks.
    ///
    /// dp=* tp=2 | parse with world 8 -> dp=4 tp=2
    static constexpr Mesh parse(std::string_view text, int world);

    /// Returns the number of ranks.
    constexpr int size() const { return layout_.size(); }
    /// Returns the lowest rank.
    constexpr int offset() const { return offset_; }
    /// Returns the highest rank plus 1: the size of the smallest world in which the mesh fits.
    constexpr int extent() const { return offset_ + layout_.last_offset() + 1; }
    /// Returns true if the ranks are 0..size()-1 in the order of the axes.
    constexpr bool is_plain() const;

    constexpr int axis_count() const { return names_.size(); }
    constexpr std::string_view name(AxisId axis) const { return names_[checked(axis).index]; }
    /// Returns the axis of that name. Throws UsageError, which suggests the nearest name, if there is none.
    constexpr AxisId axis(std::string_view name) const;
    constexpr std::optional<AxisId> find(std::string_view name) const;
    /// Returns the number of positions on an axis.
    constexpr int size(AxisRef auto const& axis) const { return sizes_[at(id(axis).index)]; }
    /// Returns the digits of one axis, outermost first.
    constexpr Layout layout(AxisRef auto const& axis) const;
    /// Returns the set of the named axes. Throws UsageError for an unknown axis.
    constexpr AxisSet axes(AxisRef auto const&... names) const {
        auto set = AxisSet{};
        (set.insert(id(names)), ...);
        return set;
    }

    /// Returns true if `rank` is in the mesh.
    constexpr bool contains(Int rank) const {
        Values values;  // not initialised: zeros would cost as much as the query
        return layout_.decode(std::int64_t{rank} - offset_, values.data());
    }
    /// Returns all ranks, in the order of the axes.
    constexpr Group ranks() const;

    /// Returns the index of `rank` on every axis. Throws UsageError if the mesh does not contain `rank`.
    ///
    /// dp=2 tp=4 | coord(6) -> dp=1 tp=2
    constexpr Coordinate coord(Int rank) const {
        auto coordinate = Coordinate(names_);
        indices(rank, std::span<int>(coordinate.index_.data(), at(axis_count())));
        return coordinate;
    }
    /// Returns the rank at a coordinate. Throws UsageError unless the coordinate has every axis once, in any
    /// order.
    constexpr int rank(const Coordinate& coordinate) const;

    /// Returns the index of `rank` on one axis. Throws UsageError if the mesh does not contain `rank`.
    constexpr int index(Int rank, AxisRef auto const& axis) const {
        return fold(decoded(rank), id(axis).index);
    }
    /// Writes the indices of `rank`, outermost axis first, into `out`, which must have axis_count() elements.
    constexpr void indices(Int rank, std::span<int> out) const;
    /// Returns the rank at these indices, outermost axis first: the inverse of `indices`.
    constexpr int rank_at(std::span<const int> indices) const;

    /// Returns the ranks that differ from `rank` only along these axes, in mesh order.
    ///
    /// dp=2 tp=4 | group(5, tp) -> {4..7}
    /// dp=2 tp=4 | group(5, dp) -> {1, 5}
    constexpr Group group(Int rank, AxisSet axes) const;
    constexpr Group group(Int rank, AxisRef auto const&... names) const
        requires(sizeof...(names) > 0)
    {
        return group(rank, axes(names...));
    }
    /// Returns the same group as a view, which does not copy strides. The mesh must outlive the view.
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
    /// Returns all groups along these axes, in the order of their first ranks.
    ///
    /// dp=2 tp=4 | partition(dp) -> {0, 4} {1, 5} {2, 6} {3, 7}
    constexpr Partition partition(AxisSet axes) const;
    constexpr Partition partition(AxisRef auto const&... names) const
        requires(sizeof...(names) > 0)
    {
        return partition(axes(names...));
    }
    /// Returns all groups along these axes. The first named axis varies slowest inside each group, as in some
    /// frameworks.
    ///
    /// dp=2 cp=2 tp=2 | partition_in_order(tp, dp) -> {0, 4, 1, 5} {2, 6, 3, 7}
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

    /// Returns the rank `by` steps along an axis; nullopt past an open edge.
    ///
    /// dp=2 tp=4 | neighbor(3, tp, 1) -> nullopt
    /// dp=2 tp=4 | neighbor(3, tp, 1, wrap) -> 0
    constexpr std::optional<int> neighbor(Int rank, AxisRef auto const& axis, Int by,
                                          Edge edge = Edge::open) const;

    /// Returns the mesh of the ranks at these indices, without these axes. Throws UsageError if no axis
    /// remains.
    ///
    /// dp=2 tp=4 | slice(dp=1) -> tp=4 @4
    /// dp=2 tp=4 | slice(tp=1) -> dp=2:4 @1
    constexpr Mesh slice(const Coordinate& fixed) const;
    /// Returns a mesh in which one axis `as`, at the place of the first of these axes, replaces them. The
    /// axes need not be adjacent.
    ///
    /// dp=2 tp=4 | flatten(dp, tp as all) -> all=8
    /// pp=2 dp=2 tp=2 | flatten(pp, tp as x) -> x=(2,2):(4,1) dp=2:2
    constexpr Mesh flatten(std::span<const std::string_view> names, std::string_view as) const;
    constexpr Mesh flatten(std::initializer_list<std::string_view> names, std::string_view as) const {
        return flatten(std::span<const std::string_view>(names.begin(), names.size()), as);
    }
    /// Returns a mesh in which several axes, outermost first, replace one axis. One size may be `rest`.
    /// Throws UsageError unless the product of the sizes is the size of the axis.
    ///
    /// dp=8 tp=2 | split(dp, replica=2 shard=*) -> replica=2 shard=4 tp=2
    constexpr Mesh split(std::string_view name, std::span<const Axis> into) const;
    constexpr Mesh split(std::string_view name, std::initializer_list<Axis> into) const {
        return split(name, std::span<const Axis>(into.begin(), into.size()));
    }
    /// Returns a mesh with the same ranks at the same coordinates and the axes in this order.
    ///
    /// dp=2 tp=4 | permuted(tp, dp) -> tp=4:1 dp=2:4
    constexpr Mesh permuted(std::span<const std::string_view> names) const;
    constexpr Mesh permuted(std::initializer_list<std::string_view> names) const {
        return permuted(std::span<const std::string_view>(names.begin(), names.size()));
    }
    /// Returns the mesh with the axes of this mesh, then the axes of `other`. Throws UsageError if the two
    /// meshes start at different ranks, share a name, or have strides that overlap.
    ///
    /// dp=2:4 | concatenate(tp=4) -> dp=2 tp=4
    ///
    /// Law: `mesh.slice(b at 0).concatenate(mesh.slice(a at 0)) == mesh`, where a are the first axes of the
    /// mesh and b all others.
    constexpr Mesh concatenate(const Mesh& other) const;
    /// Returns the same mesh with `by` added to every rank.
    ///
    /// dp=2 tp=4 | shifted(8) -> dp=2 tp=4 @8
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

/// Returns the text of a mesh, group or coordinate, in the notation that `parse` reads.
std::string to_string(const Mesh& mesh);
std::string to_string(const Group& group);
std::string to_string(const Coordinate& coordinate);

}  // namespace rankmesh

#include <rankmesh/core/detail/mesh_impl.hpp>
#include <rankmesh/core/detail/rearrange_impl.hpp>
#include <rankmesh/core/mesh_spec.hpp>
#include <rankmesh/core/text.hpp>
