// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/torchtitan/rank_info.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::torchtitan {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto spmd_dense = "spmd_dense_for_fwdbwd", spmd_sparse = "spmd_sparse_for_fwdbwd";

/// `['dp', 'tp']`.
std::string listed(std::span<const std::string> names) {
    auto text = std::string("[");
    for (const auto& name : names) text += cat(text.size() == 1 ? "'" : ", '", name, "'");
    return text + "]";
}

const DeviceMesh* find(const Meshes& meshes, std::string_view name) {
    for (const auto& [known, mesh] : meshes)
        if (known == name) return &mesh;
    return nullptr;
}

bool holds(const AxisNames& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

AxisNames names_of(const DeviceMesh& mesh) { return mesh.mesh_dim_names().value_or(AxisNames{}); }

/// The axes of the mesh of dense layers.
AxisNames dense_axes(SpmdBackend backend) {
    if (backend == SpmdBackend::partial_dtensor) return {"dp_replicate", "fsdp", "tp"};
    if (backend == SpmdBackend::full_dtensor) return {"dp_replicate", "dp_shard", "cp", "tp"};
    return {"dp", "cp", "tp"};
}

const auto sparse_axes = AxisNames{"dp_replicate", "efsdp", "ep"};

}  // namespace

RankInfo::RankInfo(const ParallelDims& d, int rank)
    : dims_(d), world_mesh_(dialect::init_device_mesh({d.world_size}, {{"world"}}, rank, d.world_size)) {
    const auto root = [&](std::string_view name, const AxisNames& axes, std::initializer_list<int> degrees) {
        return roots_.emplace_back(name, dialect::init_device_mesh(degrees, axes, rank, d.world_size)).second;
    };
    const auto batch = d.dp_replicate * d.dp_shard, fsdp = d.dp_shard * d.cp;
    const auto spmd = d.spmd_backend == SpmdBackend::spmd_types;
    const auto folded = d.spmd_backend == SpmdBackend::partial_dtensor;
    const auto dataloading = root("dataloading", {"pp", "batch", "cp", "tp"}, {d.pp, batch, d.cp, d.tp});
    const auto dense =
        folded ? root("dense", {"pp", "dp_replicate", "fsdp", "tp"}, {d.pp, d.dp_replicate, fsdp, d.tp})
               : root("dense", {"pp", "dp_replicate", "dp_shard", "cp", "tp"},
                      {d.pp, d.dp_replicate, d.dp_shard, d.cp, d.tp});
    const auto sparse = root("sparse", {"pp", "dp_replicate", "efsdp", "ep"},
                             {d.pp, d.dp_replicate, fsdp * d.tp / d.ep, d.ep});
    global_meshes_ = roots_;

    const auto along = [&](const DeviceMesh& mesh, std::string_view name) {
        single_axis_meshes_.emplace_back(name, mesh[name]);
    };
    along(dataloading, "pp");
    along(dataloading, "batch");
    single_axis_meshes_.emplace_back("loss", dataloading[{"batch", "cp"}].flatten("loss_mesh"));
    along(dense, "dp_replicate");
    for (const auto* name : {"cp", "tp"}) along(dataloading, name);
    for (const auto* name : {"ep", "efsdp"}) along(sparse, name);
    if (spmd) {
        const auto whole = root(spmd_dense, {"pp", "dp", "cp", "tp"}, {d.pp, batch, d.cp, d.tp});
        global_meshes_.emplace_back(spmd_dense, whole[dense_axes(d.spmd_backend)]);
        along(whole, "dp");
    }
    along(dense, folded ? "fsdp" : "dp_shard");
    if (spmd && d.ep > 1) global_meshes_.emplace_back(spmd_sparse, sparse[sparse_axes]);
}

bool RankInfo::mesh_exists(std::string_view name, int degree) const {
    if (name == "fsdp" || name == "dp_shard") return true;
    return name == "efsdp" ? dims_.ep > 1 : degree > 1;
}

std::optional<DeviceMesh> RankInfo::get_optional_mesh(const NameList& names,
                                                      bool include_singleton_axes) const {
    const auto& dims = names.list();
    auto all_exist = true;
    for (const auto& dim : dims) {
        const auto* mesh = find(single_axis_meshes_, dim);
        if (!mesh)
            throw Error(Fault::unknown, cat("Invalid mesh dim: '", dim,
                                            "'. Valid dimensions are: ", listed(mesh_dim_names())));
        all_exist = all_exist && mesh_exists(dim, mesh->size());
    }
    if (!include_singleton_axes && !all_exist) return std::nullopt;
    if (dims.size() == 1) return *find(single_axis_meshes_, dims.front());
    for (const auto& [name, mesh] : global_meshes_) {
        const auto known = names_of(mesh);
        if (std::ranges::all_of(dims, [&](const auto& dim) { return holds(known, dim); })) return mesh[dims];
    }
    throw Error(Fault::exclusive, cat("Invalid mesh name combinations ", listed(dims), "."));
}

DeviceMesh RankInfo::get_mesh(const NameList& dims) const {
    if (auto mesh = get_optional_mesh(dims)) return *mesh;
    throw Error(Fault::missing, cat("Mesh '", dims.is_one() ? dims.list().front() : listed(dims.list()),
                                    "' is not available. Ensure the corresponding parallelism dimension is ",
                                    dims.is_one() ? "enabled (size > 1)." : "all enabled."));
}

AxisNames RankInfo::mesh_dim_names() const {
    auto names = AxisNames{};
    for (const auto& [name, mesh] : single_axis_meshes_) names.push_back(name);
    return names;
}

Meshes RankInfo::get_all_one_dimensional_meshes() const {
    auto meshes = single_axis_meshes_;
    std::erase_if(meshes, [&](const auto& named) {
        return named.second.size() == 1 || !mesh_exists(named.first, named.second.size());
    });
    return meshes;
}

std::vector<DeviceMesh> RankInfo::spmd_meshes() const {
    auto meshes = std::vector<DeviceMesh>{};
    for (const auto& axes : {dense_axes(dims_.spmd_backend), sparse_axes})
        if (auto mesh = get_activated_mesh(axes)) meshes.push_back(std::move(*mesh));
    return meshes;
}

DeviceMesh RankInfo::spmd_dense_mesh() const {
    if (const auto* mesh = find(global_meshes_, spmd_dense)) return *mesh;
    throw Error(Fault::not_initialised, cat("there is no mesh '", spmd_dense, "' with the backend ",
                                            to_string(dims_.spmd_backend), "; it is there with spmd_types"));
}

std::optional<DeviceMesh> RankInfo::spmd_sparse_mesh() const {
    const auto* mesh = find(global_meshes_, spmd_sparse);
    return mesh ? std::optional(*mesh) : std::nullopt;
}

DeviceMesh RankInfo::get_dense_tp_mesh() const {
    if (dims_.spmd_backend == SpmdBackend::spmd_types) return spmd_dense_mesh()["tp"];
    return dims_.spmd_backend == SpmdBackend::full_dtensor ? spmd_meshes().front()["tp"] : get_mesh("tp");
}

std::optional<DeviceMesh> RankInfo::get_activated_mesh(const NameList& axes) const {
    auto enabled = axes.list();
    std::erase_if(enabled, [&](const auto& axis) {
        const auto* mesh = find(single_axis_meshes_, axis);
        return !mesh || !mesh_exists(axis, mesh->size());
    });
    return enabled.empty() ? std::nullopt : get_optional_mesh(enabled);
}

std::optional<DeviceMesh> RankInfo::resolve_mesh(const NameList& axes) const {
    if (dims_.spmd_backend == SpmdBackend::full_dtensor) {
        auto mesh = get_activated_mesh(unfold_dp_axes(axes.list()));
        if (mesh) check_is_spmd(names_of(*mesh));
        return mesh;
    }
    auto kept = axes.list();
    std::erase_if(kept, [&](const auto& axis) {
        const auto is_data = dims_.spmd_backend == SpmdBackend::spmd_types && (axis == "dp" || axis == "cp");
        return axis != "tp" && axis != "ep" && !is_data;
    });
    return get_activated_mesh(kept);
}

/// Throws Error for names that no SPMD mesh has; equal names are of equal meshes.
void RankInfo::check_is_spmd(const AxisNames& names) const {
    auto valid = std::string{};
    for (const auto& known : spmd_meshes()) {
        if (names_of(known) == names) return;
        valid += cat(valid.empty() ? "" : ", ", listed(names_of(known)));
    }
    throw Error(Fault::argument, cat("Resolved mesh ", listed(names),
                                     " does not match any SPMD mesh. Valid meshes: [", valid, "]."));
}

std::optional<DeviceMesh> RankInfo::resolve_shared_mesh(
    std::span<const std::optional<AxisNames>> placements) const {
    const AxisNames* shared = nullptr;
    for (const auto& axes : placements) {
        if (!axes) continue;
        if (!shared) shared = &*axes;
        if (*axes == *shared) continue;
        auto first = *shared, other = *axes;
        std::ranges::sort(first);
        std::ranges::sort(other);
        throw Error(Fault::argument,
                    cat("Inconsistent mesh axes within a boundary: ", listed(first), " vs ", listed(other)));
    }
    return shared ? resolve_mesh(*shared) : std::nullopt;
}

}  // namespace rankmesh::torchtitan
