// SPDX-License-Identifier: Apache-2.0
// torchtitan's ParallelDims: several meshes over the same ranks; experts take theirs from dp_shard, cp and
// tp.
#include <algorithm>

#include <rankmesh/dialect/torchtitan/rank_info.hpp>

#include "frameworks/members.hpp"

namespace rankmesh::frameworks {

namespace of_torchtitan {

using detail::cat;
using torchtitan::RankInfo;

constexpr auto experts_tp = "expert_tensor_parallel_degree";  // of versions of 2025
constexpr const char* dense_axes[] = {"pp", "dp_replicate", "dp_shard", "cp", "tp"};

/// The degrees, with experts of so many ranks.
torchtitan::ParallelDims dims_of(const Given& given, int ep) {
    return {{.dp_replicate = given.number("dp_replicate"),
             .dp_shard = given.number("dp_shard"),
             .cp = given.number("cp"),
             .tp = given.number("tp"),
             .pp = given.number("pp"),
             .ep = ep},
            given.world_size(),
            torchtitan::spmd_backend(given.word("spmd_backend"))};
}
torchtitan::ParallelDims dims_of(const Given& given) {
    const auto ep = given.number("ep");
    return dims_of(given, ep > 1 ? ep * given.number(experts_tp) : ep);
}

std::optional<std::int64_t> ranks(const Given& given) {
    if (given.number("dp_shard") < 0) return std::nullopt;
    auto product = std::int64_t{1};
    for (const auto* axis : dense_axes)
        product = std::min(product * std::max(given.number(axis), 1), std::int64_t{Mesh::max_size} + 1);
    return product;
}

void check_first(Given& given) { given.derive("dp_shard", dims_of(given, 1).dp_shard); }

void check_flags(const Given& given) {
    const auto ep = given.number("ep"), etp = given.number(experts_tp), tp = given.number("tp");
    const auto region = given.number("dp_shard") * given.number("cp") * tp;
    if (ep > 1 && ((etp != tp && etp != 1) || region % (std::int64_t{ep} * etp) != 0))
        throw UsageError(cat("expert_parallel_degree is ", ep, " and ", experts_tp, " ", etp,
                             "; the second is 1 or the tensor parallel degree ", tp,
                             ", and their product divides dp_shard * cp * tp, which is ", region));
}

/// Adds the meshes that ParallelDims builds, and the groups along each name that is enabled.
void extend(const Given& given, std::vector<MeshRow>& meshes, std::vector<KindRow>& kinds) {
    const auto info = RankInfo(dims_of(given), 0);
    for (const auto& [name, mesh] : info.roots()) meshes.push_back({name, axes_of(mesh.root())});
    for (const auto& name : info.mesh_dim_names())
        if (const auto part = info.get_optional_mesh(name)) {
            const auto axes = axes_of(part->root());
            auto outside = std::string{}, along = std::string{};
            for (const auto axis : words_of(axes))
                (part->axes().contains(part->root().axis(axis)) ? along : outside) += cat(" ", axis);
            for (const auto& [root, mesh] : info.roots())
                if (mesh.root() == part->root())
                    kinds.push_back({name, cat(root, ":", outside, " |", along)});
        }
}

std::optional<Mesh> experts(const Given& given, const Mesh& mesh) {
    const auto pp = mesh.size("pp"), ep = given.number("ep"), etp = given.number(experts_tp);
    if (ep == 1) return std::nullopt;
    const auto edp = mesh.size() / (pp * ep * etp);
    if (etp == 1) return Mesh{{"pp", pp}, {"edp", edp}, {"ep", ep}};
    return Mesh{{"pp", pp}, {"edp", edp}, {"ep", ep}, {"etp", etp}};
}

Values write(const std::vector<Mesh>& meshes) {
    const auto& dense = meshes.front();
    const auto tp = size_of(dense, "tp");
    const auto region = dense.size() / (size_of(dense, "pp") * size_of(dense, "dp_replicate"));
    auto values = Values{{"dp_shard", region / (size_of(dense, "cp") * tp)}};
    for (const auto* axis : {"pp", "dp_replicate", "cp", "tp"})
        values.emplace_back(axis, size_of(dense, axis));
    for (const auto& mesh : meshes)
        if (const auto ep = size_of(mesh, "ep"); ep > 1 && region % ep == 0) values.emplace_back("ep", ep);
    return values;
}

std::vector<Call> calls(const Given& given) {
    auto all = std::vector<Call>{};
    for (const auto& name : RankInfo(dims_of(given), 0).mesh_dim_names())
        all.push_back({cat("get_mesh(\"", name, "\")"), "get_mesh", {{"dims", name}}});
    return all;
}

AccessorRow called(AccessorRow row) {
    row.called = true;
    return row;
}

}  // namespace of_torchtitan

Framework torchtitan() {
    using namespace of_torchtitan;
    using Class = RankInfo;
    constexpr auto experts_why = "torchtitan's experts are runs of dp_shard, cp and tp";
    constexpr auto etp_why = "torchtitan 0.3.0 has no tensor parallelism of experts; give etp=1";
    const auto degree = [](const char* axis, const char* flag) {
        return Setting{.name = axis, .axis = axis, .flag = flag};
    };
    const auto dims = Setting{.name = "dims", .otherwise = {}, .type = Type::names, .needed = true};
    const auto axes = Setting{.name = "axes", .otherwise = {}, .type = Type::words, .needed = true};
    return {
        .name = "torchtitan",
        .version = "0.3.0",
        .original = "torchtitan.distributed.parallel_dims",
        .title = "torchtitan's degrees of parallelism, and the meshes that they build.",
        .settings_of =
            "[parallelism] of its TOML: data_parallel_shard_degree and so on; may need the world's size",
        .example = "tensor_parallel_degree=2 data_parallel_shard_degree=4",
        .settings = {degree("dp_replicate", "data_parallel_replicate_degree"),
                     {.name = "dp_shard", .otherwise = -1, .flag = "data_parallel_shard_degree"},
                     degree("cp", "context_parallel_degree"),
                     degree("tp", "tensor_parallel_degree"),
                     degree("pp", "pipeline_parallel_degree"),
                     {.name = "ep", .flag = "expert_parallel_degree"},
                     {.name = experts_tp, .only_configured = true},
                     {.name = "spmd_backend", .otherwise = "spmd_types", .type = Type::word},
                     {.name = "pipeline_parallel_schedule",
                      .otherwise = {},
                      .type = Type::maybe_word,
                      .only_configured = true,
                      .extra = "pipeline schedule"},
                     {.name = "pipeline_parallel_layers_per_stage",
                      .otherwise = {},
                      .type = Type::maybe_number,
                      .only_configured = true,
                      .extra = "layers of a virtual stage"},
                     {.name = "pipeline_parallel_first_stage_less_layers",
                      .only_configured = true,
                      .extra = "fewer layers of the first stage"},
                     {.name = "pipeline_parallel_last_stage_less_layers",
                      .only_configured = true,
                      .extra = "fewer layers of the last stage"}},
        .meshes = {{"ranks", "pp dp_replicate dp_shard cp tp"}},
        .kinds = {},
        .accessors =
            {RANKMESH_MEMBER(dp_enabled, "True for several replicas or shards."),
             RANKMESH_MEMBER(dp_replicate_enabled, "True for several replicas."),
             RANKMESH_MEMBER(dp_shard_enabled, "True for several shards."),
             RANKMESH_MEMBER(cp_enabled, "True where several ranks share a sequence."),
             RANKMESH_MEMBER(dp_cp_enabled, "True where dp or cp is."),
             RANKMESH_MEMBER(fsdp_enabled, "True where dp_shard or cp is."),
             RANKMESH_MEMBER(tp_enabled, "True where several ranks share a tensor."),
             RANKMESH_MEMBER(pp_enabled, "True for several stages."),
             RANKMESH_MEMBER(ep_enabled, "True where experts are sharded."),
             RANKMESH_MEMBER(non_data_parallel_size,
                             "The ranks of one replica's shard: cp times tp times pp."),
             RANKMESH_MEMBER(seq_len_divisor, "What a sequence's length is a multiple of."),
             RANKMESH_MEMBER(world_mesh, "All ranks along one axis, `world`."),
             RANKMESH_MEMBER(
                 get_optional_mesh,
                 "The mesh along one name, or along several of one mesh; None where one of them "
                 "is not enabled.",
                 {dims,
                  {.name = "include_singleton_axes", .otherwise = false, .type = Type::flag, .apart = true}}),
             RANKMESH_MEMBER(
                 get_mesh,
                 "The mesh along these names, as get_optional_mesh; ValueError where there is none.", {dims}),
             called(RANKMESH_MEMBER(
                 spmd_meshes, "The meshes of dense layers and of experts along what is enabled of them.")),
             called(RANKMESH_MEMBER(spmd_dense_mesh, "dp, cp and tp under spmd_types.")),
             called(RANKMESH_MEMBER(spmd_sparse_mesh,
                                    "dp_replicate, efsdp and ep where experts are parallel under "
                                    "spmd_types.")),
             called(RANKMESH_MEMBER(get_dense_tp_mesh, "The tp of the dense mesh.")),
             RANKMESH_MEMBER(get_activated_mesh,
                             "The mesh along those of these axes that exist and are enabled; None where none "
                             "is.",
                             {axes}),
             RANKMESH_MEMBER(resolve_mesh,
                             "The same along those of dp, cp, tp and ep, or of tp and ep under "
                             "partial_dtensor.\n\nUnder full_dtensor dp is dp_replicate and dp_shard, and a "
                             "mesh that is none of spmd_meshes() a ValueError.",
                             {axes}),
             answer<&Class::mesh_dim_names>("_mesh_dim_names", "The names along which meshes are built."),
             answer<&Class::roots, Class>("_roots", "The meshes that all others are parts of.")},
        .check_first = check_first,
        .check_flags = check_flags,
        .extend = extend,
        .why = {{"ep, edp", experts_why},
                {"etp", etp_why},
                {"virtual pipeline stages, fewer layers of the first stage, fewer layers of the last stage",
                 "not written; set pipeline_parallel_schedule = \"Interleaved1F1B\" and "
                 "pipeline_parallel_layers_per_stage = N, the layers of a stage"}},
        .experts = experts,
        .write = write,
        .ranks = ranks,
        .calls = calls,
        .of_rank = [](const Given& given, int rank) -> std::shared_ptr<const void> {
            return std::make_shared<const RankInfo>(dims_of(given), rank);
        },
        .base = "Answers",
        .table = "parallelism",
        .ignore =
            "fsdp_reshard_after_forward disable_loss_parallel enable_async_tensor_parallel "
            "pipeline_parallel_schedule_csv pipeline_parallel_split_points pipeline_parallel_microbatch_size "
            "context_parallel_rotate_method enable_compiled_autograd "
            "module_fqns_per_model_part spmd_backend enable_fsdp_symm_mem enable_sequence_parallel "
            "context_parallel_load_balancer context_parallel_ptrr_mask_key world_size",
        .written = Written::toml,
        .interleaved_stages = 2,
        .leaves = "data_parallel_shard_degree of -1"};
}

}  // namespace rankmesh::frameworks
