// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/world_mesh.hpp>

#include <algorithm>
#include <cstdlib>

#include <rankmesh/dialect/error.hpp>

#include "dialect/names.hpp"

namespace rankmesh::olmo {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::holds;
using AxisNames = std::vector<std::string>;

namespace {

/// The dimensions of a mesh, outermost first.
using Dimensions = std::vector<std::pair<std::string_view, int>>;

DeviceMesh mesh_of(const Dimensions& made, int rank, int world_size) {
    auto names = AxisNames{};
    auto shape = std::vector<int>{};
    for (const auto& [name, size] : made) {
        names.emplace_back(name);
        shape.push_back(size);
    }
    return init_device_mesh(shape, names, rank, world_size);
}

[[noreturn]] void throw_no_data_parallel() {
    throw Error(Fault::missing,
                "Data parallel config is required in addition to expert/tensor/context/pipeline parallel "
                "configs");
}

/// What is left of `ranks` for the dimensions further in.
int divided(int ranks, int degree, std::string_view config) {
    if (degree < 1 || ranks % degree != 0)
        throw Error(Fault::sizes, cat(config, ".degree must be at least 1 and divide into the world size"));
    return ranks / degree;
}

void check_experts(const ParallelConfigs& configs, int dp_world_size) {
    divided(dp_world_size, std::abs(configs.ep->degree), "ExpertParallelConfig");
    if (configs.tp)
        throw Error(Fault::exclusive, "expert parallelism is mutually exclusive with tensor parallism");
    if (configs.dp->name != DataParallelType::hsdp)
        throw Error(Fault::exclusive,
                    "expert parallelism can currently only be used with HSDP data parallelism");
}

/// The dimensions that the configurations make, checked in the original's order.
Dimensions dimensions(const ParallelConfigs& configs, int world_size, const Environment& environment) {
    const auto& [dp, tp, cp, pp, ep] = configs;
    if (!dp && !tp && !cp && !pp && !ep) return {{"dp", world_size}};
    if (!dp) throw_no_data_parallel();
    auto dp_world_size = world_size;
    if (pp) dp_world_size = divided(dp_world_size, pp->degree, "PipelineParallelConfig");
    if (cp) dp_world_size = divided(dp_world_size, cp->degree, "ContextParallelConfig");
    if (tp) dp_world_size = divided(dp_world_size, tp->degree, "TensorParallelConfig");
    if (ep) check_experts(configs, dp_world_size);

    auto made = Dimensions{};
    if (pp) made.emplace_back("pp", pp->degree);
    if (dp->name == DataParallelType::hsdp) {
        const auto by_node = !dp->num_replicas && !dp->shard_degree;
        const auto [num_replicas, shard_degree] = dp->get_replicate_and_shard_degree(
            dp_world_size, by_node ? get_num_nodes(environment, world_size) : 1);
        if (ep && ep->degree >= 0 && ep->degree != shard_degree)
            throw Error(Fault::sizes, "expert parallelism + HSDP requires the same sharding degree");
        made.emplace_back("dp_replicate", num_replicas);
        made.emplace_back("dp_shard", shard_degree);
    } else {
        made.emplace_back("dp", dp_world_size);
    }
    if (cp) made.emplace_back("cp", cp->degree);
    if (tp) made.emplace_back("tp", tp->degree);
    return made;
}

/// What OLMoDDPTrainModule leaves of `ranks`: it takes no parallelism of one rank.
int shared(int ranks, int degree, std::string_view config) {
    if (degree < 2 || ranks % degree != 0)
        throw Error(Fault::sizes, cat(config, ".degree is ", degree,
                                      "; OLMoDDPTrainModule takes 2 or more that divide the ", ranks,
                                      " ranks which are left for it"));
    return ranks / degree;
}

AxisNames names_of(const DeviceMesh& mesh, std::string_view what) {
    auto names = mesh.mesh_dim_names();
    if (!names)
        throw Error(Fault::missing, cat("could not determine ", what, " sub-mesh without dimension names"));
    return std::move(*names);
}

/// The part of the mesh along the first of `wanted` that is one of `names`.
DeviceMesh part(const DeviceMesh& mesh, const AxisNames& names, std::string_view what,
                std::initializer_list<std::string_view> wanted) {
    for (const auto name : wanted)
        if (holds(names, name)) return mesh[name];
    throw Error(Fault::unknown,
                cat("could not determine ", what, " sub-mesh from mesh with dimensions ", to_string(names)));
}

/// Makes the root indexable by `as` for two dimensions, which it replaces in `names`.
void fold(const DeviceMesh& mesh, AxisNames& names, const AxisNames& two, std::string_view as) {
    auto folded = AxisNames{};
    for (const auto& name : names) {
        if (!holds(two, name))
            folded.push_back(name);
        else if (!holds(folded, as))
            folded.emplace_back(as);
    }
    mesh[two].flatten(as, folded);
    names = std::move(folded);
}

/// Experts see different data, and the ranks of both expert dimensions hold the rest of the model together.
void fold_experts(const DeviceMesh& mesh, AxisNames& names) {
    if (holds(names, "dp") && holds(names, "ep"))
        fold(mesh, names, {"dp", "ep"}, "dp_ep");
    else if (holds(names, "ep_replicate") && holds(names, "ep_shard"))
        fold(mesh, names, {"ep_replicate", "ep_shard"}, "dp");
}

/// The names of the mesh's dimensions as the model sees them, by which its root is indexable.
AxisNames model_names(const DeviceMesh& mesh) {
    auto names = names_of(mesh, "DP model");
    fold_experts(mesh, names);
    const auto cp = std::ranges::find(names, "cp");
    if (cp != names.end()) {
        // Before the first name stands the last one, as the original counts.
        const auto before = cp == names.begin() ? names.back() : *(cp - 1);
        if (!before.starts_with("dp"))
            throw Error(Fault::argument,
                        cat("'cp' is folded into the data-parallel dimension before it, and '", before,
                            "' is none, in ", to_string(names)));
        fold(mesh, names, {before, "cp"}, "dp_cp");
    }
    return names;
}

DeviceMesh data_parallel(const DeviceMesh& mesh, AxisNames names) {
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("dp"); });
    return mesh[names];
}

DeviceMesh part_of_model(const DeviceMesh& mesh, std::string_view name, std::string_view what) {
    return part(mesh, model_names(mesh), what, {name});
}
DeviceMesh own_part(const DeviceMesh& mesh, std::string_view name, std::string_view what) {
    return part(mesh, names_of(mesh, what), what, {name});
}

}  // namespace

Mesh mesh(const ParallelConfigs& configs, int world_size, const Environment& environment) {
    return mesh_of(dimensions(configs, world_size, environment), 0, world_size).root();
}

Mesh mesh(const ExpertParallelConfig& ep_config, int world_size) {
    return build_expert_parallel_mesh(ep_config, 0, world_size).root();
}

DeviceMesh WorldMesh::build_world_mesh(const ParallelConfigs& configs) {
    if (world_mesh_)
        throw Error(Fault::exists, "world mesh already exists! You can only call 'build_world_mesh' once!");
    auto built = mesh_of(dimensions(configs, world_size_, environment_), rank_, world_size_);
    get_dp_process_group(built);
    if (configs.dp) world_mesh_ = built;
    return built;
}

DeviceMesh build_expert_parallel_mesh(const ExpertParallelConfig& ep_config, int rank, int world_size) {
    const auto degree = ep_config.degree < 0 ? world_size : ep_config.degree;
    if (degree == 0) throw Error(Fault::sizes, "'degree' is 0, and nothing is divisible by 0");
    if (world_size % degree != 0)
        throw Error(Fault::sizes, cat("Expert parallelism requires world size (", world_size,
                                      ") to be divisible by 'degree' (", degree, ")"));
    return mesh_of({{"ep_replicate", world_size / degree}, {"ep_shard", degree}}, rank, world_size);
}

DenseAndMoe build_dense_and_moe_mesh(const ParallelConfigs& configs, int rank, int world_size) {
    const auto& [dp, tp, cp, pp, ep] = configs;
    if (!dp) throw_no_data_parallel();
    const auto folded = pp ? shared(world_size, pp->degree, "PipelineParallelConfig") : world_size;
    auto dp_ranks = folded;
    if (cp) dp_ranks = shared(dp_ranks, cp->degree, "ContextParallelConfig");
    if (tp) dp_ranks = shared(dp_ranks, tp->degree, "TensorParallelConfig");
    auto dense = pp ? Dimensions{{"pp", pp->degree}} : Dimensions{};
    auto moe = dense;
    dense.emplace_back("dp", dp_ranks);
    if (cp) dense.emplace_back("cp", cp->degree);
    if (ep) {
        const auto experts = ep->degree < 0 ? folded : ep->degree;
        moe.emplace_back("ep_dp", shared(folded, experts, "ExpertParallelConfig"));
        moe.emplace_back("ep_mp", experts);
    }
    return {.dense = mesh_of(dense, rank, world_size),
            .moe = ep ? std::optional(mesh_of(moe, rank, world_size)) : std::nullopt};
}

std::string get_device_mesh_info(const DeviceMesh& device_mesh) {
    const auto names = device_mesh.mesh_dim_names();
    const auto shape = device_mesh.shape();
    auto text = std::string{};
    for (std::size_t i = 0; i < shape.size(); ++i)
        text += (i > 0 ? ", " : "") + (names ? (*names)[i] + "=" : "") + std::to_string(shape[i]);
    return cat(device_mesh.ndim(), "D device mesh with shape (", text, shape.size() == 1 ? ",)" : ")");
}

DeviceMesh get_dp_model_mesh(const DeviceMesh& mesh) { return data_parallel(mesh, model_names(mesh)); }

DeviceMesh get_dp_mesh(const DeviceMesh& mesh) {
    auto names = names_of(mesh, "DP");
    fold_experts(mesh, names);
    if (holds(names, "dp_cp"))
        throw Error(Fault::argument, "'get_dp_mesh' should be called on the original world mesh");
    return data_parallel(mesh, std::move(names));
}

Group get_dp_process_group(const DeviceMesh& mesh) {
    const auto dp_mesh = get_dp_mesh(mesh);
    return dp_mesh.ndim() > 1 ? dp_mesh.flatten("dp").get_group() : dp_mesh.get_group();
}

DeviceMesh get_dp_shard_mesh(const DeviceMesh& mesh) {
    return part_of_model(mesh, "dp_shard", "data parallel shard");
}
DeviceMesh get_dp_replicate_mesh(const DeviceMesh& mesh) {
    return part_of_model(mesh, "dp_replicate", "data parallel replicate");
}
DeviceMesh get_tp_mesh(const DeviceMesh& mesh) { return part_of_model(mesh, "tp", "tensor parallel"); }
DeviceMesh get_cp_mesh(const DeviceMesh& mesh) { return own_part(mesh, "cp", "context parallel"); }
DeviceMesh get_pp_mesh(const DeviceMesh& mesh) { return own_part(mesh, "pp", "pipeline parallel"); }

DeviceMesh get_pp_stage_mesh(const DeviceMesh& mesh, const std::optional<DeviceMesh>& pp_mesh) {
    const auto pipeline = names_of(pp_mesh ? *pp_mesh : get_pp_mesh(mesh), "pipeline parallel stage");
    auto names = names_of(mesh, "pipeline parallel stage");
    std::erase_if(names, [&](const std::string& name) { return holds(pipeline, name); });
    return mesh[names];
}

DeviceMesh get_ep_mesh(const DeviceMesh& mesh) {
    return part(mesh, names_of(mesh, "expert parallel"), "expert parallel", {"ep", "ep_shard", "dp_shard"});
}

DeviceMesh flatten_mesh(const DeviceMesh& mesh, std::string_view name) { return mesh.flatten(name); }

}  // namespace rankmesh::olmo
