// SPDX-License-Identifier: Apache-2.0
// The meshes that torchtitan's ParallelDims builds, as one rank sees them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/device_mesh.hpp>
#include <rankmesh/dialect/torchtitan/parallel_dims.hpp>

namespace rankmesh::torchtitan {

using dialect::DeviceMesh;
using dialect::NameList;
using AxisNames = std::vector<std::string>;
using Meshes = std::vector<std::pair<std::string, DeviceMesh>>;

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
class RANKMESH_EXPORT RankInfo {
public:
    /// Throws dialect::Error for a rank outside of the world.
    RankInfo(const ParallelDims& dims, int rank);

    const ParallelDims& parallel_dims() const { return dims_; }
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
    bool mesh_exists(std::string_view name, int degree) const;
    void check_is_spmd(const AxisNames& names) const;

    ParallelDims dims_;
    DeviceMesh world_mesh_;
    Meshes roots_;
    Meshes global_meshes_;       // in the order in which names are looked for
    Meshes single_axis_meshes_;  // by the name along which each lies
};

}  // namespace rankmesh::torchtitan
