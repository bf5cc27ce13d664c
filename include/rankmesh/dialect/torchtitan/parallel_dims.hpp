// SPDX-License-Identifier: Apache-2.0
// torchtitan's ParallelDims: the degrees of parallelism, and what follows from them alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::torchtitan {

/// The names of mesh axes that layouts of tensors use.
struct MeshAxisName {
    static constexpr std::string_view dp = "dp", dp_replicate = "dp_replicate", dp_shard = "dp_shard",
                                      fsdp = "fsdp", tp = "tp", cp = "cp", pp = "pp", ep = "ep",
                                      efsdp = "efsdp";
};

/// The axes that store what is laid out along `axis`: `dp_replicate` and `dp_shard` for `dp`, else itself.
///
/// Throws dialect::Error for a name that is no MeshAxisName.
RANKMESH_EXPORT std::vector<std::string> unfold_dp_axis(std::string_view axis);
/// The same of each axis, one after the other.
RANKMESH_EXPORT std::vector<std::string> unfold_dp_axes(std::span<const std::string> axes);

/// Which dense meshes are built: with `fsdp`, which is dp_shard and cp together, with `dp_shard`, or with
/// `dp` and `dp_shard`.
enum class SpmdBackend : std::uint8_t { partial_dtensor, full_dtensor, spmd_types };

RANKMESH_EXPORT std::string_view to_string(SpmdBackend backend);
/// The backend of that name; throws dialect::Error for any other name.
RANKMESH_EXPORT SpmdBackend spmd_backend(std::string_view name);

/// As much of torchtitan's ParallelismConfig as the meshes depend on, with its defaults.
struct ParallelismConfig {
    int data_parallel_replicate_degree = 1;
    int data_parallel_shard_degree = -1;
    int context_parallel_degree = 1;
    int tensor_parallel_degree = 1;
    int pipeline_parallel_degree = 1;
    int expert_parallel_degree = 1;
    SpmdBackend spmd_backend = SpmdBackend::spmd_types;
};

/// How many ranks each parallelism has; a dp_shard of -1 stands for the ranks that the others leave.
struct Degrees {
    int dp_replicate = 1;
    int dp_shard = -1;
    int cp = 1;
    int tp = 1;
    int pp = 1;
    int ep = 1;
    friend bool operator==(const Degrees&, const Degrees&) = default;
};

/// Degrees that fit a world, all of them known. Experts take their ranks from dp_shard, cp and tp.
///
///     torchtitan::ParallelDims({.dp_replicate = 2, .tp = 2}, 8).dp_shard == 2
class RANKMESH_EXPORT ParallelDims : public Degrees {
public:
    /// Throws dialect::Error for a degree below 1, degrees that do not multiply to the world, and experts
    /// that do not divide dp_shard * cp * tp.
    ParallelDims(const Degrees& degrees, int world_size, SpmdBackend spmd_backend = SpmdBackend::spmd_types);
    static ParallelDims from_config(const ParallelismConfig& config, int world_size);

    int world_size;
    SpmdBackend spmd_backend;

    bool dp_enabled() const { return dp_replicate > 1 || dp_shard > 1; }
    bool dp_replicate_enabled() const { return dp_replicate > 1; }
    bool dp_shard_enabled() const { return dp_shard > 1; }
    bool cp_enabled() const { return cp > 1; }
    bool dp_cp_enabled() const { return dp_enabled() || cp_enabled(); }
    bool fsdp_enabled() const { return dp_shard_enabled() || cp_enabled(); }
    bool tp_enabled() const { return tp > 1; }
    bool pp_enabled() const { return pp > 1; }
    bool ep_enabled() const { return ep > 1; }
    int non_data_parallel_size() const { return cp * tp * pp; }
    /// What a sequence's length is a multiple of: of tp, and of twice cp, whose load balancing halves it.
    std::int64_t seq_len_divisor() const { return std::int64_t{tp} * (std::int64_t{cp} * 2); }

    friend bool operator==(const ParallelDims&, const ParallelDims&) = default;
};

}  // namespace rankmesh::torchtitan
