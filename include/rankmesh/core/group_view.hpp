// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include <rankmesh/core/axis.hpp>
#include <rankmesh/core/group.hpp>

namespace rankmesh {

class Mesh;

/// The group of a rank as its mesh, which must outlive it, and two numbers: about as quick to make as a
/// coordinate.
///
/// Law: `mesh.group_view(r, axes)` lists the ranks of `mesh.group(r, axes)` in its order, and answers what it
/// does.
///
///     constexpr auto mesh = Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};
///     static_assert(mesh.group_view(67, mesh.axes("tp")).contains(70));
class GroupView {
public:
    using iterator = detail::IndexIterator<GroupView, int>;

    constexpr int size() const;
    /// The rank at `position`, which is in 0..size()-1.
    constexpr int operator[](int position) const;
    constexpr int front() const { return first_; }
    constexpr int back() const { return (*this)[size() - 1]; }
    constexpr iterator begin() const { return {this, 0}; }
    constexpr iterator end() const { return {this, size()}; }

    /// The group rank of `rank`; nothing if it is not in the group.
    constexpr std::optional<int> group_rank(Int rank) const;
    constexpr bool contains(Int rank) const;

    /// The same group, which stands without the mesh.
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
