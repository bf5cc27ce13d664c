// SPDX-License-Identifier: Apache-2.0
// What OLMo-core's parallel configurations say, and what it reads from the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::olmo {

/// What the launcher says of the machines.
struct Environment {
    std::optional<int> num_nodes = {};         ///< NUM_NODES
    std::optional<int> local_world_size = {};  ///< LOCAL_WORLD_SIZE
};

/// NUM_NODES and LOCAL_WORLD_SIZE of this process's environment, where the latter is not set the ranks of
/// `world` on this host.
RANKMESH_EXPORT Environment environment_of(const World& world);

/// NUM_NODES, else the whole part of the world over LOCAL_WORLD_SIZE.
///
/// Throws dialect::Error where neither is known, as the original does (KeyError) in a world of any size.
RANKMESH_EXPORT int get_num_nodes(const Environment& environment, int world_size);

/// fsdp and ddp give the same mesh; hsdp shards within replicas.
enum class DataParallelType : std::uint8_t { fsdp, hsdp, ddp };

/// The type of that name; throws dialect::Error for any other name.
RANKMESH_EXPORT DataParallelType data_parallel_type(std::string_view name);

struct RANKMESH_EXPORT DataParallelConfig {
    DataParallelType name = DataParallelType::fsdp;
    std::optional<int> num_replicas = {};
    std::optional<int> shard_degree = {};

    /// How many replicas of how many shards: one replica a node if neither is given, the other of what is
    /// given otherwise; where both are, that they make the world is checked by the mesh.
    ///
    /// Throws dialect::Error for one that is 0 or does not divide.
    ///
    ///     olmo::DataParallelConfig{.num_replicas = 4}.get_replicate_and_shard_degree(8, 2).second == 2
    std::pair<int, int> get_replicate_and_shard_degree(int dp_world_size, int num_nodes) const;
};

struct TensorParallelConfig {
    int degree = 1;
};

struct ContextParallelConfig {
    int degree = 1;
};

/// A negative degree means the number of ranks that there are to shard over.
struct ExpertParallelConfig {
    int degree = 1;
};

}  // namespace rankmesh::olmo
