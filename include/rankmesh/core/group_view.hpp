// SPDX-License-Identifier: Apache-2.0
// GroupView, a group that refers to its mesh instead of copying strides.
#pragma once

#include <cstddef>
#include <optional>

#include <rankmesh/core/axis.hpp>
#include <rankmesh/core/group.hpp>

namespace rankmesh {

class Mesh;

/// A group that refers to its mesh, which must outlive it. Making one costs about as much as a coordinate.
///
/// Law: `mesh.group_view(r, axes)` lists the same ranks in the same order as `mesh.group(r, axes)`, and gives
/// the same answers.
///
///     constexpr auto mesh = Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};
///     static_assert(mesh.group_view(67, mesh.axes("tp")).contains(70));
class GroupView {
public:
    using iterator = detail::IndexIterator<GroupView, int>;

    constexpr int size() const;
    /// Returns the rank at `position`, which must be in 0..size()-1.
    constexpr int operator[](int position) const;
    constexpr int front() const { return first_; }
    constexpr int back() const { return (*this)[size() - 1]; }
    constexpr iterator begin() const { return {this, 0}; }
    constexpr iterator end() const { return {this, size()}; }

    /// Returns the group rank of `rank`; nullopt if it is not in the group.
    constexpr std::optional<int> group_rank(Int rank) const;
    constexpr bool contains(Int rank) const;

    /// Returns the same group as a Group, which does not refer to the mesh.
    constexpr Group group() const;

private:
    friend class Mesh;
    constexpr GroupView(const Mesh& mesh, AxisSet axes, int first)
        : mesh_(&mesh), axes_(axes), first_(first) {}

    const Mesh* mesh_;
    AxisSet axes_;
    int first_;
};

}  // namespace rankmesh

#include <rankmesh/core/mesh.hpp>
