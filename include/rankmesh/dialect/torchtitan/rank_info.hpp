// SPDX-License-Identifier: Apache-2.0
// torchtitan's ParallelDims: the degrees of parallelism, and the meshes that follow, as one rank sees them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/device_mesh.hpp>

namespace rankmesh::torchtitan {

using dialect::DeviceMesh;
using dialect::NameList;
using AxisNames = std::vector<std::string>;
using Meshes = std::vector<std::pair<std::string, DeviceMesh>>;

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

/// What ParallelDims answers on one rank; asks no process.
///
/// The same ranks have several meshes, all row-major over the world: `pp batch cp tp`, which data is loaded
/// by, `pp dp_replicate dp_shard cp tp` for dense layers, with `pp dp cp tp` under spmd_types, or
/// `pp dp_replicate fsdp tp` under partial_dtensor, and `pp dp_replicate efsdp ep` for experts. `loss` is
/// batch and cp.
///
///     auto info = torchtitan::RankInfo(torchtitan::ParallelDims({.dp_replicate = 2, .tp = 2}, 8), 5);
///     EXPECT_EQ(to_string(info.get_mesh("dp_shard").mesh()), "{5, 7}");
///     EXPECT_EQ(to_string(info.get_mesh({"dp_replicate", "dp_shard"}).mesh()), "{1, 3, 5, 7}");
class RANKMESH_EXPORT RankInfo : public ParallelDims {
public:
    /// Throws dialect::Error for a rank outside of the world.
    RankInfo(const ParallelDims& dims, int rank);

    /// All ranks along one axis, `world`.
    const DeviceMesh& world_mesh() const { return world_mesh_; }
    /// The meshes over the world that all others are parts of, by what they are for: `dataloading`, `dense`,
    /// `sparse`, and `spmd_dense_for_fwdbwd` under spmd_types.
    const Meshes& roots() const { return roots_; }

    /// The mesh along one name, or along several of one mesh, in its order; nothing where one of them is not
    /// enabled: is of one rank, unless it is `fsdp` or `dp_shard`; `efsdp` is enabled where ep is. With
    /// `include_singleton_axes` it is there all the same.
    ///
    /// Throws dialect::Error for names that do not exist, or not in one mesh, and for another order.
    std::optional<DeviceMesh> get_optional_mesh(const NameList& dims,
                                                bool include_singleton_axes = false) const;
    /// The same; throws dialect::Error also where there is none.
    DeviceMesh get_mesh(const NameList& dims) const;

    /// Every name along which meshes are built, enabled or not.
    AxisNames mesh_dim_names() const;
    /// The enabled meshes of several ranks along one name, in the order in which they are built.
    Meshes get_all_one_dimensional_meshes() const;

    /// The meshes of dense layers and of experts along what is enabled of them: `dp_replicate dp_shard cp
    /// tp`, under partial_dtensor `dp_replicate fsdp tp`, under spmd_types `dp cp tp`, and `dp_replicate
    /// efsdp ep`.
    std::vector<DeviceMesh> spmd_meshes() const;
    /// `dp cp tp`; throws dialect::Error for another backend than spmd_types.
    DeviceMesh spmd_dense_mesh() const;
    /// `dp_replicate efsdp ep` where ep is above 1 under spmd_types, else nothing.
    std::optional<DeviceMesh> spmd_sparse_mesh() const;
    /// The tp of the dense mesh, of one rank under spmd_types; throws dialect::Error for one rank otherwise.
    DeviceMesh get_dense_tp_mesh() const;

    /// The mesh along those of these axes that exist and are enabled; nothing where none is.
    std::optional<DeviceMesh> get_activated_mesh(const NameList& axes) const;
    /// The same along those of dp, cp, tp and ep, or of tp and ep under partial_dtensor. Under full_dtensor
    /// dp is dp_replicate and dp_shard.
    ///
    /// Throws dialect::Error under full_dtensor for a mesh that is none of `spmd_meshes`.
    std::optional<DeviceMesh> resolve_mesh(const NameList& axes) const;
    /// The mesh of the axes that all given layouts have; throws dialect::Error where they differ.
    std::optional<DeviceMesh> resolve_shared_mesh(std::span<const std::optional<AxisNames>> placements) const;

private:
    bool is_enabled(std::string_view name) const;
    void check_is_spmd(const AxisNames& names) const;

    DeviceMesh world_mesh_;
    Meshes roots_;
    Meshes global_meshes_;       // in the order in which names are looked for
    Meshes single_axis_meshes_;  // by the name along which each lies
};

}  // namespace rankmesh::torchtitan
