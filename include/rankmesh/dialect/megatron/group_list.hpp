// SPDX-License-Identifier: Apache-2.0
// Lists of groups as Megatron-core creates them.
#pragma once

#include <optional>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/dialect/group_list.hpp>

namespace rankmesh::megatron {

using dialect::Cut;
using dialect::GroupPart;

/// The groups of a mesh, which tells every rank its own.
///
/// Law: `list.of(r)` holds r for every rank r of the mesh that no pick leaves out.
class RANKMESH_EXPORT GroupList : public dialect::GroupList {
public:
    /// The groups along `axes`, cut.
    GroupList(const Mesh& mesh, AxisSet axes, Cut cut = {})
        : dialect::GroupList(mesh.partition(axes), cut), mesh_(mesh), axes_(axes) {}
    /// The groups along `axes`, of each only the members at these positions.
    GroupList(const Mesh& mesh, AxisSet axes, const std::vector<int>& picked)
        : dialect::GroupList(mesh.partition(axes), picked), mesh_(mesh), axes_(axes) {}
    /// The groups along axes, each listed with the first axis outermost.
    GroupList(const Mesh& mesh, std::span<const AxisId> order);

    /// The group of `rank`, its members ascending; nothing if it is in none.
    std::optional<GroupPart> of(int rank) const;

private:
    Mesh mesh_;
    AxisSet axes_;
};

/// True if both meshes have the same groups along these axes, in the same order.
RANKMESH_EXPORT bool same_groups(const Mesh& a, AxisSet along_a, const Mesh& b, AxisSet along_b);

/// The groups as the original's messages write them, `[[0, 1], [2, 3]]`, the first few of many.
RANKMESH_EXPORT std::string listed(const Partition& groups);

}  // namespace rankmesh::megatron
