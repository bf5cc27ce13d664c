// SPDX-License-Identifier: Apache-2.0
// OLMo-core's world mesh, the expert mesh, and the parts of them that it asks for by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/olmo/config.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::olmo {

/// What is given of each parallelism; what is not given has no axis, a degree of 1 has one.
struct ParallelConfigs {
    std::optional<DataParallelConfig> dp = {};
    std::optional<TensorParallelConfig> tp = {};
    std::optional<ContextParallelConfig> cp = {};
    std::optional<PipelineParallelConfig> pp = {};
    std::optional<ExpertParallelConfig> ep = {};
};

/// `pp dp cp tp` over the world, with `dp_replicate dp_shard` for dp where that is hsdp; `dp` if nothing is
/// given.
///
/// Throws dialect::Error for configurations that do not go together or do not fit the world, and
/// dialect::Refusal for replicas and shards that leave ranks out.
///
///     to_string(olmo::mesh({.dp = olmo::DataParallelConfig{}, .tp = olmo::TensorParallelConfig{2}}, 8)) ==
///         "dp=4 tp=2"
RANKMESH_EXPORT Mesh mesh(const ParallelConfigs& configs, int world_size,
                          const Environment& environment = {});
/// `ep_replicate ep_shard` over the world; throws dialect::Error for a degree that does not divide it.
RANKMESH_EXPORT Mesh mesh(const ExpertParallelConfig& ep_config, int world_size);

/// The world mesh of one rank, once it is built: what the original keeps in a global variable.
class RANKMESH_EXPORT WorldMesh {
public:
    /// Asks no process.
    WorldMesh(int rank, int world_size, const Environment& environment = {})
        : rank_(rank), world_size_(world_size), environment_(environment) {}

    /// The mesh of these configurations, with its data-parallel dimensions flattened to `dp`; kept unless
    /// nothing is given.
    ///
    /// Throws dialect::Error if one is kept already, and what `mesh` throws; then nothing is kept.
    DeviceMesh build_world_mesh(const ParallelConfigs& configs = {});
    /// The mesh that is kept, nothing before.
    const std::optional<DeviceMesh>& get_world_mesh() const { return world_mesh_; }

private:
    int rank_;
    int world_size_;
    Environment environment_;
    std::optional<DeviceMesh> world_mesh_;
};

/// The mesh of the experts, which OLMo-core does not store.
RANKMESH_EXPORT DeviceMesh build_expert_parallel_mesh(const ExpertParallelConfig& ep_config, int rank,
                                                      int world_size);

/// The world as OLMoDDPTrainModule sees it: `pp dp cp` for dense layers, and for experts, if `ep` is given,
/// `pp ep_dp ep_mp`, whose experts take their ranks from dp and cp together.
struct DenseAndMoe {
    DeviceMesh dense;
    std::optional<DeviceMesh> moe;
};

/// What OLMoDDPTrainModule keeps as `world_mesh["dense"]` and `world_mesh["moe"]`.
///
/// Throws dialect::Error without `dp`, for a degree below 2 and for one that does not divide, and
/// dialect::Refusal for `tp`, whose ranks it leaves out.
///
///     auto made = olmo::build_dense_and_moe_mesh(
///         {.dp = {{olmo::DataParallelType::ddp}}, .cp = {{2}}, .ep = {{4}}}, 5, 8);
///     EXPECT_EQ(to_string((*made.moe)["ep_mp"].mesh()), "{4..7}");
RANKMESH_EXPORT DenseAndMoe build_dense_and_moe_mesh(const ParallelConfigs& configs, int rank,
                                                     int world_size);

/// `3D device mesh with shape (pp=2, dp=2, tp=2)`.
RANKMESH_EXPORT std::string get_device_mesh_info(const DeviceMesh& device_mesh);

// The parts of a mesh below throw dialect::Error where it has no such part, or no names.

/// All dp dimensions for data-parallel models, cp folded into the one before it as `dp_cp`: replicas of the
/// context hold the same parameters.
RANKMESH_EXPORT DeviceMesh get_dp_model_mesh(const DeviceMesh& device_mesh);
/// All dp dimensions for data loading, without cp: replicas of the context read the same data.
RANKMESH_EXPORT DeviceMesh get_dp_mesh(const DeviceMesh& device_mesh);
/// The ranks of `get_dp_mesh`, several dimensions flattened to `dp`.
RANKMESH_EXPORT Group get_dp_process_group(const DeviceMesh& device_mesh);
/// The innermost dp dimension of the model mesh, which shards; none where cp is folded into it.
RANKMESH_EXPORT DeviceMesh get_dp_shard_mesh(const DeviceMesh& device_mesh);
RANKMESH_EXPORT DeviceMesh get_dp_replicate_mesh(const DeviceMesh& device_mesh);
RANKMESH_EXPORT DeviceMesh get_tp_mesh(const DeviceMesh& device_mesh);
RANKMESH_EXPORT DeviceMesh get_cp_mesh(const DeviceMesh& device_mesh);
RANKMESH_EXPORT DeviceMesh get_pp_mesh(const DeviceMesh& device_mesh);
/// All dimensions but those of `pp_mesh`, which is `get_pp_mesh(device_mesh)` unless given.
RANKMESH_EXPORT DeviceMesh get_pp_stage_mesh(const DeviceMesh& device_mesh,
                                             const std::optional<DeviceMesh>& pp_mesh = {});
/// The dimension that experts are sharded over: ep, else ep_shard, else dp_shard.
RANKMESH_EXPORT DeviceMesh get_ep_mesh(const DeviceMesh& device_mesh);

/// The mesh as one dimension, by whose name its root is indexable afterwards; "" joins the names.
///
///     auto mesh = olmo::init_device_mesh({2, 2, 2}, {{"pp", "dp", "tp"}}, 5, 8);
///     olmo::flatten_mesh(mesh[{"pp", "tp"}], "model");
///     EXPECT_EQ(to_string(mesh["model"].mesh()), "{0, 1, 4, 5}");
RANKMESH_EXPORT DeviceMesh flatten_mesh(const DeviceMesh& device_mesh, std::string_view name = {});

}  // namespace rankmesh::olmo
