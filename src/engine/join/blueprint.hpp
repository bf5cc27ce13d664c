// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/plan.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// One declared item: a set of axes, its own channel or not, or a part of each group along one axis.
struct Item {
    AxisSet axes;
    std::vector<int> picked;  // empty: whole groups
    std::string name;         // of a pick or a separate, else ""
    bool operator==(const Item&) const = default;
};

/// One mesh of a plan in a world of known size, its items in canonical order and without repeats.
struct MeshBlueprint {
    std::string name;
    Mesh mesh;
    std::shared_ptr<const std::vector<int>> placed;  // null: the mesh's own ranks
    std::vector<Item> items;
    bool lazy = false;
    Duration deadline;

    /// `dp,tp`, or the name of a pick or separate.
    std::string axes_text(const Item& item) const;
    /// One line that is equal exactly if everything that ranks must agree on is equal.
    std::string description() const;
};

/// The plan as all ranks must agree on it; throws Misuse for a plan that is wrong in itself.
std::vector<MeshBlueprint> make_blueprint(const Plan& plan, int world, Duration deadline);

/// The lines of all meshes.
std::string description(const std::vector<MeshBlueprint>& meshes);

}  // namespace rankmesh::detail
