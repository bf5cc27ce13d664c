// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/device_settings.hpp>
#include <rankmesh/engine/plan.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {

inline constexpr int most_ctas = 64;  // of one communicator of NCCL

/// `max_ctas=8 high_priority name=tp`; "" if nothing is set.
std::string to_text(const DeviceSettings& settings);

/// Throws UsageError for settings that no device engine accepts; `whose` names their set in the text.
void check_settings(const DeviceSettings& settings, const std::string& whose);

/// One declared item: a set of axes, shared or separate, a pick of each group along one axis, or the ranks of
/// the mesh on one host.
struct Item {
    AxisSet axes = {};
    std::vector<int> picked = {};  // empty: whole groups
    std::string name = {};         // of a pick, a separate or the local ranks, else ""
    bool local = false;
    std::optional<Duration> timeout = std::nullopt;  // the mesh's unless given; not compared across ranks
    DeviceSettings settings = {};                    // compared across ranks

    /// True if both are the same item, however often it was declared.
    bool same(const Item& other) const {
        return axes == other.axes && picked == other.picked && name == other.name && local == other.local;
    }
    /// True if it shares its communicator with no other item.
    bool separate() const { return picked.empty() && !name.empty() && !local; }
};

/// One mesh of a plan in a world of known size, its items in canonical order and without repeats.
struct MeshBlueprint {
    std::string name;
    Mesh mesh;
    std::string text;                                // `pp=2 dp=4`
    std::shared_ptr<const std::vector<int>> placed;  // null: the mesh's own ranks
    std::vector<Item> items;
    bool lazy = false;
    Duration timeout;

    /// The names of an item's axes, in the order of the mesh.
    std::vector<std::string> axis_names(const Item& item) const;
    /// `dp,tp`, or the name of a pick or separate.
    std::string axes_text(const Item& item) const;
    /// The number of ranks in each group of an item, which is not that of one host.
    int group_size(const Item& item) const;
    /// `'dp,tp' of mesh dp=2 tp=2`, or of mesh 'dense'.
    std::string item_text(const Item& item) const;
    /// One line that is equal exactly if everything that ranks must agree on is equal. `words`: for each
    /// item, what else they must agree on.
    std::string description(std::span<const std::string> words = {}) const;
};

/// The plan as all ranks must agree on it; throws UsageError for an invalid plan.
std::vector<MeshBlueprint> make_blueprint(std::span<const Declaration> plan, int world, Duration timeout);

/// The lines of all meshes.
std::string description(const std::vector<MeshBlueprint>& meshes);

}  // namespace rankmesh::detail
