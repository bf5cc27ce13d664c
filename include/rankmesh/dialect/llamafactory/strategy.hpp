// SPDX-License-Identifier: Apache-2.0
// LlamaFactory's DistributedStrategy: a model mesh and a data mesh over the same ranks.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::llamafactory {

/// The dimensions of both meshes.
enum class Dim { mp_replicate, mp_shard, dp, cp };

constexpr std::string_view to_string(Dim dim) {
    constexpr std::string_view names[] = {"mp_replicate", "mp_shard", "dp", "cp"};
    return names[static_cast<std::size_t>(dim)];
}

/// What LlamaFactory's configuration may say; the rest follows from the world.
struct Config {
    int mp_replicate_size = 1;
    std::optional<int> mp_shard_size = std::nullopt;
    std::optional<int> dp_size = std::nullopt;
    int cp_size = 1;
    std::chrono::seconds timeout = std::chrono::seconds(18000);
};

/// What the launcher says: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE.
struct RANKMESH_EXPORT Environment {
    std::optional<int> rank = std::nullopt;  ///< RANK; where it is not set, nothing is distributed
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;

    /// Throws UsageError for a variable that is no whole number.
    static Environment from_environment();
    /// True if RANK is set, also in a world of one.
    bool is_distributed() const { return rank.has_value(); }
};

/// The sizes of both meshes, all of them known.
class RANKMESH_EXPORT DistributedStrategy {
public:
    /// Throws dialect::Error where given sizes do not multiply to the world or one is below 1, and refuses
    /// sizes that would leave ranks out. Not distributed, mp_shard_size and dp_size are 1 whatever was given.
    ///
    ///     llamafactory::DistributedStrategy({.cp_size = 2}, 8, true).dp_size == 4
    DistributedStrategy(const Config& config, int world_size, bool is_distributed);

    std::array<int, 2> model_mesh_shape() const { return {mp_replicate_size, mp_shard_size}; }
    static constexpr std::array<std::string_view, 2> model_mesh_dim_names() {
        return {"mp_replicate", "mp_shard"};
    }
    std::array<int, 2> data_mesh_shape() const { return {dp_size, cp_size}; }
    static constexpr std::array<std::string_view, 2> data_mesh_dim_names() { return {"dp", "cp"}; }

    /// Both as meshes, cp and mp_shard fastest.
    Mesh model_mesh() const { return {{"mp_replicate", mp_replicate_size}, {"mp_shard", mp_shard_size}}; }
    Mesh data_mesh() const { return {{"dp", dp_size}, {"cp", cp_size}}; }

    int mp_replicate_size;
    int mp_shard_size;
    int dp_size;
    int cp_size;
};

/// The plan to join: the meshes `model` and `data`, and `world` over all ranks.
RANKMESH_EXPORT Plan plan(const Config& config, int world_size);

}  // namespace rankmesh::llamafactory
