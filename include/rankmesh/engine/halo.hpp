// SPDX-License-Identifier: Apache-2.0
// Exchanges with the neighbours along axes of a mesh: the ghost cells of a field, and one buffer for each
// neighbour.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/buffers.hpp>
#include <rankmesh/engine/detail/memory_layout.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/strided.hpp>

namespace rankmesh {

/// How halo exchanges ghost cells.
struct HaloOptions {
    /// The number of layers of ghost cells on each side of a dimension.
    std::size_t width = 1;
    /// Whether the first and the last rank of an axis are neighbours. With Edge::open, ghost cells without a
    /// neighbour keep their values.
    Edge edge = Edge::wrap;
    /// Also exchanges the ghost cells at corners and edges of the field, which belong to diagonal neighbours:
    /// axis after axis, which takes as many rounds of messages as there are axes. Otherwise they keep their
    /// values, and all axes are exchanged at once.
    bool corners = false;
};

namespace detail {

/// An array of any number of dimensions.
struct Field {
    AnyBuffer<void> buffer;
    std::span<const MemoryLayout::Dimension> dimensions;
};
RANKMESH_EXPORT void run_halo(const Member& me, const Field& field, std::span<const std::string_view> axes,
                              const HaloOptions& options);
RANKMESH_EXPORT Pending start_halo(const Member& me, const Field& field,
                                   std::span<const std::string_view> axes, const HaloOptions& options);
RANKMESH_EXPORT Pending start_neighbors(const Member& me, std::span<const std::string_view> axes,
                                        const ConstBuffers& ins, const Buffers& outs, Edge edge);

template <class Field>
using extents_t = decltype(traits_of<Field>::extents(std::declval<const std::remove_reference_t<Field>&>()));
/// A mesh axis for each dimension of a field.
template <class Field>
using AxesOf = std::array<std::string_view, std::tuple_size_v<extents_t<Field>>>;

/// Calls `body` with a description of a field.
template <class F, class Body>
decltype(auto) with_field(F&& field, Body&& body) {
    const auto buffer = any_buffer<void>(field, [] { return "a field of halo"; });
    const auto bytes = static_cast<std::ptrdiff_t>(size_of(buffer.dtype) * buffer.unit);
    const auto extents = traits_of<F>::extents(field);
    const auto strides = traits_of<F>::strides(field);
    auto dimensions = std::array<MemoryLayout::Dimension, std::tuple_size_v<extents_t<F>>>{};
    for (std::size_t i = 0; i < dimensions.size(); ++i)
        dimensions[i] = {static_cast<std::ptrdiff_t>(extents[i]),
                         static_cast<std::ptrdiff_t>(strides[i]) * bytes};
    return body(Field{buffer, dimensions});
}

}  // namespace detail

/// A field for halo: a strided view that can be written.
template <class F>
concept HaloField = detail::Laid<F> && OutBuffer<F>;

/// Fills the ghost cells of a local field from the neighbours along axes of a mesh. `axes[i]` is the axis
/// that splits dimension i of the field, or "" if none does.
///
/// A field has `width` layers of ghost cells on both sides of each split dimension. Its outermost own cells
/// become the neighbours' ghost cells. All ranks of an axis call it with equal faces. Throws UsageError if a
/// split dimension has fewer own cells than `width`, and errors of messages.
///
///     void step(Member& me, std::vector<double>& u, int nx, int ny) {  // own cells: nx by ny
///         halo(me, strided(u.data(), {nx + 2, ny + 2}), {"x", "y"}, {.width = 1, .edge = Edge::open});
///     }
template <HaloField F>
void halo(const Member& me, F&& field, const detail::AxesOf<F>& axes, const HaloOptions& options = {}) {
    detail::with_field(field, [&](const auto& it) { detail::run_halo(me, it, axes, options); });
}
/// Starts halo. The own cells may be read until wait(), ghost cells may not be used. Throws UsageError for
/// corners, which are exchanged axis after axis.
///
///     void step(Member& me, std::vector<double>& u, int n, const std::function<void()>& inner_cells) {
///         auto ghosts = start_halo(me, strided(u.data(), {n + 2}), {"x"});
///         inner_cells();
///         ghosts.wait();
///     }
template <HaloField F>
Pending start_halo(const Member& me, F&& field, const detail::AxesOf<F>& axes,
                   const HaloOptions& options = {}) {
    return detail::with_field(field,
                              [&](const auto& it) { return detail::start_halo(me, it, axes, options); });
}

/// Sends one buffer to each neighbour along axes of a mesh and receives one from each, like
/// MPI_Neighbor_alltoallv on a Cartesian communicator. `ins` and `outs` have two buffers for each axis, in the
/// order of the axes: for the lower neighbour, then for the upper neighbour.
///
/// With Edge::open, buffers of neighbours that do not exist are ignored. Lengths may differ between
/// neighbours.
///
///     void trade(Member& me, std::array<std::vector<int>, 4>& out, std::array<std::vector<int>, 4>& in) {
///         neighbor_all_to_all(me, {"x", "y"}, ConstBuffers(out), Buffers(in), Edge::open);
///     }
inline void neighbor_all_to_all(const Member& me, std::initializer_list<std::string_view> axes,
                                const ConstBuffers& ins, const Buffers& outs, Edge edge = Edge::wrap) {
    detail::start_neighbors(me, {axes.begin(), axes.size()}, ins, outs, edge).wait();
}
/// Starts neighbor_all_to_all.
inline Pending start_neighbor_all_to_all(const Member& me, std::initializer_list<std::string_view> axes,
                                         const ConstBuffers& ins, const Buffers& outs,
                                         Edge edge = Edge::wrap) {
    return detail::start_neighbors(me, {axes.begin(), axes.size()}, ins, outs, edge);
}

}  // namespace rankmesh
